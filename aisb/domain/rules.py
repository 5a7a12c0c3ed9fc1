"""
The engine: may this run reach that host and port?

One pure judge for the bridge, the helper behind squid and the command line, so that they cannot
disagree. The gate's image carries this file, so it needs nothing but the standard library. What is
not allowed by an entry is denied.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import canonical_name, is_address, parents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = 1
TLS_PORT = 443
WEB_PORTS = (80, TLS_PORT)
# Answered inside the gate itself: every start proves the way through with it, and no host of the user's is asked.
PROBE_NAME = "ok.aisb.internal"
OWN_SUFFIX = "aisb.internal"
# What each start tries to reach and must not (gate/probe.py): in the audit, but nobody's news.
PROBED = ("192.0.2.1", "2001:db8:ffff::1", "denied.aisb.internal")

# The method of the last line of a record that is full.
CUT_OFF = "AUDIT"

TREE = "tree"
EXACT = "exact"
BELOW = "below"
MATCHES = (TREE, EXACT, BELOW)


class Reason:
    """Why something was refused: the same word in the answer, the audit and the summary."""

    NOT_LISTED = "not-listed"
    PORT = "port"
    METHOD = "method"
    NAME_MISMATCH = "name-mismatch"
    NOT_TLS = "not-tls"
    PRIVATE_ADDRESS = "private-address"
    DIRECT_ADDRESS = "direct-address"
    DNS = "dns"
    LIMIT = "limit"
    BAD_REQUEST = "bad-request"


class Failure:
    """Why nothing came of what was allowed: a word in the audit."""

    UNRESOLVED = "unresolved"
    UNANSWERED = "unanswered"


SENTENCES = {
    Reason.NOT_LISTED: "no entry of the policy covers this host",
    Reason.PORT: "the host is allowed, but not on this port",
    Reason.METHOD: "the host is allowed, but not with this method and path",
    Reason.NAME_MISMATCH: "the names in the request are not one and the same",
    Reason.NOT_TLS: "what was said on port 443 is not TLS, or names no host",
    Reason.PRIVATE_ADDRESS: "the name leads to a private address",
    Reason.DIRECT_ADDRESS: "an address is not a name: only names are allowed",
    Reason.DNS: "no entry of the policy covers this name",
    Reason.LIMIT: "too many connections at once",
    Reason.BAD_REQUEST: "the gate does not take a request in this form",
    Failure.UNRESOLVED: "is allowed, but its name does not resolve",
    Failure.UNANSWERED: "is allowed, but does not answer",
}


class Verdict(NamedTuple):
    """
    The engine's answer.

    `rule` is the entry that allowed it; `add` the entry that would have, empty where none would.
    """

    allowed: bool
    reason: str = ""
    rule: str = ""
    add: str = ""


class NameEntry(NamedTuple):
    """A name that may be reached: itself (`exact`), what is below it (`below`) or both (`tree`)."""

    host: str
    match: str
    ports: tuple[int, ...]

    def text(self) -> str:
        """The entry as a person would write it."""
        prefix = {TREE: "", EXACT: "exact:", BELOW: "below:"}[self.match]
        if self.ports == WEB_PORTS:
            return prefix + self.host
        return ",".join(f"{prefix}{self.host}:{port}" for port in self.ports)

    def covers_name(self, name: str) -> bool:
        """Whether the canonical `name` falls under this entry, on whatever port."""
        if name == self.host:
            return self.match != BELOW
        return self.match != EXACT and name.endswith("." + self.host)


class Engine:
    """Judges requests by a fixed list of entries."""

    def __init__(self, names: Iterable[NameEntry]) -> None:
        self._by_host: dict[str, list[NameEntry]] = {}
        for entry in (NameEntry(PROBE_NAME, EXACT, WEB_PORTS), *names):
            self._by_host.setdefault(entry.host, []).append(entry)

    @classmethod
    def from_json(cls, text: str) -> Engine:
        """The engine for a policy in its canonical JSON. Raises ValueError for anything else."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("version") != VERSION or set(data) != {"version", "names"}:
            raise ValueError("this policy is not of version 1")
        return cls(_name_entry(item) for item in data["names"])

    def judge(self, host: str, port: int) -> Verdict:
        """Whether a connection to `host` (a name or an address) and `port` is allowed."""
        if is_address(host):
            # No entry of this version allows an address, so none is proposed.
            return Verdict(allowed=False, reason=Reason.DIRECT_ADDRESS)
        try:
            name = canonical_name(host)
        except ValueError:
            return Verdict(allowed=False, reason=Reason.BAD_REQUEST)
        covering = list(self._covering(name))
        for entry in covering:
            if port in entry.ports:
                return Verdict(allowed=True, rule=entry.text())
        return _denied(name, port, Reason.PORT if covering else Reason.NOT_LISTED)

    def judge_name(self, name: str) -> Verdict:
        """Whether `name` is one that may be resolved: some entry covers it on some port."""
        try:
            canonical = canonical_name(name)
        except ValueError:
            return Verdict(allowed=False, reason=Reason.DNS)
        for entry in self._covering(canonical):
            return Verdict(allowed=True, rule=entry.text())
        return _denied(canonical, WEB_PORTS[-1], Reason.DNS)

    def judge_tls(self, host: str, port: int, sni: str) -> Verdict:
        """Whether a TLS connection meant for `host` may go on with this SNI: only with that very name."""
        verdict = self.judge(host, port)
        if not verdict.allowed:
            return verdict
        if not sni:
            return Verdict(allowed=False, reason=Reason.NOT_TLS)
        return verdict if _same_name(host, sni) else Verdict(allowed=False, reason=Reason.NAME_MISMATCH)

    def judge_http(
        self, host: str, port: int, *, scheme: str, url_host: str, url_port: int, host_header: str
    ) -> Verdict:
        """
        Whether a plain request may go on over a connection meant for `host` and `port`.

        Never to the port of TLS. The URL and the Host header must name that very host and port, and the scheme
        be http: squid dials what the URL says, so a request that names another would reach it.
        """
        verdict = self.judge(host, port)
        if not verdict.allowed:
            return verdict
        header_host, header_port = _split_host_header(host_header)
        agree = (
            scheme == "http"
            and url_port == port
            and header_port == port
            and _same_name(host, url_host)
            and _same_name(host, header_host)
        )
        if not agree:
            return Verdict(allowed=False, reason=Reason.NAME_MISMATCH)
        # Nothing but TLS goes to this port, by whatever way.
        return Verdict(allowed=False, reason=Reason.NOT_TLS) if port == TLS_PORT else verdict

    def _covering(self, name: str) -> Iterator[NameEntry]:
        for candidate in (name, *parents_of(name)):
            for entry in self._by_host.get(candidate, ()):
                if entry.covers_name(name):
                    yield entry


