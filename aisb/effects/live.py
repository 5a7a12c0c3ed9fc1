"""Change what a running sandbox may reach: find the run, have its gate put it in force, and keep it for later runs."""

from __future__ import annotations

import os
from contextlib import ExitStack
from shlex import quote
from typing import TYPE_CHECKING

from aisb.domain.allow_file import parse_allow_file
from aisb.domain.net import PINNED
from aisb.domain.source_files import SourceFile, source_file
from aisb.domain.trust import ALLOW_FILE, PROJECT_DIRECTORY, Change
from aisb.effects.gate import ask
from aisb.effects.run import project_identity
from aisb.effects.safe_files import is_there, open_directory, read_in_project, replace_in_project
from aisb.effects.session import living
from aisb.effects.state import read_if_there
from aisb.effects.trust import Asked, add_to_record, need_writable, read_record, untrusted
from aisb.effects.usage import is_listening
from aisb.errors import Unavailable, Untrusted, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.live import LiveEntry
    from aisb.effects.session import Session

# Longer than the gate tries.
_ANSWER_SECONDS = 40.0


def find_run(runtime: str, project: str, wanted: str, named: str = "--run") -> Session | None:
    """
    The run that is meant: the one whose id begins with `wanted`, or the only one of the project; None without one.

    Raises UsageError where it is not clear which one that is.
    """
    sessions = living(runtime)
    if wanted:
        found = [session for session in sessions if session.run.startswith(wanted)]
        if not found:
            # What other projects run is nothing to propose here.
            own = [session for session in sessions if is_of(session, project)]
            raise UsageError(f"{named} {wanted}: there is no run of that id{_running(own)}", hint=_how(own, named))
    else:
        found = [session for session in sessions if is_of(session, project)]
    if len(found) > 1:
        whose = f"{named} {wanted}" if wanted else "this project"
        raise UsageError(f"{whose}: there are {len(found)} runs{_which(found)}", hint=_how(found, named))
    return found[0] if found else None


def _which(sessions: Sequence[Session]) -> str:
    return f": {' '.join(session.run for session in sessions)}" if sessions else ""


def _running(sessions: Sequence[Session]) -> str:
    return f"; what runs here is{_which(sessions)}" if sessions else ""


def _how(sessions: Sequence[Session], named: str) -> str:
    if not named.startswith("--"):
        return f"say which: {sessions[0].run}" if sessions else "see what runs: aisb ps"
    return f"say which: {named} {sessions[0].run}" if sessions else "start one: aisb --allow HOST"


def is_of(session: Session, project: str) -> bool:
    """Whether this is a run of the project."""
    return project != "" and read_if_there(f"{session.files}/project") == project_identity(project).encode()


def has_lost_its_gate(session: Session) -> bool:
    """Whether the run began with a gate, and that is there no more."""
    gate = _gate_of(session)
    return bool(gate) and is_listening(gate) is False


def _gate_of(session: Session) -> str:
    gate = os.path.dirname(os.path.dirname(session.path))
    return gate if os.path.basename(os.path.dirname(gate)) == "g" else ""


def need_gate_of(session: Session, entries: Sequence[LiveEntry], start: str = "aisb") -> str:
    """
    The directory of the run's gate.

    Raises UsageError for a run without one: it has what it began with, and `start` begins the line of another.
    """
    flags = _flags(entries, "")
    if read_if_there(f"{session.files}/mode") == f"{PINNED}\n".encode():
        raise UsageError(
            f"run {session.run} has no gate (--no-gate): its names were pinned when it started, and nothing changes",
            hint=f"end it, and start one: {start} --no-gate {flags}",
        )
    if not (gate := _gate_of(session)):
        is_allowed = all(entry.allows for entry in entries)
        raise UsageError(
            f"run {session.run} has no gate: it was started with another --net",
            hint=f"start one with: {start} {flags}" if is_allowed else f"end it: aisb stop {session.run}",
        )
    return gate


def say_to_gate(session: Session, entries: Sequence[LiveEntry], seconds: int, start: str = "aisb") -> int:
    """
    Put entries in force for a run; how many connections that ended. Returns once its gate has proved it.

    Raises UsageError for what needs a new run, Unavailable where the gate could not prove it.
    """
    gate = need_gate_of(session, entries, start)
    items = [entry._asdict() for entry in entries]
    answer = ask(gate, {"op": "say", "run": session.run, "entries": items, "seconds": seconds}, _ANSWER_SECONDS)
    if refused := answer.get("refused"):
        text = ",".join(entry.text() for entry in entries)
        raise UsageError(f"{text}: {refused}", hint=f"start a new run for it: {start} {_flags(entries, str(refused))}")
    closed = answer.get("closed", 0)
    if type(closed) is not int:
        raise Unavailable("the gate answers something else than was asked")
    return closed


def _flags(entries: Sequence[LiveEntry], refused: str) -> str:
    """What a new run would be given for these. A host with rules needs a rule: no other entry opens anything on it."""
    asked = (
        f"GET,HEAD {entry.host}/**" if refused.startswith(f"{entry.host} has method and path rules") else entry.text()
        for entry in entries
    )
    return " ".join(f"--allow {quote(text)}" for text in asked)


def save_entry(project: str, state: str, text: str) -> bool:
    """
    Write an entry at the end of the project's `.ai-sandbox/allow`, and trust the result. Whether it was not there yet.

    What is in the file already has to be trusted: somebody else's lines do not become trusted along with this one.
    """
    file = _read_allow(project)
    trusted = read_record(state, project).get(ALLOW_FILE)
    now = file.text if file else None
    if trusted != now:
        refusal = untrusted(Asked(project, (file,) if file else (), (Change(ALLOW_FILE, trusted, now),)))
        raise Untrusted(refusal.message, refusal.hint.partition("\n")[0])
    data = file.data() if file else b""
    if any(text == there for there, _ in parse_allow_file(data, ALLOW_FILE)):
        return False
    if data and not data.endswith(b"\n"):
        data += b"\n"
    need_writable(state, project)
    new = source_file(ALLOW_FILE, data + text.encode() + b"\n")
    replace_in_project(project, ALLOW_FILE, new.data())
    add_to_record(state, project, new)
    return True


def _read_allow(project: str) -> SourceFile | None:
    with ExitStack() as stack:
        top = open_directory(stack, None, project, project)
        if not is_there(PROJECT_DIRECTORY, top, f"{project}/{PROJECT_DIRECTORY}"):
            return None
        directory = open_directory(stack, top, PROJECT_DIRECTORY, PROJECT_DIRECTORY)
        if not is_there(os.path.basename(ALLOW_FILE), directory, f"{project}/{ALLOW_FILE}"):
            return None
    return read_in_project(project, ALLOW_FILE)
