"""A run's own directory: what was rendered for it, and the directory of its gate socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.printing import shell_word
from aisb.effects.state import read_if_there
from aisb.errors import Unavailable
from aisb.render.argv import EMPTY_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A run's directory is made in milliseconds.
_MAKING_SECONDS = 60.0

# The run of lines that `--dry-run` printed. All zeroes is no id that a gate takes.
PASTED = "00000001"


class Session(NamedTuple):
    """The directory of one run."""

    run: str
    path: str

    @property
    def files(self) -> str:
        """Mounted read-only at /run/aisb in the sandbox."""
        return f"{self.path}/run"

    @property
    def pid_file(self) -> str:
        """Where podman writes the sandbox's first process."""
        return f"{self.path}/pid"

    @property
    def variables(self) -> str:
        """The number under which its aisb has the command's variables open, a memory file; seen by no sandbox."""
        return f"{self.path}/variables"

    @property
    def doors(self) -> str:
        """Where we listen for the gate, a socket for each port of the host; seen by no sandbox."""
        return f"{self.path}/h"

    @property
    def published(self) -> str:
        """Where we listen for the sandbox, a socket for each published port; read-only in it, as all of `files`."""
        return f"{self.files}/p"

    @property
    def sockets(self) -> str:
        """Mounted read-only at /run/aisb/gate; the gate makes the socket in it."""
        return f"{self.path}/s"


def lend_variables(session: Session, descriptor: int) -> None:
    """Write down under which number we have the variables of the run's command, for later commands of the run."""
    _write_public(session.variables, f"{descriptor}\n")


def new_run_id() -> str:
    """Eight hex digits: short, because a socket's path must be."""
    return os.urandom(4).hex()


def session_at(parent: str, run: str) -> Session:
    """The session of a run, made or not."""
    return Session(run, f"{parent}/{run}")


def directories_of(session: Session) -> dict[str, int]:
    """The directories of a run with their modes, the outer ones first."""
    gate, nothing = f"{session.files}/gate", f"{session.files}/{EMPTY_DIRECTORY}"
    return {session.path: 0o711, session.files: 0o755, session.sockets: 0o711, gate: 0o755, nothing: 0o755}


def open_session(
    parent: str, run: str, files: Mapping[str, str], seccomp: str, own: Mapping[str, str] | None = None
) -> Session:
    """
    Make the directory of a run and write its files; those of its `own` are for aisb and the gate, not for the sandbox.

    Root in the sandbox is a subordinate id without DAC_OVERRIDE, so what it reads is world-readable;
    the runtime directory above is 0700.
    """
    session = session_at(parent, run)
    os.makedirs(parent, mode=0o711, exist_ok=True)
    # Whoever takes away what has no owner waits until this one has.
    with _locked(parent, fcntl.LOCK_SH):
        for directory, mode in directories_of(session).items():
            os.mkdir(directory)
            os.chmod(directory, mode)
        for name, text in files.items():
            _write_public(f"{session.files}/{name}", text)
        for name, text in {"seccomp.json": seccomp, **(own or {}), "owner": this_process()}.items():
            _write_public(f"{session.path}/{name}", text)
    return session


