"""From the record of a run that learnt: the smallest list with which the same command gets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import AddressEntry
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.hosts import canonical_host, is_address, parents_of, show_authority
from aisb.domain.rules import LEARNED, Engine, entry_for
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisb.domain.records import Record


class Reached(NamedTuple):
    """An entry, how often it would have been needed, and at which ports."""

    entry: str
    times: int
    ports: tuple[int, ...]


class Wider(NamedTuple):
    """One entry that could stand in the place of others and allows more: a preset, or a name with all below it."""

    entry: str
    instead_of: int


class Failed(NamedTuple):
    """A destination of which nothing came each time, and the word for why."""

    place: str
    word: str


class Learned(NamedTuple):
    """What a run reached that was allowed only to learn of it; `is_whole` unless its record was full."""

    reached: tuple[Reached, ...]
    wider: tuple[Wider, ...]
    failed: tuple[Failed, ...]
    is_whole: bool


def learned(records: Iterable[Record], presets: Mapping[str, Iterable[str]] | None = None) -> Learned:
    """
    The entries that are needed besides those that there were: exact names, and addresses at their ports.

    `presets` are those that may be recognised, each with its entries.
    """
    counts: dict[str, dict[int, int]] = {}
    failures: dict[tuple[str, int], str] = {}
    is_whole = True
    for record in records:
        is_whole = is_whole and not record.is_cut_off
        if not record.allowed or record.rule != LEARNED:
            continue
        if record.failed:
            failures.setdefault((record.host, record.port), record.failed)
            continue
        entry = _entry_of(record.host, record.port)
        if entry:
            by_port = counts.setdefault(entry, {})
            by_port[record.port] = by_port.get(record.port, 0) + 1
    reached = tuple(
        Reached(entry, sum(ports.values()), tuple(sorted(ports))) for entry, ports in sorted(counts.items())
    )
    nothing = (place for place in sorted(failures) if _entry_of(*place) not in counts)
    failed = tuple(Failed(show_authority(*place), failures[place]) for place in nothing)
    return Learned(reached, (*_known(reached, presets or {}), *_wider(reached)), failed, is_whole)


def _entry_of(host: str, port: int) -> str:
    """The narrowest entry for it; "" for what no entry can allow, whoever wrote that down."""
    try:
        if canonical_host(host) != host or not entry_for(host, port):
            return ""
        entry = parse_entry(entry_for(host, port) if is_address(host) else f"exact:{host}")
    except (UsageError, ValueError):
        return ""
    return entry.text()


def _known(reached: Iterable[Reached], presets: Mapping[str, Iterable[str]]) -> Iterable[Wider]:
    """The presets that allow some of it."""
    for name, entries in sorted(presets.items()):
        engine = Engine(*gather((parse_entry(entry), "") for entry in entries).policy)
        covered = [item for item in reached if all(engine.judge(_host_of(item), port).allowed for port in item.ports)]
        if covered:
            yield Wider(f"@{name}", len(covered))


def _host_of(item: Reached) -> str:
    entry = parse_entry(item.entry)
    return str(entry.network.network_address) if isinstance(entry, AddressEntry) else item.entry.removeprefix("exact:")


def _wider(reached: Iterable[Reached]) -> Iterable[Wider]:
    """For each owner's name with several of them below it: the entry for all."""
    found: dict[str, int] = {}
    for item in reached:
        kind, _, host = item.entry.partition("exact:")
        top = "" if kind else _top_of(host)
        if top:
            found[top] = found.get(top, 0) + 1
    return (Wider(top, count) for top, count in sorted(found.items()) if count > 1)


def _top_of(host: str) -> str:
    """The highest name that may be allowed with all that is below it."""
    top = ""
    for name in (host, *parents_of(host)):
        try:
            parse_entry(name)
        except UsageError:
            continue
        top = name
    return top
