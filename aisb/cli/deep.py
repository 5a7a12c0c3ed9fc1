"""`aisb doctor --deep`: a real run with a real gate, in which everything is tried that a run must hold off."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from aisb.cli.request import read_request, variable_of
from aisb.cli.run import Place, job_of, question_of, shop_of, unkept_limits
from aisb.cli.splitter import Split
from aisb.domain.attempts import GATE, NEVER_TRIED, SANDBOX, STARTS, Seen, judge, not_started, parse_report
from aisb.domain.layers import Layer
from aisb.domain.limits import TIMEOUT
from aisb.effects.deep import (
    COMMAND,
    INJECTED,
    MOST_PROCESSES,
    NAME,
    SECONDS,
    VARIABLE,
    WORDS,
    Ground,
    Talk,
    ground,
    in_gate,
    left_out,
    program,
)
from aisb.effects.host import need_host, need_network
from aisb.effects.inject import prepare
from aisb.effects.make_plan import make_plan
from aisb.effects.run import gate_plan_of, run_job
from aisb.effects.signals import EndedBySignal, ended_in_order
from aisb.effects.sources import Sources, user_layers
from aisb.effects.supervise import EXEC
from aisb.errors import AisbError
from aisb.render.gate import program_argv
from aisb.render.gate_files import SQUID_UID

if TYPE_CHECKING:
    from aisb.cli.request import Request
    from aisb.domain.attempts import Result
    from aisb.effects.machine import Machine
    from aisb.effects.session import Session

# What the user says of images counts, so that what is tried is what runs; of hosts, variables and mounts nothing does.
_KEPT = frozenset(
    {"base-image", "ca-bundle", "customize", "gate-network", "harness", "install", "node", "node-source"},
)


def try_everything(machine: Machine) -> list[Result]:
    """What came of each attempt. Where no sandbox starts, why."""
    try:
        with ended_in_order(), ground(machine.directories) as place:
            return _tried(machine, place)
    except EndedBySignal as ended:
        # What carries the verbs takes it for ^C.
        raise SystemExit(128 + ended.number) from None
    except AisbError as error:
        return not_started(f"{error.message}; {error.hint}" if error.hint else error.message)


def _tried(machine: Machine, place: Ground) -> list[Result]:
    request = _request(machine, place)
    host = need_host(machine.directories.cache, machine.runner, machine.environ.get("PATH", ""), "")
    network = need_network(host)
    unkept = unkept_limits(request, host)
    untried = NEVER_TRIED | left_out(unkept.names, unkept.why)
    question = question_of(request, Sources(), place.project, network)
    # Never again asked for, and so not kept.
    plan = make_plan(question, shop_of(request, host, machine.directories, machine.runner))
    environ = {INJECTED.encode("ascii"): place.secret.encode("ascii")}
    variables, secrets = prepare(request.wanted.injections, {VARIABLE.encode("ascii"): WORDS}, environ, COMMAND)
    given = place.given(plan.user, untried)

    def beside(session: Session) -> bytes:
        gate = gate_plan_of(job, plan, session.run).container
        argv = program_argv(host.podman, gate, SQUID_UID, COMMAND)
        return in_gate(argv, program(given | {"where": "gate"}), machine.runner)

    talk = Talk(program(given), beside)
    job = job_of(
        request, plan, place.directories, Place(place.project, "", ()), host.podman, network, variables, unkept.names
    )
    job = job._replace(secrets=secrets, terminal=False, service=talk)
    # podman asks where it is, and fails in a directory that is gone. Every path is absolute by now.
    os.chdir("/")
    started = time.monotonic()
    ended = run_job(job, plan, machine.runner, _nothing, _nothing)
    talk.finish()
    # Raises where the sandbox did not get as far as its command.
    code = ended.outcome.exit_code()
    if ended.outcome.was_told and TIMEOUT not in ended.outcome.hits:
        raise SystemExit(code)
    seen = {STARTS: Seen("yes", ended.outcome.phases[EXEC] - started), **place.seen()}
    seen |= parse_report(talk.report, SANDBOX) | parse_report(talk.report_beside, GATE)
    return judge(seen, untried)


def _request(machine: Machine, place: Ground) -> Request:
    """A run of the image that a run here would have, with nothing in it that is the user's."""
    flags = (
        ("project", place.project),
        ("allow", f"exact:{NAME}"),
        ("inject", f"{INJECTED}@{NAME}"),
        ("pids-limit", str(MOST_PROCESSES)),
        ("timeout", f"{SECONDS}s"),
        ("pull", "never"),
        ("ephemeral-home", ""),
        ("quiet", ""),
    )
    kept = {variable_of(name) for name in _KEPT}
    environ = {name: text for name, text in machine.environ.items() if name in kept or not name.startswith("AISB_")}
    layers = [_images_of(layer) for layer in user_layers(machine.directories)]
    return read_request(Split("run", flags, COMMAND, ()), environ, layers)


def _images_of(layer: Layer) -> Layer:
    """What it says of images."""
    scalars = {name: found for name, found in layer.scalars.items() if name in _KEPT}
    return Layer(layer.kind, scalars, {name: found for name, found in layer.lists.items() if name in _KEPT})


def _nothing(*_: object) -> None:
    """There is nobody to be told."""
