"""
Ends what runs in a container when aisb wants it to, or is gone.

podman leaves the programs of a build's step running when it is interrupted itself, and its working containers
in its store. So it is started in a session of its own, where no ^C reaches it, and the step inside watches a
lock that aisb holds: when the lock is free the step ends itself, and podman tidies up as after any failure.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

# The name under which the step finds the lock, beside its setup; see templates/setup.sh.
HELD = "held"
# A session of its own, for the time of one command.
DETACHED = ("/usr/bin/setsid",)
# Some press ^C twice, and some programs send it to a process and to its group. podman is left alone with what it
# has begun only by somebody who has waited this long.
PATIENCE_SECONDS = 10.0


@contextmanager
def hold(folder: str, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """
    Hold the lock `held` in `folder`, which a container has mounted, for as long as the block runs.

    ^C lets go of it, with a note, and is raised at the end of the block; one that comes more than ten seconds
    later is raised at once.
    """
    descriptor = os.open(f"{folder}/{HELD}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    interrupted: float | None = None

    def let_go(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted is None:
            interrupted = clock()
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            note("interrupted: podman ends the step and tidies up")
        elif clock() - interrupted > PATIENCE_SECONDS:
            raise KeyboardInterrupt

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with _on_interrupt(let_go):
            yield
    finally:
        os.close(descriptor)
    if interrupted is not None:
        raise KeyboardInterrupt


@contextmanager
def _on_interrupt(handler: signal._HANDLER) -> Iterator[None]:
    """Handle ^C this way for a while, unless it is ignored here or not ours to handle."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
