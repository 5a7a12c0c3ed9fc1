"""`aisb gate status`, `up`, `down` and `logs`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say
from aisb.cli.request import read_request
from aisb.cli.run import agrees, question_of, shop_of, wish_of, with_proxy
from aisb.cli.splitter import Split
from aisb.domain.answers import answer_text
from aisb.domain.gates import ENDED, WEDGED, chosen, troubles
from aisb.domain.net import ALLOW
from aisb.domain.policy import HOSTS_HINT
from aisb.domain.printing import printable
from aisb.effects.gate import GatePlan, need_gate
from aisb.effects.gates import end_gate_container, log_of, look_at_gates
from aisb.effects.host import need_host, need_network, need_ordinary_user, need_own_home
from aisb.effects.process import SystemRunner
from aisb.effects.situation import need_plan, resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import directories
from aisb.errors import UsageError
from aisb.render.gate import GateView, gate_argv
from aisb.render.gates import status_json, status_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aisb.domain.gates import GateSeen


def status_verb(names: Sequence[str], *, everything: bool, as_json: bool) -> int:
    """Have each gate prove itself, and say so, of those that have ended only how many: 0, or 69 where one does not."""
    found = _gates(names)
    gates = [gate for gate in found if names or everything or gate.state != ENDED]
    if over := len(found) - len(gates):
        say(f"{over} {'gate has' if over == 1 else 'gates have'} ended: aisb gate status --all")
    answer(answer_text(status_json(gates)) if as_json else _text(status_lines(gates)))
    return 69 if any(gate.state == WEDGED for gate in gates) else 0


def up_verb(flags: tuple[tuple[str, str], ...], *, as_json: bool) -> int:
    """Start the gate that a run with these flags would use here, and let it wait for one."""
    taken = Split("run", flags, None, ())
    need_ordinary_user()
    need_own_home(os.environ)
    where = directories(os.environ)
    asked = read_request(taken, os.environ)
    project = resolve_project(asked.project, os.environ, where)
    sources = read_sources(wish_of(asked, project), where, agrees)
    request = read_request(taken, os.environ, sources.layers, sources.variables)
    runner = SystemRunner()
    host = need_host(where.cache, runner, os.environ.get("PATH", ""), project)
    network = need_network(host)
    question = with_proxy(question_of(request, sources, project, network), request)
    with _for_a_gate():
        plan = need_plan(question, shop_of(request, host, where, runner))
    if plan.net != ALLOW or plan.own_gate:
        raise UsageError(
            "such a run has no gate to share" if plan.own_gate else f"under --net {plan.net} there is no gate",
            hint="a gate that holds a secret belongs to one run and ends with it" if plan.own_gate else "leave it out",
        )
    made = GatePlan(plan.gate_key, plan.gate_image, plan.gate_files)

    def argv(directory: str) -> tuple[str, ...]:
        return gate_argv(GateView(host.podman, made.image, made.key, request.gate_network or network, directory))

    os.chdir("/")
    gate = need_gate(made, where.runtime, runner, argv)
    os.close(gate.lock)
    told = f"{gate.short} {'was there' if gate.warm else 'started'}\n"
    answer(answer_text({"gate": gate.short, "started": not gate.warm}) if as_json else told)
    return 0


@contextmanager
def _for_a_gate() -> Iterator[None]:
    """Where nothing is allowed, what is proposed is this verb's: it has no --net."""
    try:
        yield
    except UsageError as error:
        if error.hint != HOSTS_HINT:
            raise
        raise UsageError(error.message, hint="write: aisb gate up --allow llm.example.com") from error


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


def logs_verb(names: Sequence[str], *, everything: bool, as_json: bool) -> int:
    """Print what went wrong in a gate, or all that it has logged. Raises UsageError where it is not clear which."""
    found = _gates(names)
    # Without a name it is the one that is there, whatever has ended before.
    gates = found if names else [gate for gate in found if gate.state != ENDED] or found
    if len(gates) > 1:
        raise UsageError("more than one gate is there", hint=f"name one: {', '.join(gate.name for gate in gates)}")
    name = gates[0].name if gates else ""
    log = log_of(gates[0]) if gates else ""
    lines = [printable(line) for line in (log.splitlines() if everything else troubles(log))]
    if not gates:
        say("no gate is there")
    elif not lines:
        say(f"gate {name}: no trouble{'' if everything else f'; all that it has said: aisb gate logs --all {name}'}")
    answer(answer_text({"gate": name, "lines": lines}) if as_json else _text(lines))
    return 0


def _gates(names: Sequence[str]) -> list[GateSeen]:
    need_ordinary_user()
    return chosen(look_at_gates(directories(os.environ).runtime), names)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
