"""A plan without a gate, completed: its names are looked up here, once for each run."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from aisb.assets import asset_path
from aisb.domain.egress import read_policy
from aisb.domain.net import PINNED
from aisb.domain.no_gate import pin
from aisb.effects.host import host_addresses
from aisb.effects.process import Command, run_ok
from aisb.errors import Unavailable
from aisb.render.pins import pin_elements, pin_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.effects.plan import Plan
    from aisb.effects.process import Runner

_SECONDS = 20
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gate.look_up import main; main()"


def with_pins(plan: Plan, runner: Runner) -> Plan:
    """
    The plan with what its names lead to now, and what has to be said of it; one with a gate as it is.

    Raises Unavailable or UsageError where nothing could be reached.
    """
    if plan.net != PINNED:
        return plan
    egress = read_policy(plan.session_files["policy.json"])
    pinned = pin(egress, _found([entry.host for entry in egress.names], runner), host_addresses())
    completed = {
        "pins": pin_lines(pinned),
        "sandbox.nft": plan.session_files["sandbox.nft"] + pin_elements(pinned),
    }
    return plan._replace(
        session_files=plan.session_files | completed, names=len(pinned.names), notes=(*plan.notes, *pinned.notes)
    )


def _found(names: Sequence[str], runner: Runner) -> dict[str, list[str]]:
    if not names:
        return {}
    done = run_ok(runner, look_up_command(names))
    try:
        found = json.loads(done.stdout)
        return {str(name): [str(address) for address in addresses] for name, addresses in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise Unavailable("the names could not be looked up", hint="try again") from error


def look_up_command(names: Sequence[str]) -> Command:
    """The process that asks this host's resolver: this Python, without anything of the user's."""
    folder = os.path.dirname(asset_path("gate"))
    return Command(
        argv=(sys.executable, "-I", "-S", "-c", _PROGRAM, folder, str(_SECONDS)),
        timeout_seconds=_SECONDS + 10,
        input="".join(f"{name}\n" for name in names).encode("ascii"),
    )
