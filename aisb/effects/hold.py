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
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# The name under which the step finds the lock, beside its setup; see templates/setup.sh.
HELD = "held"
# A session of its own, for the time of one command.
DETACHED = ("/usr/bin/setsid",)


@contextmanager
def hold(folder: str) -> Iterator[None]:
    """
    Hold the lock `held` in `folder`, which a container has mounted, for as long as the block runs.

    ^C lets go of it and is raised at the end of the block; a second one is raised at once.
    """
    descriptor = os.open(f"{folder}/{HELD}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    interrupted = False

    def let_go(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with _on_interrupt(let_go):
            yield
    finally:
        os.close(descriptor)
    if interrupted:
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
