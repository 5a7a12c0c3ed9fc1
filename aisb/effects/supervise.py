"""Stay beside a running sandbox: read its phases, pass signals on, and see how it ends."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.limits import TIMEOUT
from aisb.effects.cgroups import Watch
from aisb.effects.guardian import kill_first_process
from aisb.effects.output import Outlets, open_outlets
from aisb.effects.process import spawn
from aisb.effects.signals import STOPS, ending, listening
from aisb.effects.terminal import (
    LOOK_SECONDS,
    Job,
    Terminal,
    not_stopped_for_it,
    terminal_kept,
    terminal_to_lend,
)
from aisb.errors import Unavailable, Unprotected

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_SECONDS = 10.0
# As timeout(1) ends.
TIMED_OUT = 124
EXEC = "exec"
_REFUSED = "refused "
_SEEDED = "seeded "
_UNSTARTED = {"unstarted 126": 126, "unstarted 127": 127}
_MOST_SEEDS = 20
_IN_THE_HOME = (
    "go on without pi's configuration: --no-pi-config; or with a home that ends with the run: --ephemeral-home"
)
_LONGEST_PHASES = 65536
_TROUBLE = frozenset({125, 126, 127})
_LOOK_AFTER_SECONDS = 3.0
# While a sandbox starts: how often it is looked at, and how late we may hear of a signal that ended podman too.
_START_LOOK_SECONDS = 0.01
_LATE_SECONDS = 0.05
_ENDED_BY_US = frozenset({128 + signal.SIGTERM, 128 + signal.SIGKILL})


class Outcome(NamedTuple):
    """How a sandbox ended: the exit status, and when it reached each phase (monotonic seconds)."""

    status: int
    phases: dict[str, float]
    refusal: str
    # Why the command's output could not be written, in words; "" where it could, or where stderr is what fails.
    unwritten: str = ""
    # The caps that it hit, by podman's names, `timeout` among them.
    hits: tuple[str, ...] = ()
    # What became of files in the home: the state, and the path from there on.
    seeds: tuple[tuple[str, str], ...] = ()
    # Whether somebody told us to end it, or its time was over.
    was_told: bool = False
    # The signal by which somebody did; 0 where nobody did.
    told_by: int = 0
    # Whether it ended because nobody read its output any more.
    reader_left: bool = False
    # 127 or 126 where there was no such command inside, or none that can be executed.
    unstarted: int = 0

    def exit_code(self) -> int:
        """
        The command's own exit code. Raises what went wrong where the command was never reached.

        Only after the phase `exec` is the status the command's: podman uses 125 to 127 for troubles
        of its own, and so do commands.
        """
        if EXEC in self.phases:
            return self.status
        if self.refusal or self.status == Unprotected.exit_code:
            what = self.refusal or "the sandbox did not say why"
            raise Unprotected(f"refused to run unprotected: {what}", _IN_THE_HOME if " in the home: " in what else "")
        if self.status > 128:
            return self.status
        raise Unavailable(
            f"podman could not start the sandbox (it exited {self.status})",
            hint="what it says is above; this machine is looked at by: aisb doctor",
        )


class Lines:
    """Collects the lines that come through the phase pipe, each with the time it came."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rest = b""
        self._size = 0
        self.phases: dict[str, float] = {}
        self.refusal = ""
        self.seeds: list[tuple[str, str]] = []
        self.unstarted = 0

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
        elif line.startswith(_SEEDED):
            state, _, path = line.removeprefix(_SEEDED).partition(" ")
            self.seeds = [*self.seeds, (state, path[:200])][:_MOST_SEEDS]
        elif line in _UNSTARTED:
            self.unstarted = _UNSTARTED[line]
        else:
            self.phases.setdefault(line[:20], self._clock())


class Wiring(NamedTuple):
    """
    What podman gets besides its argv.

    `variables` is the memory file, which the sandbox reads as descriptor 3; 4 is the phase pipe. `held` is the
    guardian's, `lock` the gate's and `shield` the project's: podman has all open for as long as it lives. `pid_file` is
    where it writes the sandbox's first process. `terminal` says whether the sandbox has one. After `timeout_seconds`
    the command is ended; 0 is never.
    """

    variables: int
    held: int
    lock: int | None
    shield: tuple[int, ...]
    pid_file: str
    terminal: bool
    timeout_seconds: int = 0
    # What podman has for stdin and stdout in the place of ours; closed here once it has them.
    streams: tuple[int, int] | None = None
    # Called when the command begins.
    on_begin: Callable[[], None] | None = None
    # What it is told in the place of SIGTERM: an interactive shell heeds that a terminal hangs up, and nothing less.
    ended_by: int = signal.SIGTERM
    # Called when somebody tells us to end it, or its time is over: podman may wait for who reads from it.
    on_told: Callable[[], None] | None = None

    def descriptors(self, phases: int) -> dict[int, int]:
        """The numbers that podman sees, and ours."""
        locks = [self.lock, *self.shield] if self.lock is not None else self.shield
        streams = dict(enumerate(self.streams)) if self.streams else {}
        return streams | {3: self.variables, 4: phases, 5: self.held} | dict(enumerate(locks, start=6))


