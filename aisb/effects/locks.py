"""Locks of files that are waited for, but not for ever."""

from __future__ import annotations

import fcntl
import time

_AGAIN_SECONDS = 0.005


def locked_within(descriptor: int, kind: int, seconds: float) -> bool:
    """Whether the lock (`fcntl.LOCK_SH` or `LOCK_EX`) could be had in that time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_AGAIN_SECONDS)
        else:
            return True
