"""What `aisb gate` says of the gates that are there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# It has answered its own questions, past its own judgement; it runs and does not; there is none at the moment.
PROVED, WEDGED, ENDED = "proved", "wedged", "ended"
_ENTRIES = ("addresses", "host_ports", "names", "rules")


class GateSeen(NamedTuple):
    """
    A gate as it is now.

    `name` is what the start lines show of it, `container` podman's name for it. `runs` are the runs that use it,
    `allows` how many entries its policy has, `seconds` how long it has been there, `fault` what is wrong with it.
    """

    name: str
    container: str
    directory: str
    state: str
    fault: str = ""
    runs: tuple[str, ...] = ()
    allows: int = 0
    seconds: float = 0.0


def count_entries(policy: str) -> int:
    """How many entries and rules a gate's policy has, in its canonical JSON; 0 for what is none."""
    try:
        document = json.loads(policy)
    except ValueError:
        return 0
    lists = [document.get(kind) for kind in _ENTRIES] if isinstance(document, dict) else []
    return sum(len(found) for found in lists if isinstance(found, list))


def chosen(gates: Sequence[GateSeen], names: Sequence[str]) -> list[GateSeen]:
    """The gates whose names begin so; all without a name. Raises UsageError for a name that is none's, or many's."""
    found = []
    for name in names:
        matching = [gate for gate in gates if gate.name.startswith(name)]
        if len(matching) != 1:
            what = "more than one gate" if matching else "no gate"
            there = ", ".join(gate.name for gate in matching or gates)
            raise UsageError(f"{name!r} names {what}", hint=f"they are: {there}" if there else "see: aisb gate status")
        found += matching
    return found if names else list(gates)
