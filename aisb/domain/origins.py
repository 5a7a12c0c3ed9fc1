"""Where each entry and rule of a reduced policy was written, as a gate's record of a run names it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aisb.domain.names import NameEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.entry_kinds import Entry
    from aisb.domain.policy import Policy

_MOST = 3


def origins_json(policy: Policy) -> str:
    """
    The places by the engine's own words for what decides: an entry's text, or a host and the number of its rule.

    A reduced entry may stand for several that were written; where its ports come from different places, each port
    has its own.
    """
    egress = policy.egress
    written: dict[str, list[tuple[Entry, str]]] = {}
    for item in policy.allow:
        key = item.entry.host if isinstance(item.entry, NameEntry) else item.entry.text()
        written.setdefault(key, []).append((item.entry, item.origin))
    entries: dict[str, str | dict[int, str]] = {
        text: _shown(origin for _, origin in written.get(text, ()))
        for text in (*(entry.text() for entry in egress.addresses), *(f"host:{port}" for port in egress.host_ports))
    }
    for name in egress.names:
        by_port = {port: _shown(_of_name(name, port, written.get(name.host, ()))) for port in name.ports}
        places = set(by_port.values())
        entries[name.text()] = places.pop() if len(places) == 1 else by_port
    return json.dumps({"entries": entries, "rules": dict(policy.gathered.origins)}, sort_keys=True) + "\n"


def _of_name(name: NameEntry, port: int, written: Iterable[tuple[Entry, str]]) -> list[str]:
    here = [(entry, origin) for entry, origin in written if isinstance(entry, NameEntry) and port in entry.ports]
    # A tree may be the sum of `exact:` and `below:`: then both are where it was written.
    return [origin for entry, origin in here if entry.match == name.match] or [origin for _, origin in here]


def _shown(origins: Iterable[str]) -> str:
    """The places as one text, each once."""
    found = sorted(set(origins))
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return ", ".join(found[:_MOST]) + more
