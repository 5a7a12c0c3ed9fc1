"""
The policy: one frozen object from which everything else is rendered.

Every value in it went through its door already; each allow item remembers where it came from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisb.domain.entries import parse_entries
from aisb.domain.entry_kinds import LATER, Entry
from aisb.domain.net import ALLOW
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import VERSION, NameEntry
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class AllowItem:
    """An entry and where it was written: a flag, or file:line."""

    entry: Entry
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a run may do."""

    net: str
    allow: tuple[AllowItem, ...]
    environment: tuple[str, ...]
    base_image: str
    install: tuple[str, ...]
    project: str
    home_volume: str
    ca_bundle: str

    @property
    def names(self) -> tuple[NameEntry, ...]:
        """The name entries, reduced to the fewest that mean the same."""
        return reduce_names(item.entry for item in self.allow if isinstance(item.entry, NameEntry))


def parse_allow(net: str, sourced: Iterable[tuple[str, str]]) -> tuple[AllowItem, ...]:
    """The allow items of (text, origin) pairs, sorted. Raises UsageError for one that is not enforced."""
    items = {AllowItem(entry, origin) for argument, origin in sourced for entry in parse_entries(argument)}
    for item in items:
        _refuse_what_is_not_enforced(item.entry)
    if net != ALLOW and items:
        raise UsageError(f"--allow has no meaning under --net {net}", hint="leave one of the two out")
    return tuple(sorted(items, key=lambda item: (item.entry.text(), item.origin)))


def need_entries(policy: Policy) -> Policy:
    """The policy. An empty list under `allow` is an error: it would be a sandbox that nobody asked for."""
    if policy.net == ALLOW and not policy.allow:
        raise UsageError(
            "nothing is allowed yet: name the hosts that the agent may reach",
            hint="write: aisb --allow llm.example.com, or --net none for no network at all",
        )
    return policy


def _refuse_what_is_not_enforced(entry: Entry) -> None:
    what, hint = LATER.get(type(entry), ("", ""))
    if what:
        raise UsageError(f"--allow {entry.text()!r}: {what} are understood, but not enforced", hint=hint)


def policy_json(names: Iterable[NameEntry]) -> str:
    """The canonical JSON that the gate reads: same meaning, same bytes; no origins, no host paths."""
    document = {
        "names": [{"host": name.host, "match": name.match, "ports": list(name.ports)} for name in names],
        "version": VERSION,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"