def run_attached(
    argv: tuple[str, ...], wiring: Wiring, kill: Callable[[], None], meanwhile: Callable[[], None]
) -> Outcome:
    """
    Run a sandbox on this terminal to its end. To be called with signals held.

    `kill` ends the container, where it does not follow a signal in time or podman may have left it behind.
    `meanwhile` is called while podman starts.
    """
    phases, theirs = os.pipe2(os.O_CLOEXEC)
    terminal = terminal_to_lend() if wiring.terminal else None
    outlets = open_outlets(stdout=not (wiring.terminal or wiring.streams), podmans_alone=wiring.terminal)
    with terminal_kept(), listening(stops=terminal is None) as noted:
        if terminal:
            terminal.wait_for_it()
        with not_stopped_for_it() if terminal else contextlib.nullcontext():
            child = spawn(argv, wiring.descriptors(theirs) | outlets.descriptors, {}, own_group=terminal is not None)
        for descriptor in (theirs, *(wiring.streams or ())):
            os.close(descriptor)
        outlets.start()
        meanwhile()
        sandbox = _Sandbox(child, phases, noted, outlets, wiring, kill)
        status = sandbox.wait(terminal)
        if terminal:
            terminal.take_back(child)
        sandbox.wait_for_readers()
    os.close(phases)
    return sandbox.outcome(status)


def run_beside(argv: tuple[str, ...], variables: int) -> Outcome:
    """
    Run a later command of a sandbox on this terminal to its end.

    What it began in there ends with it, or with us: a pipe that only we have the other end of says so.
    """
    phases, theirs = os.pipe2(os.O_CLOEXEC)
    life, ours = os.pipe2(os.O_CLOEXEC)
    with terminal_kept():
        child = spawn(argv, {3: variables, 4: theirs, 5: life}, {})
        for descriptor in (theirs, life):
            os.close(descriptor)
        status = os.waitpid(child, 0)[1]
    os.close(ours)
    lines = Lines()
    while _drain(phases, lines):
        pass
    os.close(phases)
    return Outcome(_exit_status(status), lines.phases, lines.refusal)


