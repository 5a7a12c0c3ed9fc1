"""The gates that are there: look at each, end those that nobody uses, and show what they have logged."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from aisb.domain.gates import ENDED, PROVED, WEDGED, GateSeen, count_entries
from aisb.domain.printing import shell_word
from aisb.domain.run_record import KEEP_ALL
from aisb.effects.gate import ANSWER_SECONDS, answers, ask
from aisb.effects.process import Command, run_ok
from aisb.effects.records import keep_record
from aisb.effects.run_record import mend
from aisb.effects.session import claimed, close_session, living, orphans
from aisb.effects.state import read_if_there
from aisb.errors import Unavailable
from aisb.render.gate import gate_name

if TYPE_CHECKING:
    from aisb.effects.process import Runner
    from aisb.effects.session import Session
    from aisb.effects.state import Directories

_REMOVE_SECONDS = 30.0


def look_at_gates(runtime: str) -> list[GateSeen]:
    """Every gate of the user's, asked to prove itself. Raises Unavailable where they cannot be read."""
    parent = f"{runtime}/g"
    try:
        names = sorted(os.listdir(parent))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unavailable(
            f"{parent} cannot be read: {error.strerror}", hint=f"see: ls -ld {shell_word(parent)}"
        ) from error
    alive = [(os.path.dirname(session.path), session.run) for session in living(runtime)]
    found = [
        _look(f"{parent}/{name}", [run for place, run in alive if place == f"{parent}/{name}/r"]) for name in names
    ]
    return [gate for gate in found if gate is not None]


def end_gate_container(podman: str, gate: GateSeen, runner: Runner, *, in_use: bool) -> str:
    """
    Take a gate's container away, with the runs that use it where that is asked for; "" or why it stays.

    A run that begins meanwhile finds the gate or none, never one that ends: it holds the same lock.
    """
    descriptor = os.open(f"{gate.directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not in_use:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "a run uses it"
        argv = (podman, "rm", "--force", "--time", "0", "--ignore", gate.container)
        run_ok(runner, Command(argv=argv, timeout_seconds=_REMOVE_SECONDS))
        with suppress(FileNotFoundError):
            os.unlink(f"{gate.directory}/ctl.sock")
    finally:
        os.close(descriptor)
    return ""


def unused_gates(runtime: str) -> list[str]:
    """The names of the gates that no run uses, those too that have ended and left their directory."""
    return [gate.name for gate in look_at_gates(runtime) if not gate.runs]


def remove_gate(podman: str, where: Directories, name: str, runner: Runner) -> str:
    """
    Take a gate away with its directory; "" or why it stays. What killed runs have left in it is put on record first.

    A run that begins meanwhile holds the gate's lock, or finds that the directory is another one by then.
    """
    directory = f"{where.runtime}/g/{name}"
    gate = _look(directory, [])
    if gate is None:
        return ""
    _put_on_record(f"{directory}/r", where.state)
    if os.path.isdir(f"{directory}/r") and os.listdir(f"{directory}/r"):
        return "a run is about to use it"
    if why := end_gate_container(podman, gate, runner, in_use=False):
        return why
    lock = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        return "a run uses it"
    finally:
        os.close(lock)
    return ""


def _put_on_record(parent: str, state: str) -> None:
    for session in orphans(parent):
        remove_orphan(session, state)


def remove_orphan(session: Session, state: str) -> str:
    """
    Put on record what a killed run has left, as the next run of its gate would, and take it away; "" or why it stays.

    How many records are kept is not ours to say.
    """
    gate = os.path.dirname(os.path.dirname(session.path))
    with claimed(session) as mine:
        if not mine:
            return ""
        if os.path.exists(f"{gate}/ctl.sock"):
            with suppress(Unavailable):
                ask(gate, {"op": "close", "run": session.run}, ANSWER_SECONDS)
        if fault := keep_record(session, state, KEEP_ALL).fault:
            return fault
        mend(state, session.run)
        close_session(session)
    return ""


def log_of(gate: GateSeen) -> str:
    """What the gate's own programs had to say."""
    return (read_if_there(f"{gate.directory}/log") or b"").decode("utf-8", "replace")


def _look(directory: str, runs: list[str]) -> GateSeen | None:
    key = (read_if_there(f"{directory}/key") or b"").decode("ascii", "replace")
    if not key:
        # One that is just being made.
        return None
    owner = (read_if_there(f"{directory}/owner") or b"").decode("ascii", "replace")
    policy = (read_if_there(f"{directory}/conf/policy.json") or b"").decode("utf-8", "replace")
    state, fault = _ask(directory)
    return GateSeen(
        name=os.path.basename(directory),
        container=gate_name(key, owner),
        directory=directory,
        state=state,
        fault=fault,
        runs=tuple(sorted(runs)),
        allows=count_entries(policy),
        seconds=_age(f"{directory}/ctl.sock"),
    )


def _ask(directory: str) -> tuple[str, str]:
    try:
        if not answers(directory):
            return ENDED, ""
        ask(directory, {"op": "status"}, ANSWER_SECONDS)
    except (OSError, Unavailable) as error:
        return WEDGED, str(error)
    return PROVED, ""


def _age(path: str) -> float:
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return 0.0
