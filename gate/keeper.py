"""
The process between the tool server and a command: all that the command starts is its offspring, whatever it does.

A process that leaves its parent, its group and its session is handed to the nearest ancestor that said it would take
such ones in. For a command that is its keeper, so that a cancelled command can be ended with everything it began. What
is still there when a command has ended by itself is handed on to the sandbox's init, and lives until the session ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built into CPython, not in the stubs; `signal` costs 9 ms
import ctypes
import fcntl
import os
import select
import time

from gate.launcher import NOT_EXECUTABLE, NOT_FOUND, find_command

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# What the tool server says to a keeper.
RELEASE = b"r"
KILL = b"k"

_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
# stdin, stdout, stderr, what is said to the server, what it says.
_STATUS, _ORDERS = 3, 4
_FIRST_OTHER = 5
_MOST_DESCRIPTORS = 65536
# For what cannot be killed just now, in the midst of a system call that does not end.
_MOST_SECONDS = 10.0
_AGAIN_SECONDS = 0.05
_LOOK_SECONDS = 0.002

_libc = ctypes.CDLL(None, use_errno=True)


class Descriptors:
    """What a keeper has open: a command's three, and its two pipes to the server."""

    __slots__ = ("all",)

    def __init__(self, stdin: int, stdout: int, stderr: int, status: int, orders: int) -> None:
        self.all = (stdin, stdout, stderr, status, orders)


def close_memory() -> None:
    """
    Let no other process of this user look into this one, nor use what it has open.

    A command could write answers of its own to the server's stdout otherwise. What is started is as open as usual.
    """
    _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def keep(command: list[bytes], directory: bytes, environment: dict[bytes, bytes], given: Descriptors) -> NoReturn:
    """
    Run a command and say how it ended: `exit N`, `signal N`, or `directory ERRNO` where it was not begun.

    To be called in a new child. Told to kill, it says `gone` when nothing is left of what the command began.
    """
    try:
        # The server's pipe for it is closed in a moment.
        _signal.set_wakeup_fd(-1)
        _arrange(given)
        if _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            os._exit(1)
        child = _begin(command, directory, environment)
        if child:
            _Keeper(child).run()
    finally:
        os._exit(1)


def _arrange(given: Descriptors) -> None:
    """Have them be 0 to 4, and nothing else: another command's pipe would never end while this one has it."""
    # Out of the way first: a target may be the number of another's source.
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_OTHER) for descriptor in given.all]
    for target, source in enumerate(moved):
        os.dup2(source, target, inheritable=target <= 2)
    os.closerange(_FIRST_OTHER, _MOST_DESCRIPTORS)


def _begin(command: list[bytes], directory: bytes, environment: dict[bytes, bytes]) -> int:
    """Start it, in a session of its own; 0 where that could not be, which is said by then."""
    try:
        os.chdir(directory)
    except OSError as error:
        _say(f"directory {error.errno}")
        return 0
    path = find_command(command[0], environment.get(b"PATH", b""))
    if isinstance(path, int):
        return _complain(command[0], "command not found" if path == NOT_FOUND else "not executable", path)
    defaults = (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGCHLD)
    try:
        child = os.posix_spawn(path, command, environment, setsid=True, setsigmask=(), setsigdef=defaults)
    except OSError as error:
        return _complain(command[0], error.strerror or "cannot be run", NOT_EXECUTABLE)
    finally:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
    return child


def _complain(name: bytes, what: str, code: int) -> int:
    shown = "".join(char if char.isprintable() else "?" for char in name.decode("utf-8", "replace"))
    try:
        os.write(2, f"aisb: {shown}: {what}\n".encode())
    except OSError:
        code = NOT_EXECUTABLE
    _say(f"exit {code}")
    return 0


def _say(text: str) -> None:
    os.write(_STATUS, f"{text}\n".encode("ascii"))


