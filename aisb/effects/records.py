"""The records of runs: what each gate wrote down, kept after the run, and found again."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from aisb.domain.printing import shell_word
from aisb.domain.run_record import ENDS, KEEP_BUILT_IN, UNKNOWN, Keep
from aisb.effects.retention import forget_old
from aisb.effects.run_record import ABOUT, is_running, read_fields
from aisb.effects.session import is_over, living, sessions_of_gates
from aisb.effects.state import make_private, read_if_there
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aisb.effects.run_record import Fields
    from aisb.effects.session import Session
    from aisb.effects.state import Directories

AUDIT = "audit.jsonl"
# It becomes a part of a path.
_GATE = re.compile(r"[0-9a-z-]{1,64}")
_PIECE = 1 << 20
_ABOUT = ("project", "started", "command")


class Kept(NamedTuple):
    """Where a run's record is now, "" where there is none; or why it could not be kept, and what it held."""

    path: str = ""
    fault: str = ""
    lines: tuple[str, ...] = ()


class Recorded(NamedTuple):
    """
    A run that has a record. `session` is where it runs; None once it has ended.

    `has_gate` is whether anything wrote decisions down.
    """

    run: str
    project: str
    started: str
    directory: str
    session: Session | None = None
    has_gate: bool = True

    @property
    def audit(self) -> str:
        """The file of one JSON line a decision."""
        return f"{self.directory}/{AUDIT}"


def keep_record(session: Session, state: str, keep: Keep = KEEP_BUILT_IN) -> Kept:
    """Move what the gate wrote down to the run's record, and forget the oldest ones where there are too many."""
    source = f"{session.path}/{AUDIT}"
    try:
        record = make_private(f"{state}/runs/{session.run}")
        # It is there from the start on, where it could be written then.
        if os.path.exists(f"{session.path}/{ABOUT}") and not os.path.exists(f"{record}/{ABOUT}"):
            _move(f"{session.path}/{ABOUT}", f"{record}/{ABOUT}")
        path = _move(source, f"{record}/{AUDIT}") if os.path.exists(source) else ""
    except OSError as error:
        lines = tuple(read_lines(source)) if os.path.exists(source) else ()
        return Kept(fault=f"the record of run {session.run} is lost: {error}", lines=lines)
    forget_old(state, keep)
    return Kept(path)


