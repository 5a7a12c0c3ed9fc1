"""`aisb gate status` in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisb.domain.gates import ENDED
from aisb.domain.printing import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.gates import GateSeen

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def status_lines(gates: Sequence[GateSeen]) -> list[str]:
    """A line a gate, and what is wrong with it below."""
    lines = []
    for gate in gates:
        runs = f"runs {', '.join(gate.runs)}" if gate.runs else "no run"
        since = "" if gate.state == ENDED else f"  up {duration(gate.seconds)}"
        entries = f"{gate.allows} {'entry' if gate.allows == 1 else 'entries'}"
        lines.append(f"{gate.name:<12}  {gate.state:<6}  {entries:>10}  {runs}{since}")
        lines += [f"{'':14}{printable(line)}" for line in gate.fault.splitlines()]
    return lines or ["no gate is there: the next run starts one"]


def status_json(gates: Sequence[GateSeen]) -> dict[str, Any]:
    """The same for programs."""
    return {"gates": [gate._asdict() | {"seconds": round(gate.seconds)} for gate in gates]}


def duration(seconds: float) -> str:
    """A time as people say it: `12s`, `3m`, `2h`, `4d`."""
    for size, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{max(0, int(seconds))}s"