def _denied(name: str, port: int, reason: str) -> Verdict:
    return Verdict(allowed=False, reason=reason, add=entry_for(name, port))


def entry_for(name: str, port: int) -> str:
    """The `--allow` entry that would let a canonical name be reached at a port; "" where none would."""
    # Below a top-level name are many owners: the parser takes no such entry.
    if _is_own(name) or "." not in name:
        return ""
    return name if port in WEB_PORTS else f"{name}:{port}"


def _is_own(name: str) -> bool:
    return name == OWN_SUFFIX or name.endswith("." + OWN_SUFFIX)


def _same_name(one: str, other: str) -> bool:
    try:
        return canonical_name(one) == canonical_name(other)
    except ValueError:
        return False


def _split_host_header(text: str) -> tuple[str, int]:
    host, colon, port = text.partition(":")
    if not colon:
        return host, 80
    return host, int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0


def _name_entry(item: object) -> NameEntry:
    if not isinstance(item, dict) or set(item) != {"host", "match", "ports"}:
        raise ValueError("a name entry has host, match and ports")
    ports = item["ports"]
    if (
        item["match"] not in MATCHES
        or not isinstance(item["host"], str)
        or canonical_name(item["host"]) != item["host"]
        or not isinstance(ports, list)
        or not all(type(port) is int and 1 <= port <= 65535 for port in ports)
    ):
        raise ValueError("a name entry is not in canonical form")
    return NameEntry(item["host"], item["match"], tuple(ports))
