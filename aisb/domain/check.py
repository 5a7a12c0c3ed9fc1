"""
What would happen to this connection or request: the gate's own engine, asked beforehand, with file and line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.entries import a_label
from aisb.domain.gather import gather
from aisb.domain.hosts import canonical_host, parse_authority, show_authority
from aisb.domain.http_request import HTTP, HTTPS, honest_request
from aisb.domain.net import ALLOW, FULL
from aisb.domain.rules import HOST_NAME, TLS_PORT, Engine, Verdict
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.injection import Injection
    from aisb.domain.policy import Policy

_TARGET = re.compile(r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<place>[^/?#@\s]+)(?P<path>[/?][^#\s]*)?", re.IGNORECASE)
_WITH_USER = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?[^/?#@]+@", re.IGNORECASE)
_PORTS = {HTTP: 80, HTTPS: 443}
_FORMS = "write: HOST, HOST:PORT, or https://HOST/PATH"


class Target(NamedTuple):
    """A connection to a host and port, and the request that is sent over it; a connection alone has no method."""

    host: str
    port: int
    scheme: str = ""
    method: str = ""
    path: str = ""


class Answer(NamedTuple):
    """
    The verdict, where what decided was written, whether the gate reads the host's requests, and whether it puts a
    secret into this one where the sandbox asks for that.
    """

    target: Target
    verdict: Verdict
    origins: tuple[str, ...]
    bumped: bool
    injected: bool = False


def parse_target(text: str, method: str = "") -> Target:
    """
    The target of a check: a URL or anything with a path is a request, by GET where nobody says otherwise.

    Raises UsageError for what names no host.
    """
    if _WITH_USER.match(text):
        # Not shown: a password may be in it.
        raise UsageError("a target has no user and no password", hint=_FORMS)
    match = _TARGET.fullmatch(text)
    scheme = match["scheme"].lower() if match and match["scheme"] else ""
    if match is None or scheme not in ("", *_PORTS):
        raise UsageError(f"{text!r} is nothing that could be asked for", hint=_FORMS)
    try:
        host, port = _place(match["place"], _PORTS.get(scheme, 443))
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}", hint=_FORMS) from error
    if not (method or scheme or match["path"]):
        return Target(host, port)
    path = match["path"] or "/"
    scheme = scheme or (HTTP if port == _PORTS[HTTP] else HTTPS)
    return Target(host, port, scheme, method or "GET", path if path.startswith("/") else f"/{path}")


def _place(text: str, default_port: int) -> tuple[str, int]:
    name, colon, port = text.rpartition(":")
    # An IPv6 address stands in brackets here, as in every URL.
    is_bare = not colon or text.endswith("]")
    # As an entry says it.
    name = HOST_NAME if name == "host" else name
    host = a_label(text if is_bare else name)
    host, number = parse_authority(f"{host}:{default_port if is_bare else port}")
    return canonical_host(host), number


def check(policy: Policy, target: Target) -> Answer:
    """The gate's answer. Raises UsageError where no gate would be asked."""
    if policy.net == FULL:
        raise UsageError("under --net full nothing is judged: everything can be reached", hint="leave --net full out")
    engine = Engine(*policy.egress)
    if policy.net != ALLOW:
        where = policy.origins.get("net", "--net")
        refused = Verdict(allowed=False, reason="no-network", detail=f"there is no network: net={policy.net} ({where})")
        return Answer(target, refused, (), bumped=False)
    verdict = _judge(engine, target)
    injected = verdict.allowed and is_injected(policy.egress.injections, target)
    return Answer(target, verdict, _origins(policy, target, verdict), engine.is_bumped(target.host), injected)


def is_injected(injections: Iterable[Injection], target: Target) -> bool:
    """Whether a secret may go into such a request: to that very host, over TLS, and never by TRACE."""
    over_tls = target.scheme in ("", HTTPS) and target.port == TLS_PORT
    return over_tls and target.method != "TRACE" and any(item.host == target.host for item in injections)


def _judge(engine: Engine, target: Target) -> Verdict:
    if not target.method:
        return engine.judge(target.host, target.port)
    return engine.judge_request(honest_request(target.method, target.scheme, target.host, target.port, target.path))


def _origins(policy: Policy, target: Target, verdict: Verdict) -> tuple[str, ...]:
    """Where what decided was written; of a host with rules of which none matched, all of them."""
    rules = policy.gathered.origins.get(target.host)
    if rules is not None:
        decided = rules[verdict.rule_index - 1 : verdict.rule_index] if verdict.rule_index else rules
        return tuple(dict.fromkeys(decided))
    if not verdict.allowed:
        return ()
    # A reduced entry may be the sum of several: each that allows this by itself is one that decided.
    alone = ((item, Engine(*gather([(item.entry, item.origin)]).policy)) for item in policy.allow)
    return tuple(dict.fromkeys(item.origin for item, engine in alone if engine.judge(target.host, target.port).allowed))


def shown(target: Target) -> str:
    """The target as one word."""
    place = show_authority(target.host, target.port)
    return f"{target.method} {target.scheme}://{place}{target.path}" if target.method else place
