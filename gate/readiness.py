"""Tells whoever started the gate, once, that it is ready or why it is not."""

from __future__ import annotations

import os
import stat

DESCRIPTOR = 3


class Readiness:
    """
    One line on a pipe that was handed on, and nothing where there is none.

    To be made before anything else is opened: later the number may be some other file's.
    """

    def __init__(self, descriptor: int = DESCRIPTOR) -> None:
        self._descriptor = descriptor if _is_pipe(descriptor) else None

    def say(self, text: str) -> None:
        """The line, the first time; whoever does not listen any more misses it."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.write(descriptor, f"{text}\n".encode())
        except OSError:
            return
        finally:
            os.close(descriptor)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False
