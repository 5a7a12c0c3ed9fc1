"""The signals that end a run: held back while there is something to tidy up, and read with where they came from."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
# ^Z, and reading from the terminal in the background.
STOPS = (signal.SIGTSTP, signal.SIGTTIN)
# Ends the thread that waits for the others; nobody else uses it.
_ENOUGH = signal.SIGRTMIN
# si_code of a signal that nobody sent: a key in the terminal, or the terminal's end.
_FROM_KERNEL = 0x80


def ending() -> frozenset[signal.Signals]:
    """The signals that end a run. One that our caller has us ignore, as nohup and a shell's `&` do, is none."""
    return frozenset(number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let no signal interrupt the block. What has come by its end came too late to matter, and is forgotten."""
    awaited = ending()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        yield
    finally:
        while signal.sigtimedwait(awaited, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Inside of `held`: a part that a signal may interrupt."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, ending())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def left_to_others() -> Iterator[None]:
    """
    A thread that is started in the block takes in no signal that somebody waits for.

    One that did would have it act as it does by default: ^Z stopped us before podman was, which then read the keys of
    our caller's shell.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, *STOPS})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class EndedBySignal(KeyboardInterrupt):
    """A signal that ends a run has come, and ends it as ^C does: in order."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def number_of(interrupt: KeyboardInterrupt) -> int:
    """Which signal it was."""
    return interrupt.number if isinstance(interrupt, EndedBySignal) else signal.SIGINT


@contextlib.contextmanager
def interrupt_postponed() -> Iterator[None]:
    """
    Raise a ^C that comes during the block at its end, and so what else ends us in order.

    Programs that are started in it do not inherit this.
    """
    handlers = {number: signal.getsignal(number) for number in ending()}
    # One that nobody handles ends us at once, as anywhere else.
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    came = 0

    def note(number: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = came or number

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt if came == signal.SIGINT else EndedBySignal(came)


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Have TERM, HUP and QUIT end the block as ^C does, so that it can tidy up: they raise EndedBySignal, once."""
    told = False

    def note(number: int, _frame: FrameType | None) -> None:
        nonlocal told
        # Another one does not disturb what the first one has begun.
        if not told:
            told = True
            raise EndedBySignal(number)

    before = {number: signal.signal(number, note) for number in ending() - {signal.SIGINT}}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def listening(*, stops: bool) -> Iterator[int]:
    """
    A descriptor with two bytes for each signal that arrives: its number, and 1 where the terminal sent it.

    What the terminal sends goes to the whole process group, what a process sends may be for us alone. Only the
    thread that takes a signal in is told which it was. With `stops` those that stop a program are among them.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    awaited = ending() | {_ENOUGH, *(STOPS if stops else ())}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    thread = _thread.start_new_thread(_listen, (awaited, write_end))
    try:
        yield read_end
    finally:
        signal.pthread_kill(thread, _ENOUGH)
        while os.read(read_end, 64):
            pass
        os.close(read_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(awaited: frozenset[signal.Signals], write_end: int) -> None:
    while (arrived := signal.sigwaitinfo(awaited)).si_signo != _ENOUGH:
        os.write(write_end, bytes((arrived.si_signo, arrived.si_code == _FROM_KERNEL)))
    os.close(write_end)
