"""Stay beside a running sandbox: read its phases, pass signals on, and see how it ends."""

from __future__ import annotations

import os
import select
import selectors
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.output import Outlets, open_outlets
from aisb.effects.process import spawn
from aisb.effects.signals import STOPS, listening
from aisb.effects.terminal import LOOK_SECONDS, Job, Terminal, terminal_kept, terminal_to_lend
from aisb.errors import Unavailable, Unprotected

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_SECONDS = 10.0
EXEC = "exec"
_REFUSED = "refused "
_LONGEST_PHASES = 65536
_TROUBLE = frozenset({125, 126, 127})
_LOOK_AFTER_SECONDS = 3.0
_ENDED_BY_US = frozenset({128 + signal.SIGTERM, 128 + signal.SIGKILL})


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


class Wiring(NamedTuple):
    """
    What podman gets besides its argv.

    `variables` is the memory file, which the sandbox reads as descriptor 3; 4 is the phase pipe. `held` is the
    guardian's and `lock` the gate's: podman has both open for as long as it lives. `pid_file` is where it writes the
    sandbox's first process. `terminal` says whether the sandbox has one.
    """

    variables: int
    held: int
    lock: int | None
    pid_file: str
    terminal: bool

    def descriptors(self, phases: int) -> dict[int, int]:
        """The numbers that podman sees, and ours."""
        return {3: self.variables, 4: phases, 5: self.held} | ({6: self.lock} if self.lock is not None else {})


def run_attached(argv: tuple[str, ...], wiring: Wiring, kill: Callable[[], None]) -> Outcome:
    """
    Run a sandbox on this terminal to its end. To be called with signals held.

    `kill` ends the container, where it does not follow a signal in time or podman may have left it behind.
    """
    phases, theirs = os.pipe2(os.O_CLOEXEC)
    outlets = open_outlets()
    terminal = terminal_to_lend() if wiring.terminal else None
    with terminal_kept(), listening(stops=terminal is None) as noted:
        if terminal:
            terminal.wait_for_it()
        child = spawn(argv, wiring.descriptors(theirs) | outlets.descriptors, {}, own_group=terminal is not None)
        os.close(theirs)
        outlets.start()
        sandbox = _Sandbox(child, phases, noted, outlets, Job(wiring.pid_file), kill)
        if terminal:
            terminal.lend(child)
        status = sandbox.wait(terminal)
        if terminal:
            terminal.take_back(child)
        sandbox.wait_for_readers()
    os.close(phases)
    return sandbox.outcome(status)


class _Sandbox:
    """A running podman, and all that may be heard of it meanwhile."""

    def __init__(
        self, child: int, phases: int, noted: int, outlets: Outlets, job: Job, kill: Callable[[], None]
    ) -> None:
        self._child = child
        self._phases = phases
        self._noted = noted
        self._outlets = outlets
        self._job = job
        self._kill = kill
        self._lines = Lines()
        self._deadline: float | None = None
        self._reader_left = False
        self._told = 0
        self._look_until = 0.0

    def wait(self, terminal: Terminal | None) -> int:
        """The status with which podman ended."""
        ended = os.pidfd_open(self._child)
        with selectors.DefaultSelector() as selector:
            for descriptor in (ended, self._phases, self._noted, self._outlets.left):
                selector.register(descriptor, selectors.EVENT_READ)
            ready: set[int] = set()
            while ended not in ready:
                ready = {key.fd for key, _ in selector.select(self._timeout(terminal))}
                if self._phases in ready and not _drain(self._phases, self._lines):
                    selector.unregister(self._phases)
                self._obey(ready)
                if terminal and EXEC in self._lines.phases and not self._told:
                    self._suspend(terminal)
                if time.monotonic() < self._look_until:
                    self._job.resume()
            while self._phases in selector.get_map() and _drain(self._phases, self._lines):
                pass
        os.close(ended)
        if EXEC in self._lines.phases:
            self._lines.phases["command"] = time.monotonic()
        return os.waitpid(self._child, 0)[1]

    def wait_for_readers(self) -> None:
        """Until they have all that was written, or a signal says that it need not be."""
        self._outlets.end()
        select.select([self._outlets.done, self._noted], [], [])

    def outcome(self, status: int) -> Outcome:
        """How it ended, with nothing left of it."""
        code = _exit_status(status)
        # podman that was killed or in trouble may have left its container, and a command that says the same has not.
        if os.WIFSIGNALED(status) or code in _TROUBLE:
            self._kill()
        if self._reader_left and code in _ENDED_BY_US:
            code = 128 + signal.SIGPIPE
        if self._told:
            code = 128 + self._told
        return Outcome(code, self._lines.phases, self._lines.refusal)

    def _timeout(self, terminal: Terminal | None) -> float | None:
        times = [LOOK_SECONDS] if terminal or time.monotonic() < self._look_until else []
        if self._deadline is not None:
            times.append(max(0.0, self._deadline - time.monotonic()))
        return min(times, default=None)

    def _obey(self, ready: set[int]) -> None:
        """
        Tell podman to end, which tells the command, where we are told to or nobody reads any more.

        What the terminal sends has reached podman already. After the time of grace the container is killed.
        """
        if self._noted in ready:
            arrived = os.read(self._noted, 64)
            for number, from_terminal in zip(arrived[::2], arrived[1::2], strict=True):
                if number in STOPS:
                    self._stop()
                elif not from_terminal:
                    os.kill(self._child, number)
                if number in (signal.SIGTERM, signal.SIGHUP):
                    self._give_grace()
        if self._outlets.left in ready:
            os.read(self._outlets.left, 64)
            self._reader_left = True
            os.kill(self._child, signal.SIGTERM)
            self._give_grace()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._kill()
            self._deadline = time.monotonic() + GRACE_SECONDS

    def _suspend(self, terminal: Terminal) -> None:
        """If the command is stopped, stop as well."""
        if not self._job.stopped():
            return
        if terminal.stop(self._child, self._noted):
            self._job.resume()
        else:
            # podman is stopped, perhaps with a lock of its own, and so is the command: neither could follow.
            self._told = os.read(self._noted, 64)[0]
            os.kill(self._child, signal.SIGKILL)

    def _stop(self) -> None:
        """
        Stop with podman, which only passes on what would stop it, and would go on to read from the terminal.

        Whether it has passed it on by now is not certain, nor in which order it passes on what is waiting when it is
        continued: we stop the command as well, and look after it for a while.
        """
        if EXEC in self._lines.phases:
            self._job.stop()
        os.kill(self._child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(self._child, signal.SIGCONT)
        self._look_until = time.monotonic() + _LOOK_AFTER_SECONDS

    def _give_grace(self) -> None:
        self._deadline = self._deadline or time.monotonic() + GRACE_SECONDS


def _drain(phases: int, lines: Lines) -> bool:
    """Read what is there; False at the end of the pipe, or where nothing more is waiting."""
    os.set_blocking(phases, False)
    try:
        data = os.read(phases, 4096)
    except BlockingIOError:
        return False
    lines.feed(data)
    return bool(data)


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
