"""What of the user's words about a run would be as true of another run in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.live import ADDRESS
from aisb.domain.names import is_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.live import LiveEntry


def lasting(entries: Sequence[LiveEntry]) -> list[str]:
    """The names that are open until the run ends, and of which, or of a part of which, nothing else was said later."""
    return [
        entry.text()
        for number, entry in enumerate(entries)
        if entry.allows and not entry.until and entry.match != ADDRESS and not is_own(entry.host)
        if not any(_takes_from(later, entry) for later in entries[number + 1 :])
    ]


def _takes_from(later: LiveEntry, earlier: LiveEntry) -> bool:
    # Whatever the ports, and whatever lies below: rather one too few.
    is_narrower = not later.allows or bool(later.until)
    return is_narrower and (_is_in(later.host, earlier.host) or _is_in(earlier.host, later.host))


def _is_in(name: str, tree: str) -> bool:
    return name == tree or name.endswith(f".{tree}")
