"""
What the user changes while a run lasts: entries that allow or deny, in the order in which they were said.

The last word that covers a connection counts; where none does, the policy that the run began with decides. The
gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import AddressEntry
from aisb.domain.hosts import canonical_name, is_address
from aisb.domain.names import MATCHES, WEB_PORTS, NameEntry, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = 1
ALLOW = "allow"
DENY = "deny"
ACTIONS = (ALLOW, DENY)
# How the rule begins in the record of what such a word has closed.
CLOSING = f"aisb {DENY} "
# The match of an entry whose host is a network of addresses.
ADDRESS = "address"
# Of one run: more than anybody says, and few enough to go through at each connection.
MOST_ENTRIES = 200


class LiveEntry(NamedTuple):
    """
    One word of the user's.

    `host` is a name, or a network where `match` is ADDRESS. Without `ports` it is about all of them. `until` is in
    seconds since the machine's start, sleep included; 0 for as long as the run lasts.
    """

    action: str
    host: str
    match: str
    ports: tuple[int, ...] = ()
    until: float = 0.0

    @property
    def allows(self) -> bool:
        """Whether this opens something."""
        return self.action == ALLOW

    def covers(self, host: str, port: int) -> bool:
        """Whether this is about that canonical host and port."""
        return (not self.ports or port in self.ports) and self.covers_host(host)

    def covers_host(self, host: str) -> bool:
        """Whether this is about that canonical name or address, on whatever port."""
        if self.match == ADDRESS:
            return is_address(host) and ip_address(host) in ip_network(self.host)
        return not is_address(host) and NameEntry(self.host, self.match, ()).covers_name(host)

    def text(self) -> str:
        """The entry as a person would write it."""
        if self.match == ADDRESS:
            return AddressEntry(ip_network(self.host), self.ports[0] if self.ports else None).text()
        return NameEntry(self.host, self.match, self.ports or WEB_PORTS).text()

    def rule(self) -> str:
        """What the record of a run calls it."""
        return f"aisb {self.action} {self.text()}"

    def settles(self, earlier: LiveEntry) -> bool:
        """Whether nothing is left of what was said earlier: this is about the same host, and all ports of that."""
        is_same = (self.host, self.match) == (earlier.host, earlier.match)
        return is_same and (not self.ports or (earlier.ports != () and {*earlier.ports} <= {*self.ports}))


def live_entry(action: str, entry: NameEntry | AddressEntry) -> LiveEntry:
    """
    What `aisb allow` or `aisb deny` of an entry means.

    A name without a port is opened at 80 and 443, as anywhere else, and closed at every port.
    """
    if isinstance(entry, AddressEntry):
        return LiveEntry(action, str(entry.network), ADDRESS, () if entry.port is None else (entry.port,))
    ports = () if action == DENY and entry.ports == WEB_PORTS else entry.ports
    return LiveEntry(action, entry.host, entry.match, ports)


def said(entries: Iterable[LiveEntry], more: Iterable[LiveEntry]) -> tuple[LiveEntry, ...]:
    """
    The list after `more` was said too, without what that settles.

    Raises ValueError where more and more is allowed; a denial is always heard.
    """
    added = tuple(more)
    # What is allowed for a time leaves a denial that is heard again afterwards.
    kept = (
        entry for entry in entries if not any(new.settles(entry) and (entry.allows or not new.until) for new in added)
    )
    result = (*kept, *added)
    if len(result) > MOST_ENTRIES and any(entry.allows for entry in added):
        raise ValueError(f"more than {MOST_ENTRIES} entries of one run: start a new one with --allow")
    return result


def alive(entries: Iterable[LiveEntry], now: float) -> tuple[LiveEntry, ...]:
    """The entries whose time is not over."""
    return tuple(entry for entry in entries if not entry.until or entry.until > now)


def next_end(entries: Iterable[LiveEntry]) -> float:
    """When the first of them ends, 0 where none does."""
    return min((entry.until for entry in entries if entry.until), default=0.0)


def opened(entries: Iterable[LiveEntry]) -> Iterator[LiveEntry]:
    """Those that open a name: squid has to hear of it."""
    return (entry for entry in entries if entry.allows and entry.match != ADDRESS)


def live_json(entries: Iterable[LiveEntry]) -> str:
    """The canonical JSON."""
    return json.dumps({"version": VERSION, "entries": [entry._asdict() for entry in entries]}, sort_keys=True) + "\n"


def read_live(text: str) -> tuple[LiveEntry, ...]:
    """The entries in canonical JSON. Raises ValueError for anything that `live_json` does not write."""
    try:
        document = json.loads(text)
        entries = tuple(map(read_entry, document["entries"]))
        if live_json(entries) == text:
            return entries
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError("these entries are not in canonical form") from error
    raise ValueError("these entries are not in canonical form")


def read_entry(item: object) -> LiveEntry:
    """An entry that came as JSON. Raises ValueError for what is none."""
    if not isinstance(item, dict) or set(item) != set(LiveEntry._fields):
        raise ValueError(f"an entry has the fields {' '.join(LiveEntry._fields)}")
    action, host, match, ports, until = (item[name] for name in LiveEntry._fields)
    if action not in ACTIONS or not isinstance(host, str) or not isinstance(ports, list):
        raise ValueError("this is no entry")
    if type(until) not in (int, float) or not 0 <= until < float("inf"):
        raise ValueError("an entry ends at a number of seconds")
    if not all(type(port) is int and 1 <= port <= 65535 for port in ports):
        raise ValueError("a port is a number from 1 to 65535")
    entry = LiveEntry(action, host, match, tuple(ports), float(until))
    _check_host(entry)
    return entry


def _check_host(entry: LiveEntry) -> None:
    if entry.match == ADDRESS:
        canonical = str(ip_network(entry.host))
    elif entry.match in MATCHES:
        canonical = canonical_name(entry.host)
    else:
        raise ValueError("this is no kind of entry")
    if canonical != entry.host:
        raise ValueError("an entry is not in canonical form")


def check_said(entry: LiveEntry) -> LiveEntry:
    """An entry that somebody may say. Raises ValueError for one about a name that is aisb's own."""
    if entry.match != ADDRESS and is_own(entry.host):
        raise ValueError(f"{entry.host} is aisb's own name")
    return entry