class _Keeper:
    """Waits for the command and for the server, and takes in the orphans."""

    def __init__(self, child: int) -> None:
        self._child = child
        self._woken, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)

    def run(self) -> NoReturn:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        poll.register(_ORDERS, select.POLLIN)
        # It may have ended before we were told of such things.
        self._reap()
        while True:
            ready = dict(poll.poll())
            if self._woken in ready:
                self._calm()
                self._reap()
            if _ORDERS in ready:
                if os.read(_ORDERS, 1) == KILL:
                    self._end_all()
                    _say("gone")
                os._exit(0)

    def _reap(self) -> bool:
        """Take in what has ended; whether nothing is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if not process:
                return False
            if process == self._child:
                code = os.waitstatus_to_exitcode(status)
                _say(f"exit {code}" if code >= 0 else f"signal {-code}")

    def _end_all(self) -> None:
        """Kill the whole offspring, and take it in only then."""
        while True:
            end_offspring(os.getpid(), _MOST_SECONDS)
            if self._reap():
                return
            if select.select([self._woken], [], [], _AGAIN_SECONDS)[0]:
                self._calm()

    def _calm(self) -> None:
        os.read(self._woken, 4096)


def end_with(life: int) -> None:
    """
    Have a child of ours kill all of our offspring, whatever we become, as soon as the pipe `life` ends.

    Whoever has the other end outside was killed, or told to end: what it began in here is not to outlive it.
    """
    ours = os.getpid()
    if os.fork():
        os.close(life)
        return
    try:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        poll = select.poll()
        us = os.pidfd_open(ours)
        poll.register(us, select.POLLIN)
        poll.register(life, select.POLLIN)
        if us not in dict(poll.poll()):
            end_all_of(ours, _MOST_SECONDS)
    finally:
        os._exit(0)


def end_all_of(process: int, seconds: float) -> None:
    """
    Kill all below a process that takes in its orphans, and then itself. It takes at most so many seconds.

    It is stopped first: it would end with its command, and what was being forked would be somebody else's.
    """
    _kill(process, _signal.SIGSTOP)
    end_offspring(process, seconds)
    _kill(process, _signal.SIGKILL)


def end_offspring(above: int, seconds: float) -> None:
    """
    Kill all below that process but ourselves. It must not wait for its children meanwhile.

    Each is stopped before any is killed, until nobody is left who could begin another one. A look takes no picture of
    one moment: what forks and ends, over and over, may be missed by each, but leaves its dead, which fill the table of
    processes until it can fork no more. What is being forked during a look is seen by the next. So two looks in a row
    have to find nobody alive, and nobody new among the dead.
    """
    deadline = time.monotonic() + seconds
    known: set[int] = set()
    was_over = False
    while time.monotonic() < deadline:
        found = offspring(above)
        is_settled = found.keys() <= known
        for process, lives in found.items():
            if lives:
                _kill(process, _signal.SIGKILL if is_settled else _signal.SIGSTOP)
        is_over = is_settled and not any(found.values())
        if is_over and was_over:
            return
        was_over = is_over
        known |= found.keys()
        if is_settled:
            time.sleep(_LOOK_SECONDS)
    for process in offspring(above):
        _kill(process, _signal.SIGKILL)


def offspring(above: int) -> dict[int, bool]:
    """
    Every process below that one but ourselves, and whether it is alive.

    The dead are there until somebody has waited for them.
    """
    children: dict[int, list[int]] = {}
    alive: dict[int, bool] = {}
    for process in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if there := _parent(process):
            parent, alive[process] = there
            children.setdefault(parent, []).append(process)
    found = list(children.get(above, []))
    for process in found:
        found.extend(children.get(process, []))
    return {process: alive[process] for process in found if process != os.getpid()}


def _parent(process: int) -> tuple[int, bool] | None:
    """
    The parent of a process, and whether it is alive: fields 4, 3 and 20 of /proc/PID/stat (proc_pid_stat(5)).

    None where it is there no more. What has ended in its first thread alone goes on in the others.
    """
    try:
        with open(f"/proc/{process}/stat", "rb", buffering=0) as file:
            # After a name that may hold anything.
            fields = file.readall().rpartition(b")")[2].split()
        state, parent, threads = fields[0], int(fields[1]), int(fields[17])
    except (OSError, ValueError, IndexError):
        return None
    return parent, state not in b"ZX" or threads > 1


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
