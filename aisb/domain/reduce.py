"""
Fewer entries with the same meaning: subsumed ones dropped, the rest sorted.

squid refuses to start on `x.test` after `.x.test`, nft on intervals that overlap, and equal meaning should share
one gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.addresses import AddressEntry, AddressTable
from aisb.domain.hosts import parents_of
from aisb.domain.rules import BELOW, EXACT, TREE, NameEntry

if TYPE_CHECKING:
    from collections.abc import Iterable


def reduce_names(entries: Iterable[NameEntry]) -> tuple[NameEntry, ...]:
    """The smallest sorted list of entries that allows the same names and ports."""
    by_port: dict[int, set[tuple[str, str]]] = {}
    for entry in entries:
        for port in entry.ports:
            by_port.setdefault(port, set()).add((entry.host, entry.match))
    ports_of: dict[tuple[str, str], list[int]] = {}
    for port in sorted(by_port):
        for pair in _reduce_one_port(by_port[port]):
            ports_of.setdefault(pair, []).append(port)
    return tuple(NameEntry(host, match, tuple(ports)) for (host, match), ports in sorted(ports_of.items()))


def _reduce_one_port(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    whole = {host for host, match in pairs if match == TREE or {(host, EXACT), (host, BELOW)} <= pairs}
    merged = {(host, TREE) for host in whole} | {pair for pair in pairs if pair[0] not in whole}
    open_below = {host for host, match in merged if match != EXACT}
    return {(host, match) for host, match in merged if not open_below.intersection(parents_of(host))}


def reduce_addresses(entries: Iterable[AddressEntry]) -> tuple[AddressEntry, ...]:
    """The sorted list without the entries that another one holds. Each that is left is one that was written."""
    distinct = set(entries)
    table = AddressTable(distinct)
    return tuple(sorted((entry for entry in distinct if not _is_held(entry, table)), key=lambda entry: entry.order))


def _is_held(entry: AddressEntry, table: AddressTable) -> bool:
    # A network does not open everything in it: neither a metadata service nor, in a gate, the host's own addresses.
    return any(
        other != entry and other.port in (None, entry.port) and other.is_single >= entry.is_single
        for other in table.covering(entry.network)
    )
