"""
What a policy comes to without a gate: each name for itself, pinned to the addresses that it has when a run starts.

A ruleset knows addresses and ports. What takes somebody who reads names, requests or connections is refused, not
dropped.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import AddressEntry, covers, is_private, is_probe
from aisb.domain.entry_kinds import HostPortEntry, RuleEntry
from aisb.domain.names import BELOW, EXACT, NameEntry
from aisb.domain.net import HOST_V4, HOST_V6
from aisb.domain.proposals import entry_for
from aisb.domain.verdict import Reason
from aisb.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from aisb.domain.addresses import Network
    from aisb.domain.egress import EgressPolicy
    from aisb.domain.entry_kinds import Entry
    from aisb.domain.gather import SourcedHost

_DNS_PORT = 53
_WAY_OUT = "leave it out, or run with a gate: without --no-gate"
# Where a user-mode network shows this host inside. No entry opens one.
_MAPPED = tuple(map(ip_network, (*HOST_V4, *HOST_V6)))
# Of each family: an answer with all of them fits into one packet.
MOST_ADDRESSES = 8
_MOST_NAMED = 5
_MOST_NOTES = 20


class Pin(NamedTuple):
    """A name and what the sandbox is told of it: every address is open at one of `ports` at least."""

    name: str
    addresses: tuple[str, ...]


class Pinned(NamedTuple):
    """
    The names that can be reached, the pairs of address and port that are open for them, and what was left out and why.
    """

    names: tuple[Pin, ...]
    opened: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]


def kept_alone(entry: Entry, shown: str) -> Entry:
    """
    The entry as it can be kept without a gate: a name is that name alone. A preset is left for later.

    Raises UsageError for what cannot be kept, which `shown` says in the words of its author.
    """
    if isinstance(entry, RuleEntry):
        raise UsageError(f"{shown}: methods and paths are read in a gate, and --no-gate has none", hint=_WAY_OUT)
    if isinstance(entry, HostPortEntry):
        raise UsageError(f"{shown}: a port of this host is reached through a gate, and --no-gate has none", _WAY_OUT)
    if isinstance(entry, NameEntry):
        if entry.match == BELOW:
            what = f"{shown}: with --no-gate names are looked up beforehand, and nobody knows those below another"
            raise UsageError(what, hint="name each host itself")
        _refuse_questions(shown, entry.ports)
        return entry._replace(match=EXACT)
    if isinstance(entry, AddressEntry):
        _refuse_questions(shown, (entry.port,))
        if _is_mapped(entry.network):
            raise UsageError(f"{shown}: that is this host's loopback inside, which --no-gate never opens", _WAY_OUT)
    return entry


def closed_parts(entries: Iterable[Entry]) -> Iterator[str]:
    """What stays closed of entries that cover this host's loopback and more."""
    for entry in entries:
        if not isinstance(entry, AddressEntry) or _is_mapped(entry.network):
            continue
        inside = [_shown(other) for other in _MAPPED if _overlap(entry.network, other)]
        if inside:
            yield f"{entry.text()}: not {' and '.join(inside)}, where a sandbox without a gate would find this host"


def _shown(network: Network) -> str:
    return str(network if network.num_addresses > 1 else network.network_address)


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def refuse_rules(hosts: Iterable[SourcedHost]) -> None:
    """Raise UsageError for the first host with rules."""
    for host in hosts:
        raise UsageError(
            f"{host.origin}: {host.host} has rules, which are read in a gate, and --no-gate has none", hint=_WAY_OUT
        )


def _refuse_questions(shown: str, ports: Iterable[int | None]) -> None:
    if _DNS_PORT in ports:
        raise UsageError(f"{shown}: no question for a name leaves a sandbox, so port 53 leads nowhere", hint=_WAY_OUT)


def _is_mapped(network: Network) -> bool:
    # subnet_of() of two families raises; its stub wants one family.
    return any(network.version == other.version and network.subnet_of(other) for other in _MAPPED)  # type: ignore[arg-type]


def pin(egress: EgressPolicy, found: Mapping[str, Sequence[str]], own: Iterable[str]) -> Pinned:
    """
    What the names of a policy lead to, where they were `found` at these addresses. `own` are this host's.

    An address that is private, or this host's, is left out unless an entry for it opens it. Raises Unavailable or
    UsageError where nothing is left that could be reached.
    """
    closed = frozenset(own)
    names: list[Pin] = []
    opened: set[tuple[str, int]] = set()
    notes: list[str] = []
    for entry in egress.names:
        addresses = _of_both_families(found.get(entry.host, ()))
        if not addresses:
            notes.append(f"{entry.host} does not resolve here: this run cannot reach it")
        public = [address for address in addresses if not _is_closed(address, closed)]
        opened.update((address, port) for address in public for port in entry.ports)
        inward = [address for address in addresses if address not in public]
        reachable = [address for address in inward if _is_covered(egress, address, entry.ports, closed)]
        notes += [_refused(entry, address) for address in inward if address not in reachable]
        if public or reachable:
            told = tuple(address for address in addresses if address in public or address in reachable)
            names.append(Pin(entry.host, told))
    if not names and not egress.addresses:
        raise _nothing_left(notes, unresolved=not all(found.get(entry.host) for entry in egress.names))
    return Pinned(tuple(names), tuple(sorted(opened)), _some(notes, _MOST_NOTES))


def _some(notes: Sequence[str], most: int) -> tuple[str, ...]:
    rest = len(notes) - most
    return (*notes[:most], *((f"... and {rest} more",) if rest > 0 else ()))


def _of_both_families(addresses: Iterable[str]) -> list[str]:
    """The addresses in canonical form, each once, the first few of each family."""
    # A zone belongs to a link of this host's.
    distinct = list(dict.fromkeys(str(ip_address(address.partition("%")[0])) for address in addresses))
    kept = [[address for address in distinct if (":" in address) == is_v6][:MOST_ADDRESSES] for is_v6 in (False, True)]
    return [address for address in distinct if address in kept[0] or address in kept[1]]


def _is_closed(address: str, own: frozenset[str]) -> bool:
    network = ip_network(address)
    return address in own or is_private(network) or is_probe(network)


def _is_covered(egress: EgressPolicy, address: str, ports: Iterable[int], own: frozenset[str]) -> bool:
    """Whether the ruleset opens this address by an entry, at one of the ports."""
    if _is_mapped(ip_network(address)):
        return False
    # This host's own addresses take an entry for that one address.
    entries = [entry for entry in egress.addresses if entry.is_single or address not in own]
    return any(covers(entries, address, port) for port in ports)


def _refused(entry: NameEntry, address: str) -> str:
    cure = _cure(address, entry.ports[-1])
    ending = f"to allow it, add: --allow '{cure}'" if cure else "no entry is proposed for this"
    return f"denied {entry.host} at {address}: {Reason.PRIVATE_ADDRESS}; {ending}"


def _cure(address: str, port: int) -> str:
    """The entry that opens it, "" where none does."""
    from aisb.domain.entries import parse_entry

    text = entry_for(address, port)
    try:
        return text and kept_alone(parse_entry(text), text).text()
    except UsageError:
        return ""


def _nothing_left(notes: Sequence[str], *, unresolved: bool) -> Unavailable | UsageError:
    what = f"--no-gate: nothing that is allowed can be reached: {'; '.join(_some(notes, _MOST_NAMED))}"
    if unresolved:
        return Unavailable(what, hint="check the names, and whether this host resolves any")
    return UsageError(what, hint="an entry for the address opens it")
