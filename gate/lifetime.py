"""
How long a gate lives: until squid dies, until it is told to end, or until nobody has needed it for a while.

Every run holds a shared lock on the gate's directory. The gate ends when it gets that lock exclusively, and
ends holding it: a run that starts meanwhile waits, and then finds no gate instead of a dying one.
"""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

from gate.loop import READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop, Timer

# How often the lock is tried once the time has come and somebody still holds it.
RETRY_SECONDS = 10.0
_ENDS = (signal.SIGTERM, signal.SIGINT)


class Lifetime:
    """Ends the gate by `end(why)`, once, for whichever reason comes first."""

    def __init__(self, loop: Loop, base: str, idle_seconds: float, end: Callable[[str], None]) -> None:
        self._loop = loop
        self._idle_seconds = idle_seconds
        self._end = end
        self._lock = os.open(f"{base}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._timer: Timer | None = None

    def used(self) -> None:
        """The gate is ready, or a run has begun or ended: the time starts anew."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.after(self._idle_seconds, self._try_to_end)

    def watch_squid(self, pid: int) -> None:
        """End when squid does."""
        self._loop.watch(os.pidfd_open(pid), READ, lambda _: self._end(f"squid has ended: {_status(pid)}"))

    def watch_signals(self) -> None:
        """End on TERM and INT. The first process of a container has no default for them."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write)
        for number in _ENDS:
            signal.signal(number, lambda *_: None)
        # Every signal is noted there: the one by which a rule's time is over too.
        self._loop.watch(read, READ, lambda _: self._end("it was told to") if was_told(os.read(read, 4096)) else None)

    def _try_to_end(self) -> None:
        reap()
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._timer = self._loop.after(min(RETRY_SECONDS, self._idle_seconds), self._try_to_end)
        else:
            # Held until this process is gone.
            self._end("nobody needs it")


def was_told(noted: bytes) -> bool:
    """Whether one of these signals, a byte each, tells the gate to end."""
    return any(number in noted for number in _ENDS)


def reap() -> None:
    """Collect what has ended: orphans of squid become children of the first process."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _status(pid: int) -> str:
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, os.WNOHANG)[1])
    except ChildProcessError:
        return "not a child of ours"
    return f"exit status {code}" if code >= 0 else f"signal {-code}"
