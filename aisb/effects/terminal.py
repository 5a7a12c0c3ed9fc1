"""
The caller's terminal, lent to podman as a shell lends it to a job, and taken back.

At the end it is as it was found. And ^Z does what it does to any program: in the sandbox's terminal it stops the
command, and where that is no shell nobody in there would ever continue it. So we stop as well, and `fg` continues both.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the init is called while its container is being made.
_RUNTIMES = ("crun", "runc")
# How often a command with a terminal is looked at: nobody tells us that it has stopped.
LOOK_SECONDS = 0.25
_AGAIN_SECONDS = 0.05


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Leave the terminal as it was found, also where podman was killed with the terminal in raw mode."""
    if not sys.stdin or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        if _is_in_foreground():
            _set(before)


class Terminal:
    """
    The terminal on stdin, for a podman that leads a process group of its own.

    So what a shell does to us, such as continuing us in the background, does not reach podman: it would read from
    the terminal there, and not bear the answer.
    """

    def __init__(self) -> None:
        self._before = termios.tcgetattr(sys.stdin)
        self._raw: list[int | list[bytes | int]] = []
        self._size = os.get_terminal_size(sys.stdin.fileno())
        self._resized = 0.0

    def is_ours(self) -> bool:
        """Whether we are in the foreground."""
        return _is_in_foreground()

    def keep_keys(self) -> None:
        """
        Until the command is there, which they are for: have ^C be a signal, and to us.

        podman has made the terminal raw by then, from our background, and has nobody to pass a key on to.
        """
        attributes = termios.tcgetattr(sys.stdin)
        if self._before[3] & termios.ISIG and not attributes[3] & termios.ISIG and _is_in_foreground():
            self._raw = [*attributes]
            attributes[3] |= termios.ISIG
            _set(attributes)

    def hold(self, podman: int) -> None:
        """
        Have podman wait until it is handed over.

        It reads from the terminal as soon as the sandbox is there, and in the background each try is a SIGTTIN, which
        it takes for one to pass on: a signal that comes later has to wait for seconds until all of them are.
        """
        _signal(podman, signal.SIGSTOP)

    def hand_over(self, podman: int) -> bool:
        """
        Let podman have it and the keys, as it has set it, and go on where it waits for it.

        False where somebody else has it, which stops us; to be tried again.
        """
        if not self.is_ours():
            os.kill(0, signal.SIGTTOU)
            return False
        if self._raw:
            _set(self._raw)
        self.lend(podman)
        _signal(podman, signal.SIGCONT)
        return True

    def follow_size(self, podman: int) -> None:
        """
        Have podman look at a new size once more, when it has become still.

        It may not have been told in the background. And of two sizes that arrive at once its monitor takes the first
        twice and the second never (https://github.com/containers/conmon/pull/566).
        """
        now = time.monotonic()
        if self._has_new_size():
            self._resized = now
        elif self._resized and now - self._resized >= LOOK_SECONDS:
            self._resized = 0.0
            _signal(podman, signal.SIGWINCH)

    def _has_new_size(self) -> bool:
        try:
            before, self._size = self._size, os.get_terminal_size(sys.stdin.fileno())
        except OSError:
            # The terminal has hung up.
            return False
        return self._size != before

    def wait_for_it(self) -> None:
        """Stop until we are in the foreground, as any program does that needs the terminal."""
        while not _is_in_foreground():
            os.kill(0, signal.SIGTTOU)

    def lend(self, podman: int) -> None:
        """Let podman have it."""
        with not_stopped_for_it(), contextlib.suppress(OSError):
            os.tcsetpgrp(sys.stdin.fileno(), podman)

    def take_back(self, podman: int) -> None:
        """Have it again, as it was found; unless podman has it no more, and somebody else does."""
        if self._holder() == podman:
            self.lend(os.getpgrp())
            _set(self._before)

    def _holder(self) -> int:
        """Which process group has it; 0 where it has hung up."""
        try:
            return os.tcgetpgrp(sys.stdin.fileno())
        except OSError:
            return 0

    def stop(self, podman: int, noted: int) -> bool:
        """
        Stop until we are continued. False where we were told to end instead: `noted` can be read then.

        In the foreground podman has the terminal again, and goes on.
        """
        raw = termios.tcgetattr(sys.stdin)
        os.killpg(podman, signal.SIGSTOP)
        self.take_back(podman)
        os.kill(0, signal.SIGTSTP)
        while not _is_in_foreground():
            if select.select([noted], [], [], _AGAIN_SECONDS)[0]:
                return False
            os.kill(0, signal.SIGTTIN)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, raw)
        self.lend(podman)
        _signal(podman, signal.SIGCONT)
        return True