class _Sandbox:
    """A running podman, and all that may be heard of it meanwhile."""

    def __init__(
        self, child: int, phases: int, noted: int, outlets: Outlets, wiring: Wiring, kill: Callable[[], None]
    ) -> None:
        self._child = child
        self._phases = phases
        self._noted = noted
        self._outlets = outlets
        self._job = Job(wiring.pid_file)
        self._pid_file = wiring.pid_file
        # The first process is the command itself, and no init's child.
        self._is_first = wiring.streams is not None
        self._on_begin = wiring.on_begin
        self._on_told = wiring.on_told
        self._timeout_seconds = wiring.timeout_seconds
        self._ended_by = wiring.ended_by
        self._time_up: float | None = None
        self._is_late = False
        self._is_limited = False
        self._watch = Watch()
        self._kill = kill
        self._has_begun = False
        self._is_held = False
        self._lines = Lines()
        self._deadline: float | None = None
        self._reader_left = False
        self._is_to_be_told = False
        self._told = 0
        self._signalled_by = 0
        self._look_until = 0.0

    def wait(self, terminal: Terminal | None) -> int:
        """The status with which podman ended."""
        ended = os.pidfd_open(self._child)
        with selectors.DefaultSelector() as selector:
            for descriptor in (ended, self._phases, self._noted, self._outlets.left, self._watch.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            ready: set[int] = set()
            while ended not in ready:
                ready = {key.fd for key, _ in selector.select(self._timeout(terminal))}
                if self._phases in ready and not _drain(self._phases, self._lines):
                    selector.unregister(self._phases)
                if not self._has_begun:
                    self._follow_start(terminal)
                self._obey(ready, terminal)
                self._keep_limits(ready)
                if terminal and self._has_begun and EXEC in self._lines.phases and not self._told:
                    self._look_after(terminal)
                if time.monotonic() < self._look_until:
                    self._job.resume()
            while self._phases in selector.get_map() and _drain(self._phases, self._lines):
                pass
        os.close(ended)
        if EXEC not in self._lines.phases:
            self._told = self._told or self._late_signal()
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
        # A signal may have come before it was ready to pass one on: it ends then, and leaves the command running.
        if os.WIFSIGNALED(status) or code in _TROUBLE or self._signalled_by:
            self._kill()
        is_for_nobody = self._reader_left and code in _ENDED_BY_US
        if is_for_nobody:
            code = 1 if self._outlets.failed else 128 + signal.SIGPIPE
        if self._is_late:
            code = TIMED_OUT
        if self._told:
            code = 128 + self._told
        if self._outlets.failed and code == 0:
            code = 1
        refusal = "" if self._told else self._lines.refusal
        hits = (*self._watch.end(), *((TIMEOUT,) if self._is_late else ()))
        told_by = self._told or self._signalled_by
        was_told = bool(told_by) or self._is_late
        seeds = tuple(self._lines.seeds)
        unwritten = _unwritten(self._outlets)
        unstarted = self._lines.unstarted
        return Outcome(
            code, self._lines.phases, refusal, unwritten, hits, seeds, was_told, told_by, is_for_nobody, unstarted
        )

    def _timeout(self, terminal: Terminal | None) -> float | None:
        times = [LOOK_SECONDS] if terminal or time.monotonic() < self._look_until else []
        is_starting = not self._has_begun and (terminal or self._told or EXEC in self._lines.phases)
        if is_starting or self._is_to_be_told:
            times.append(_START_LOOK_SECONDS)
        if self._deadline is not None:
            times.append(max(0.0, self._deadline - time.monotonic()))
        if self._time_up is not None:
            times.append(max(0.0, self._time_up - time.monotonic()))
        return min(times, default=None)

    def _follow_start(self, terminal: Terminal | None) -> None:
        """
        Until the command is there no signal reaches it: podman may not pass it on, nor its init die of it.

        So one ends the run, and the keys of a terminal are kept for that.
        """
        if self._told:
            if self._job.is_made():
                kill_first_process(self._pid_file)
        elif (EXEC in self._lines.phases and (self._is_first or self._job.is_there())) or self._job.is_over():
            self._has_begun = terminal is None or terminal.hand_over(self._child)
        elif terminal:
            terminal.keep_keys()
            if self._lines.phases and not self._is_held:
                self._is_held = True
                terminal.hold(self._child)

    def _end_start(self, number: int, terminal: Terminal | None) -> None:
        if not self._told:
            self._told = number
            self._outlets.mute()
            self._give_grace()
            # It may have stopped, to read from a terminal that it cannot have in the background.
            can_follow = terminal is None or terminal.is_ours()
            os.kill(self._child, signal.SIGTERM if can_follow else signal.SIGKILL)
            if terminal and can_follow:
                terminal.hand_over(self._child)

    def _late_signal(self) -> int:
        """A signal that ended podman as well, and of which we had not heard yet; 0 where there is none."""
        arrived = signal.sigtimedwait(ending(), 0)
        if arrived:
            return arrived.si_signo
        is_there = select.select([self._noted], [], [], _LATE_SECONDS)[0]
        return os.read(self._noted, 64)[0] if is_there else 0

    def _keep_limits(self, ready: set[int]) -> None:
        """From the command's first moment on: count what it hits, and end it when its time is over."""
        if EXEC in self._lines.phases and not self._is_limited:
            self._is_limited = True
            if self._on_begin and not self._lines.unstarted:
                self._on_begin()
            self._watch.begin(self._job.init)
            if self._timeout_seconds:
                self._time_up = self._lines.phases[EXEC] + self._timeout_seconds
        if self._watch.fileno() in ready:
            self._watch.look()
        if self._time_up is not None and time.monotonic() >= self._time_up:
            self._time_up = None
            self._is_late = self._is_to_be_told = True
            self._pass_word_on()
            self._give_grace()

    def _pass_word_on(self) -> None:
        if self._on_told:
            self._on_told()

    def _obey_signals(self, terminal: Terminal | None) -> None:
        arrived = os.read(self._noted, 64)
        for number, from_terminal in zip(arrived[::2], arrived[1::2], strict=True):
            if number not in STOPS:
                self._signalled_by = self._signalled_by or number
                self._pass_word_on()
            if number in STOPS:
                self._stop()
            elif not self._has_begun:
                self._end_start(number, terminal)
                continue
            elif not from_terminal:
                os.kill(self._child, self._ended_by if number == signal.SIGTERM else number)
            elif terminal:
                # A key that the terminal gave to us alone, just before podman was given the terminal.
                self._job.press(number)
            if number in (signal.SIGTERM, signal.SIGHUP):
                self._give_grace()

    def _obey(self, ready: set[int], terminal: Terminal | None) -> None:
        """
        Tell podman to end, which tells the command, where we are told to; the command, where nobody reads any more.

        What a terminal sends to podman's own group has reached it already. After the time of grace the container is
        killed.
        """
        if self._noted in ready:
            self._obey_signals(terminal)
        if self._outlets.left in ready:
            os.read(self._outlets.left, 64)
            self._reader_left = self._is_to_be_told = True
            self._give_grace()
        if self._is_to_be_told:
            self._is_to_be_told = not self._tell()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            if not self._has_begun:
                os.kill(self._child, signal.SIGKILL)
            self._kill()
            self._deadline = time.monotonic() + GRACE_SECONDS

    def _tell(self) -> bool:
        """
        Tell the command to end, or podman where it is far from there.

        False where the command is about to begin, or has just ended, which podman would say: to be tried again.
        """
        if self._job.is_over() or (not self._is_first and self._job.end_by(self._ended_by)):
            return True
        if EXEC in self._lines.phases and not self._is_first:
            return False
        os.kill(self._child, signal.SIGTERM)
        return True

    def _look_after(self, terminal: Terminal) -> None:
        """Pass a new size on; and if the command is stopped, stop as well."""
        terminal.follow_size(self._child)
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


def _unwritten(outlets: Outlets) -> str:
    number, error = outlets.failed or (0, None)
    return f"stdout: {error.strerror}" if error and number == 1 else ""


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