@contextlib.contextmanager
def _locked(directory: str, kind: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def this_process() -> str:
    """This process as nothing else ever was: its id, when it started (in ticks since boot), and the boot's id."""
    return f"{os.getpid()} {start_time('self')} {_boot_id()}"


def living(runtime: str) -> list[Session]:
    """Every session whose aisb runs, with a gate or without one. Raises Unavailable where that cannot be read."""
    sessions = [session_at(parent, run) for parent in _parents(runtime) for run in _names(parent)]
    return [session for session in sessions if not _is_left(session)]


def _parents(runtime: str) -> list[str]:
    """Where the directories of runs are: of those without a gate, and of each gate's."""
    return [f"{runtime}/r", *_parents_of_gates(runtime)]


def _parents_of_gates(runtime: str) -> list[str]:
    return [f"{runtime}/g/{gate}/r" for gate in _names(f"{runtime}/g")]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(directory, error) from error


def _unreadable(path: str, error: OSError) -> Unavailable:
    hint = f"see who may: namei -l {shell_word(path)}"
    return Unavailable(f"{path}, of the runs that go on, cannot be read: {error.strerror}", hint)


def owner_of(session: Session) -> int:
    """The process whose run it is; 0 where that is gone."""
    owner = (read_if_there(f"{session.path}/owner") or b"").decode("ascii", "replace").split()
    return 0 if len(owner) != 3 or _is_orphan(f"{session.path}/owner") else int(owner[0])


def is_over(session: Session) -> bool:
    """Whether the run's directory is gone, or its aisb."""
    return not os.path.exists(f"{session.path}/owner") or _is_orphan(f"{session.path}/owner")


def sessions_of_gates(runtime: str) -> list[Session]:
    """Every session that has a gate, whether its aisb runs or not. Raises Unavailable where that cannot be read."""
    return [session_at(parent, run) for parent in _parents_of_gates(runtime) for run in _names(parent)]


def orphans(parent: str) -> list[Session]:
    """
    The sessions below `parent` whose aisb is gone, or that never had one.

    One that is just being made has no owner yet, and is left.
    """
    sessions = [session_at(parent, run) for run in _names(parent)]
    found = [session for session in sessions if _is_left(session)]
    nobodys = [session for session in found if not _has_owner(session)]
    if nobodys:
        # However long one takes to make it: now nobody is in the middle of it.
        with _locked(parent, fcntl.LOCK_EX):
            made = {session for session in nobodys if _has_owner(session)}
        found = [session for session in found if session not in made]
    return found


def every_orphan(runtime: str) -> list[Session]:
    """The orphans of all gates, and of no gate. Raises Unavailable where they cannot be read."""
    return [session for parent in _parents(runtime) for session in orphans(parent)]


def _is_left(session: Session) -> bool:
    """Whether it is nobody's any more, or never was anybody's: no owner, no first process, and made long ago."""
    if _has_owner(session):
        return _is_orphan(f"{session.path}/owner")
    return _age_of(session.path) > _MAKING_SECONDS and not _goes_on(session)


def _has_owner(session: Session) -> bool:
    """Whether it says whose it is."""
    try:
        return len((read_if_there(f"{session.path}/owner") or b"").split()) == 3
    except OSError as error:
        raise _unreadable(f"{session.path}/owner", error) from error


def _goes_on(session: Session) -> bool:
    process = (read_if_there(session.pid_file) or b"").decode("ascii", "replace").strip()
    return process.isdigit() and bool(start_time(process))


def _age_of(directory: str) -> float:
    """For how many seconds nothing was made in it, or taken away; 0 where it is gone."""
    try:
        return time.time() - os.stat(directory).st_mtime
    except FileNotFoundError:
        return 0.0


def _is_orphan(path: str) -> bool:
    try:
        return is_gone((read_if_there(path) or b"").decode("ascii", "replace"))
    except OSError as error:
        raise _unreadable(path, error) from error


def is_gone(process: str) -> bool:
    """Whether a process is no more that has written itself down as `this_process` does."""
    owner = process.split()
    return len(owner) == 3 and (owner[2] != _boot_id() or owner[1] != start_time(owner[0]))


def start_time(process: str) -> str:
    """Field 22 of /proc/PID/stat (proc_pid_stat(5)); "" where there is no such process."""
    text = (read_if_there(f"/proc/{process}/stat") or b"").decode("ascii", "replace")
    return text.rpartition(")")[2].split()[19] if text else ""


def process_start() -> float:
    """When this process started, on the clock of `time.monotonic`, to a hundredth of a second."""
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(start_time("self")) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age


def _boot_id() -> str:
    return (read_if_there("/proc/sys/kernel/random/boot_id") or b"").decode("ascii", "replace").strip()


@contextlib.contextmanager
def claimed(session: Session) -> Iterator[bool]:
    """
    Whether the run's directory is the caller's to take away: not where another takes it away just now, or has.

    A run whose aisb was killed has its guardian, and every run that starts meanwhile.
    """
    try:
        descriptor = os.open(session.path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = True
    except BlockingIOError:
        mine = False
    try:
        yield mine
    finally:
        os.close(descriptor)


def close_session(session: Session) -> None:
    """Remove the run's directory; a part that is gone already is no trouble."""
    # Imported at a run's end, when nobody waits for a start.
    import shutil

    shutil.rmtree(session.path, ignore_errors=True)


def _write_public(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(descriptor, 0o644)
        file.write(text)