def _signal(podman: int, number: signal.Signals) -> None:
    """To podman, which is two processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(podman, number)


def terminal_to_lend() -> Terminal | None:
    """The terminal on stdin; None where it is not the one that our shell and we are controlled by."""
    try:
        os.tcgetpgrp(sys.stdin.fileno())
    except OSError:
        return None
    return Terminal()


class Job:
    """The command as its sandbox's first process has it: a process group, which a key may have stopped."""

    def __init__(self, pid_file: str) -> None:
        self._pid_file = pid_file
        self._init = ""

    @property
    def init(self) -> str:
        """The number of the sandbox's first process, "" before podman has written it down."""
        self._init = self._init or _read(self._pid_file).strip()
        return self._init

    def is_there(self) -> bool:
        """Whether the init has become one that passes signals on, and has started the command."""
        group, _, _ = self._look()
        return bool(group) or not self._init

    def is_made(self) -> bool:
        """Whether the init is more than the runtime's own process, whose end the runtime would report as an error."""
        self._look()
        return bool(self._init) and not _read(f"/proc/{self._init}/comm").startswith(_RUNTIMES)

    def is_over(self) -> bool:
        """Whether the init has been there and has ended."""
        self._look()
        state = _read(f"/proc/{self._init}/stat").rpartition(")")[2].split()[:1]
        return bool(self._init) and state in ([], ["Z"], ["X"])

    def stopped(self) -> int:
        """
        The command's process group, if it is stopped and nobody in the sandbox will continue it; 0 otherwise.

        A shell gives its terminal to a job, and takes it back when that is stopped: it is not stopped itself.
        """
        group, state, foreground = self._look()
        return group if state == "T" and foreground in (group, -1) else 0

    def stop(self) -> None:
        """Stop it, as ^Z does."""
        self._send(self._look()[0], signal.SIGTSTP)

    def press(self, number: int) -> None:
        """What a key of the sandbox's terminal sends: to whom that belongs, or to the command where it has none."""
        group, _, foreground = self._look()
        self._send(foreground if foreground > 0 else group, number)

    def resume(self) -> None:
        """Continue it, if it is stopped."""
        self._send(self.stopped(), signal.SIGCONT)

    def end_by(self, number: int) -> bool:
        """Tell it to end; past podman, which says so if it has ended meanwhile. False where it is not there."""
        group, _, _ = self._look()
        self._send(group, number)
        return bool(group)

    def _send(self, group: int, number: int) -> None:
        if group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, number)

    def _look(self) -> tuple[int, str, int]:
        """
        Its group, its state, and which group has the sandbox's terminal.

        The init's first child that leads a group in the init's own session: the relay has a session of its own.
        """
        self._init = self._init or _read(self._pid_file).strip()
        for child in _read(f"/proc/{self._init}/task/{self._init}/children").split():
            # proc_pid_stat(5), from the third on: state, parent, group, session, terminal, the terminal's group.
            fields = _read(f"/proc/{child}/stat").rpartition(")")[2].split()
            if fields and fields[2] == child and fields[3] == self._init:
                return int(child), fields[0], int(fields[5])
        return 0, "", 0


def _read(path: str) -> str:
    """The file's text, "" where it cannot be read (a process that ends, for one)."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _is_in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        # A terminal that does not control us: there is no background.
        return True


def _set(attributes: list[int | list[bytes | int]]) -> None:
    with not_stopped_for_it(), contextlib.suppress(termios.error):
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)


@contextlib.contextmanager
def not_stopped_for_it() -> Iterator[None]:
    """A process in the background that changes the terminal is stopped by SIGTTOU otherwise."""
    old = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, old)
