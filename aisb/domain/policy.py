"""
The policy: one frozen object from which everything else is rendered.

Every value in it went through its door already; each allow item remembers where it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisb.domain.entries import parse_entries
from aisb.domain.entry_kinds import LATER, Entry
from aisb.domain.gather import gather
from aisb.domain.net import ALLOW
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.egress import EgressPolicy
    from aisb.domain.names import NameEntry

_FLAG = "--allow"


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
    def egress(self) -> EgressPolicy:
        """What may be reached, reduced to the fewest entries that mean the same."""
        return gather((item.entry, item.origin) for item in self.allow).policy

    @property
    def names(self) -> tuple[NameEntry, ...]:
        """The reduced name entries."""
        return self.egress.names


def parse_allow(net: str, sourced: Iterable[tuple[str, str]]) -> tuple[AllowItem, ...]:
    """The allow items of (text, origin) pairs, sorted. Raises UsageError for one that is not enforced."""
    items = {AllowItem(entry, origin) for argument, origin in sourced for entry in _parse_sourced(argument, origin)}
    for item in items:
        _refuse_what_is_not_enforced(item.entry)
    if net != ALLOW and items:
        raise UsageError(f"--allow has no meaning under --net {net}", hint="leave one of the two out")
    return tuple(sorted(items, key=lambda item: (item.entry.text(), item.origin)))


def _parse_sourced(argument: str, origin: str) -> list[Entry]:
    """The entries; what is wrong with one is said of where it stands."""
    try:
        return parse_entries(argument)
    except UsageError as error:
        if origin == _FLAG:
            raise
        raise UsageError(f"{origin}: {error.message.removeprefix(_FLAG).strip()}", error.hint) from error


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
