"""`aisb gate status`, `down` and `logs`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say
from aisb.domain.gates import ENDED, WEDGED, chosen
from aisb.domain.printing import printable
from aisb.effects.gates import end_gate_container, log_of, look_at_gates
from aisb.effects.host import need_host, need_ordinary_user
from aisb.effects.process import SystemRunner
from aisb.effects.state import directories
from aisb.errors import UsageError
from aisb.render.gates import status_json, status_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisb.domain.gates import GateSeen


def status_verb(names: Sequence[str], *, as_json: bool) -> int:
    """Have each gate prove itself, and say so: 0, or 69 where one does not."""
    gates = _gates(names)
    answer(f"{json.dumps(status_json(gates), indent=2)}\n" if as_json else _text(status_lines(gates)))
    return 69 if any(gate.state == WEDGED for gate in gates) else 0


def down_verb(names: Sequence[str], *, everything: bool) -> int:
    """End the gates that no run uses, or all: 0, or 69 where one that was named stays."""
    gates = [gate for gate in _gates(names) if gate.state != ENDED]
    where = directories(os.environ)
    runner = SystemRunner()
    podman = need_host(where.cache, runner, os.environ.get("PATH", ""), "").podman
    stayed = 0
    for gate in gates:
        why = end_gate_container(podman, gate, runner, in_use=everything)
        stayed += bool(why)
        say(f"gate {gate.name} stays: {why}; end it all the same: --all" if why else f"gate {gate.name} ended")
    if not gates:
        say("no gate is there")
    return 69 if stayed and names else 0


def logs_verb(names: Sequence[str]) -> int:
    """Print what a gate has logged. Raises UsageError where it is not clear which."""
    gates = _gates(names)
    if not gates:
        say("no gate is there")
        return 0
    if len(gates) > 1:
        raise UsageError("more than one gate is there", hint=f"name one: {', '.join(gate.name for gate in gates)}")
    answer(_text(printable(line) for line in log_of(gates[0]).splitlines()))
    return 0


def _gates(names: Sequence[str]) -> list[GateSeen]:
    need_ordinary_user()
    return chosen(look_at_gates(directories(os.environ).runtime), names)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
