"""The records of runs: what each gate wrote down, kept after the run, and found again."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from aisb.domain.printing import shell_word
from aisb.effects.session import is_over, sessions_of_gates
from aisb.effects.state import make_private, read_if_there
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aisb.effects.session import Session
    from aisb.effects.state import Directories

AUDIT = "audit.jsonl"
ABOUT = "run.json"
# Of older runs nothing is kept, nor where all records together are larger.
MOST_RECORDS = 100
MOST_BYTES = 256 * 1024 * 1024
_PIECE = 1 << 20


class Kept(NamedTuple):
    """Where a run's record is now, "" where there is none; or why it could not be kept, and what it held."""

    path: str = ""
    fault: str = ""
    lines: tuple[str, ...] = ()


class Recorded(NamedTuple):
    """A run that has a record. `session` is where it runs; None once it has ended."""

    run: str
    project: str
    started: str
    directory: str
    session: Session | None = None

    @property
    def audit(self) -> str:
        """The file of one JSON line a decision."""
        return f"{self.directory}/{AUDIT}"


def about(run: str, project: str, command: str = "", publish: Sequence[str] = ()) -> str:
    """What is remembered of a run besides its decisions; of the command its first word. `publish`: HOST:PORT."""
    # To the millisecond: of two that began in one second the later one is the last.
    now = time.time()
    started = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
    known = {"run": run, "project": project, "started": started, "command": command}
    return json.dumps(known | ({"publish": list(publish)} if publish else {})) + "\n"


def keep_record(session: Session, state: str) -> Kept:
    """Move what the gate wrote down to the run's record, and forget the oldest ones where there are too many."""
    source = f"{session.path}/{AUDIT}"
    if not os.path.exists(source):
        return Kept()
    # At a run's end, when nobody waits for a start.
    import shutil

    try:
        record = make_private(f"{state}/runs/{session.run}")
        if os.path.exists(f"{session.path}/{ABOUT}"):
            shutil.move(f"{session.path}/{ABOUT}", f"{record}/{ABOUT}")
        path = str(shutil.move(source, f"{record}/{AUDIT}"))
    except OSError as error:
        return Kept(fault=f"the record of run {session.run} is lost: {error}", lines=tuple(read_lines(source)))
    forget_old(state)
    return Kept(path)


def read_lines(path: str) -> Iterator[str]:
    """The lines of a record."""
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from file


def forget_old(state: str, most: int = MOST_RECORDS, most_bytes: int = MOST_BYTES) -> None:
    """Remove the oldest records beyond the bounds; the newest one stays, however large."""
    import shutil

    found = sorted(_sizes(f"{state}/runs"), reverse=True)
    together = 0
    for number, (_, path, size) in enumerate(found):
        together += size
        if number and (number >= most or together > most_bytes):
            shutil.rmtree(path, ignore_errors=True)


def _sizes(directory: str) -> Iterator[tuple[int, str, int]]:
    """When each record was last written, where it is, and how large."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            # Another run may be forgetting the same one; and what cannot be looked at cannot be removed either.
            with suppress(OSError):
                status = os.stat(f"{entry.path}/{AUDIT}")
                yield status.st_mtime_ns, entry.path, status.st_size


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
    return {"run": session.run, **{key: str(known.get(key, "")) for key in ("project", "started", "command")}}


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