def _move(source: str, target: str) -> str:
    """To another file system as a rule: whole, or not at all."""
    # At a run's end, when nobody waits for a start.
    import shutil

    try:
        shutil.move(source, f"{target}.new")
        os.replace(f"{target}.new", target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(f"{target}.new")
        raise
    return target


def read_lines(path: str) -> Iterator[str]:
    """The lines of a record."""
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from file


def recorded(where: Directories) -> list[Recorded]:
    """
    Every run that has a record, the oldest first, those that still run last.

    Raises Unavailable for what cannot be read: it is not taken for "there is none".
    """
    sessions = [session for session in sessions_of_gates(where.runtime) if _has_audit(session.path)]
    living = {session.run for session in sessions if not is_over(session)}
    running = [_recorded(session.run, session.path, session) for session in sessions if session.run in living]
    # Whose aisb was killed, with all that looks after a run: nobody has moved its record yet.
    left = [(session.run, session.path) for session in sessions if session.run not in living]
    # A record that is being moved is in both places, and whole in the first.
    others = set(_names(f"{where.state}/runs")) - {session.run for session in sessions}
    kept = [*((run, f"{where.state}/runs/{run}") for run in sorted(others)), *left]
    finished = [_recorded(run, path, None) for run, path in kept if _has_audit(path)]
    by_start = sorted(finished, key=lambda item: item.started), sorted(running, key=lambda item: item.started)
    return [item for items in by_start for item in items]


def recorded_or_without_gate(where: Directories) -> list[Recorded]:
    """Those of `recorded`, and every run that had no gate to write anything down; in its order. Raises as it does."""
    found = recorded(where)
    sessions = {session.run: session for session in living(where.runtime)}
    gates = f"{where.runtime}/g/"
    with_gate = {run for run, session in sessions.items() if session.path.startswith(gates)}
    known = with_gate.union(item.run for item in found)
    others = [
        Recorded(
            item["run"],
            item["project"],
            item["started"],
            f"{where.state}/runs/{item['run']}",
            sessions.get(item["run"]),
            has_gate=False,
        )
        for item in every_run(where)
        if item["gate"] is None and item["run"] not in known
    ]
    return sorted([*found, *others], key=lambda item: (item.session is not None, item.started))


def _has_audit(directory: str) -> bool:
    path = f"{directory}/{AUDIT}"
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error
    return True


def _unreadable(path: str, error: OSError) -> Unavailable:
    hint = f"see who may: namei -l {shell_word(path)}"
    return Unavailable(f"{path}, of the records of runs, cannot be read: {error.strerror}", hint)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(directory, error) from error


def about_of(session: Session) -> dict[str, str]:
    """What is remembered of a run that goes on."""
    known = _known_of(session)
    return {"run": session.run, **{key: str(known.get(key, "")) for key in _ABOUT}}


def those_that_go_on(where: Directories) -> list[dict[str, Any]]:
    """What is remembered of each, the oldest first. Raises Unavailable for what cannot be read."""
    sessions = living(where.runtime)
    found = [{"run": session.run, **_seen(_known_of(session)), "state": "running"} for session in sessions]
    return sorted(found, key=lambda item: str(item["started"]))


def published_of(session: Session) -> list[str]:
    """The ports that a run publishes, as HOST:PORT."""
    found = _known_of(session).get("publish")
    return [str(item) for item in found] if isinstance(found, list) else []


def _known_of(session: Session) -> dict[str, object]:
    try:
        found = json.loads(read_if_there(f"{session.path}/{ABOUT}") or b"{}")
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def every_run(where: Directories) -> list[dict[str, Any]]:
    """
    What is remembered of each run, the oldest first, with its `state`: those that go on, and those that have ended.

    Raises Unavailable for what cannot be read.
    """
    found = {}
    for run in _names(f"{where.state}/runs"):
        directory = f"{where.state}/runs/{run}"
        try:
            fields = read_fields(directory)
        except OSError as error:
            raise _unreadable(f"{directory}/{ABOUT}", error) from error
        if fields:
            found[run] = {"run": run, **_seen(fields), "state": "running" if is_running(fields) else "ended"}
    for session in living(where.runtime):
        # One whose record could not be written at its start.
        found.setdefault(session.run, {"run": session.run, **_seen(_known_of(session)), "state": "running"})
    return sorted(found.values(), key=lambda item: str(item["started"]))


def _seen(fields: Fields) -> dict[str, Any]:
    """What is shown of a record; what it does not say, or one of an older release, is not known."""
    text = {key: str(fields.get(key) or "") for key in ("project", "started", "command", "net", "reason")}
    numbers = {key: number if type(number := fields.get(key)) is int else None for key in ("exit", "allows")}
    by = fields.get("by")
    gate = fields.get("gate")
    publish = fields.get("publish")
    return {
        **text,
        **numbers,
        "ended": str(fields["ended"]) if fields.get("ended") else None,
        "publish": [str(item) for item in publish] if isinstance(publish, list) else [],
        "by": by if by in ENDS else UNKNOWN,
        "gate": gate if isinstance(gate, str) and _GATE.fullmatch(gate) else None,
    }


def _recorded(run: str, directory: str, session: Session | None) -> Recorded:
    try:
        found = json.loads(read_if_there(f"{directory}/{ABOUT}") or b"{}")
        return Recorded(run, str(found.get("project", "")), str(found.get("started", "")), directory, session)
    except (ValueError, AttributeError):
        return Recorded(run, "", "", directory, session)
    except OSError as error:
        raise _unreadable(f"{directory}/{ABOUT}", error) from error


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


def follow(record: Recorded, wait: Callable[[], None] | None) -> Iterator[bytes]:
    """
    The whole lines of a record, without their ends. With `wait`, which is called where there is no more, to the run's
    end.

    Raises FileNotFoundError where the run has ended meanwhile, and its record is elsewhere; Unavailable where it cannot
    be read.
    """
    rest = b""
    with _open(record.audit) as file:
        while True:
            # Before the last look at it: what is written before the run's end is in it then.
            is_last = wait is None or record.session is None or is_over(record.session)
            while piece := file.read(_PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines
            if is_last or wait is None:
                return
            wait()
