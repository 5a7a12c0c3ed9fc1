"""
Secrets that a gate puts into requests, so that no sandbox ever holds one.

What a sandbox has is a placeholder. It becomes the secret in one header, of requests over TLS to one exact name, and
nowhere else. The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import re
from binascii import Error, a2b_base64, b2a_base64
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import canonical_name
from aisb.domain.http_request import HTTPS
from aisb.domain.verdict import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisb.domain.http_request import HttpRequest

TLS_PORT = 443
AUTHORIZATION = "Authorization"
# Where programs carry credentials, and what else they may put one into: looked through for placeholders wherever the
# gate reads requests. squid hands on headers by their names alone.
LOOKED_THROUGH = (
    AUTHORIZATION, "Api-Key", "Apikey", "Cookie", "From", "Job-Token", "Origin", "Private-Token", "Proxy-Authorization",
    "Referer", "Token", "User-Agent", "X-Access-Token", "X-Amz-Security-Token", "X-Api-Key", "X-Auth-Key",
    "X-Auth-Token", "X-Forwarded-For", "X-Gitlab-Token", "X-Goog-Api-Key", "X-Token", "X-Vault-Token",
)  # fmt: skip
# What a server sends back as it came.
_TRACE = "TRACE"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,19}) (\S+)")
_BASIC = "basic"
_PERCENT = re.compile("%([0-9A-Fa-f]{2})")


class Injection(NamedTuple):
    """Where a secret goes: one exact name, and one header of requests to it, in the form of `header_form`."""

    host: str
    header: str


class Secret(NamedTuple):
    """A secret, what stands for it in the sandbox, and where it goes. Never written anywhere, never in a log."""

    host: str
    header: str
    placeholder: str
    value: str


class Treatment(NamedTuple):
    """
    What becomes of the headers of a request: those that are taken out, and those that are put in, by name.

    With a `fault` the request is refused.
    """

    fault: str = ""
    taken: tuple[str, ...] = ()
    given: tuple[tuple[str, str], ...] = ()

    def verdict(self) -> Verdict:
        """The refusal that a fault leads to."""
        return Verdict(allowed=False, reason=Reason.SECRET, detail=self.fault)


def injected_headers(injections: Iterable[Injection]) -> tuple[str, ...]:
    """The headers into which a secret may go, each once and in one order: squid's rules and the helper number them."""
    return tuple(sorted({injection.header for injection in injections}))


def headers_read(injections: Iterable[Injection]) -> tuple[str, ...]:
    """The headers of each request that the helper is told of, in the order of its line; none where nothing goes in."""
    own = injected_headers(injections)
    return tuple(sorted({*own, *LOOKED_THROUGH})) if own else ()


def header_form(name: str) -> str:
    """The one form of a header's name, whose letters mean the same in either case."""
    return "-".join(part.capitalize() for part in name.split("-"))


def secrets_json(secrets: Iterable[Secret]) -> bytes:
    """How secrets travel, in memory alone."""
    return json.dumps([list(secret) for secret in secrets]).encode("ascii")


def unpack_secrets(data: bytes) -> tuple[Secret, ...]:
    """What `secrets_json` made. Raises ValueError, without a value in it, for anything else."""
    try:
        return tuple(Secret(*map(str, item)) for item in json.loads(data))
    except (ValueError, TypeError):
        # Not `from`: the cause would show what it could not read.
        raise ValueError("the secrets are not in their form") from None


def read_secrets(data: bytes, injections: Iterable[Injection]) -> tuple[Secret, ...]:
    """The secrets of a policy's injections. Raises ValueError, without a value in it, for any others."""
    secrets = unpack_secrets(data)
    if sorted(Injection(secret.host, secret.header) for secret in secrets) != sorted(injections):
        raise ValueError("the secrets are not those of the policy")
    return secrets


class Injector:
    """Decides what becomes of the headers of each request that was allowed."""

    def __init__(self, secrets: Iterable[Secret] = (), injections: Iterable[Injection] = ()) -> None:
        self._secrets = tuple(secrets)
        injections = tuple(injections)
        self.headers_read = headers_read(injections)
        self.headers_given = injected_headers(injections)
        self._placeholders = frozenset(secret.placeholder for secret in self._secrets)

    def treat(self, request: HttpRequest, headers: Mapping[str, str]) -> Treatment:
        """
        The treatment of a request of which every name is known to be one. `headers` are by their names in one form.

        On its way to an injected host a header holds what the gate puts in, or nothing: no other credential.
        """
        own = self._own(request)
        given = {}
        for name, text in headers.items():
            value = _put_in(text, own[name]) if name in own else None
            if value is not None:
                given[name] = value
            elif self._holds_one(text):
                return Treatment(f"the placeholder of a secret stands in {name}, where that secret does not go")
        if self._holds_one(request.path):
            return Treatment("the placeholder of a secret stands in the path, where no secret goes")
        return Treatment("", tuple(sorted(own)), tuple(sorted(given.items())))

    def _own(self, request: HttpRequest) -> dict[str, Secret]:
        if request.scheme != HTTPS or request.port != TLS_PORT or request.method == _TRACE:
            return {}
        name = canonical_name(request.host)
        return {secret.header: secret for secret in self._secrets if secret.host == name}

    def _holds_one(self, text: str) -> bool:
        decoded = _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)
        readings = (text, decoded, *(_from_base64(word) for word in text.replace(",", " ").split()))
        return any(placeholder in reading for placeholder in self._placeholders for reading in readings)


def _put_in(text: str, secret: Secret) -> str | None:
    """The header with the secret in the placeholder's place; None where it is not exactly a credential with that."""
    if text == secret.placeholder:
        return secret.value
    match = _SCHEME.fullmatch(text)
    if match is None:
        return None
    scheme, credential = match.groups()
    if credential == secret.placeholder:
        return f"{scheme} {secret.value}"
    if scheme.lower() != _BASIC:
        return None
    user, colon, password = _from_base64(credential).partition(":")
    if not colon or secret.placeholder not in (user, password):
        return None
    pair = ":".join(secret.value if part == secret.placeholder else part for part in (user, password))
    return f"{scheme} {b2a_base64(pair.encode('latin-1'), newline=False).decode('ascii')}"


def _from_base64(text: str) -> str:
    """What is hidden in it, "" where it is no base64."""
    try:
        return a2b_base64(text.encode("latin-1") + b"==").decode("latin-1")
    except (Error, ValueError):
        return ""
