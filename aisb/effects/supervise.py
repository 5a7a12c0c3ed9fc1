"""
Stay beside a running sandbox: read its phases, pass signals on, and see that it ends when aisb does.

Three things end a sandbox whose aisb was killed: podman's own parent-death signal, a guardian that
notices and removes the container by name, and, whatever happens to both, the gate, whose lock is free.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import termios
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.process import Command, spawn
from aisb.effects.session import close_session
from aisb.errors import AisbError, Unavailable, Unprotected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aisb.effects.process import Runner
    from aisb.effects.session import Session

GRACE_SECONDS = 10.0
EXEC = "exec"
_REFUSED = "refused "
_LONGEST_PHASES = 65536


class Outcome(NamedTuple):
    """How a sandbox ended: the exit status, and when it reached each phase (monotonic seconds)."""

    status: int
    phases: dict[str, float]
    refusal: str

    def exit_code(self) -> int:
        """
        The command's own exit code. Raises what went wrong where the command was never reached.

        Only after the phase `exec` is the status the command's: podman uses 125 to 127 for troubles
        of its own, and so do commands.
        """
        if EXEC in self.phases:
            return self.status
        if self.refusal or self.status == Unprotected.exit_code:
            raise Unprotected(f"refused to run unprotected: {self.refusal or 'the sandbox did not say why'}")
        if self.status > 128:
            return self.status
        raise Unavailable(f"podman could not start the sandbox (it exited {self.status})", hint="what it says is above")


class Lines:
    """Collects the lines that come through the phase pipe, each with the time it came."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rest = b""
        self._size = 0
        self.phases: dict[str, float] = {}
        self.refusal = ""

    def feed(self, data: bytes) -> None:
        """Take bytes as they come. What comes from a sandbox is bounded."""
        self._size += len(data)
        if self._size > _LONGEST_PHASES:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))

    def _take(self, line: str) -> None:
        if line.startswith(_REFUSED):
            self.refusal = self.refusal or line.removeprefix(_REFUSED)[:500]
        else:
            self.phases.setdefault(line[:20], self._clock())


@contextlib.contextmanager
def guardian(runner: Runner, remove: Command, session: Session) -> Iterator[None]:
    """
    While the block runs, a child of ours waits for our death; then it removes the container and the session.

    It has a session of its own, so that no signal from the terminal reaches it.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _guard(read_end, write_end, runner, remove, session)
    os.close(read_end)
    try:
        yield
    finally:
        os.write(write_end, b".")
        os.close(write_end)
        os.waitpid(child, 0)


def _guard(read_end: int, write_end: int, runner: Runner, remove: Command, session: Session) -> None:
    try:
        os.setsid()
        os.close(write_end)
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        if not os.read(read_end, 1):
            with contextlib.suppress(AisbError):
                runner.run(remove)
            close_session(session)
    finally:
        os._exit(0)


def run_attached(argv: tuple[str, ...], variables: int, lock: int | None, kill: Callable[[], None]) -> Outcome:
    """
    Run a sandbox on this terminal to its end.

    `variables` is the memory file, handed on as descriptor 3; 4 is the phase pipe; `lock` is held open by
    podman, so that it outlives us. `kill` ends the container when it does not follow a signal in time.
    """
    phases, theirs = os.pipe2(os.O_CLOEXEC)
    descriptors = {3: variables, 4: theirs} | ({5: lock} if lock is not None else {})
    with _terminal_kept(), _signals_noted() as noted:
        child = spawn(argv, descriptors, {})
        os.close(theirs)
        lines = Lines()
        status = _wait(child, phases, noted, lines, kill)
    os.close(phases)
    if EXEC in lines.phases:
        lines.phases["command"] = time.monotonic()
    return Outcome(_exit_status(status), lines.phases, lines.refusal)


def _wait(child: int, phases: int, noted: int, lines: Lines, kill: Callable[[], None]) -> int:
    deadline: float | None = None
    ended = os.pidfd_open(child)
    with selectors.DefaultSelector() as selector:
        for descriptor in (ended, phases, noted):
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = {key.fd for key, _ in selector.select(timeout)}
            if phases in ready and not _drain(phases, lines):
                selector.unregister(phases)
            if noted in ready:
                deadline = _pass_on(child, noted, deadline)
            if deadline is not None and time.monotonic() >= deadline:
                kill()
                deadline = time.monotonic() + GRACE_SECONDS
            if ended in ready:
                while phases in selector.get_map() and _drain(phases, lines):
                    pass
                os.close(ended)
                return os.waitpid(child, 0)[1]


def _drain(phases: int, lines: Lines) -> bool:
    """Read what is there; False at the end of the pipe, or where nothing more is waiting."""
    os.set_blocking(phases, False)
    try:
        data = os.read(phases, 4096)
    except BlockingIOError:
        return False
    lines.feed(data)
    return bool(data)


def _pass_on(child: int, noted: int, deadline: float | None) -> float | None:
    """
    Give TERM and HUP to podman, which gives them to the command; they start the time of grace.

    INT and QUIT come from the terminal and have reached podman already.
    """
    for number in os.read(noted, 64):
        if number in (signal.SIGTERM, signal.SIGHUP):
            os.kill(child, number)
            deadline = deadline or time.monotonic() + GRACE_SECONDS
    return deadline


@contextlib.contextmanager
def _signals_noted() -> Iterator[int]:
    """Signals wake the loop instead of ending us; a program started meanwhile has them at their defaults."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    handled = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: None) for number in handled}
    wakeup = signal.set_wakeup_fd(write_end)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Leave the terminal as it was found, also where podman was killed with the terminal in raw mode."""
    if not sys.stdin or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        # A process in the background that sets the terminal is stopped by SIGTTOU.
        old = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTTOU, old)


def _exit_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def sealed(data: bytes) -> int:
    """A memory file with `data` that nobody can change any more; for descriptor 3."""
    import fcntl

    descriptor = os.memfd_create("aisb-variables", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(
        descriptor,
        fcntl.F_ADD_SEALS,
        fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE,
    )
    return descriptor
