"""Whoever reads what we write: waited for as long as it takes or, once it has been given up, a little longer."""

from __future__ import annotations

import _socket
import os
import select
import stat
import time
from functools import partial
from typing import TYPE_CHECKING

from aisb.domain.frames import head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aisb.domain.frames import Frame

    Pieces = list[bytes | memoryview]

# A pipe that has room for anything takes this at once (pipe(7), PIPE_BUF).
_SURE_BYTES = 4096


class Listener:
    """
    The other end of a descriptor of ours, whose flags stay as they are: our caller may share it.

    One thread writes at a time; any may give up meanwhile.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._write = _way_to_write(target)
        self._given_up = os.eventfd(0, os.EFD_CLOEXEC)
        self._until: float | None = None
        self._is_lost = False

    def give_up(self, seconds: float) -> None:
        """From now on wait for no longer than that altogether. Said again it means nothing."""
        if self._until is None:
            self._until = time.monotonic() + seconds
            os.eventfd_write(self._given_up, 1)

    def write(self, frame: Frame) -> None:
        """All of it. Raises OSError where nobody reads it any more, TimeoutError where nobody has in time."""
        if self._is_lost:
            # What came after half of a frame would be read as the rest of it.
            raise TimeoutError("nobody reads what we say")
        pieces: Pieces = [head_of(frame.header, len(frame.body)), frame.body]
        self._is_lost = True
        while pieces:
            try:
                written = self._write(pieces)
            except BlockingIOError:
                self._wait()
            else:
                pieces = list(rest_of(pieces, written))
        self._is_lost = False

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._target, select.POLLOUT)
        if self._until is None:
            poll.register(self._given_up, select.POLLIN)
            poll.poll()
        elif not poll.poll(max(0.0, self._until - time.monotonic()) * 1000):
            raise TimeoutError("nobody reads what we say")


def rest_of(pieces: Iterable[bytes | memoryview], written: int) -> Iterator[bytes | memoryview]:
    """What is still to be written."""
    for piece in pieces:
        if written < len(piece):
            yield memoryview(piece)[written:] if written else piece
        written = max(0, written - len(piece))


def _way_to_write(target: int) -> Callable[[Pieces], int]:
    """Writes as much as there is room for; BlockingIOError where there is none."""
    kind = os.fstat(target).st_mode
    if stat.S_ISSOCK(kind):
        socket = _socket.socket(fileno=_kept_from_children(os.dup(target)))
        return lambda pieces: socket.sendmsg(pieces, (), _socket.MSG_DONTWAIT)
    if not stat.S_ISFIFO(kind):
        # A file takes all there is.
        return partial(os.writev, target)
    try:
        again = os.open(f"/proc/self/fd/{target}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        # Another user's, or one that nobody reads any more.
        return partial(_write_a_little, target)
    return partial(os.writev, _kept_from_children(again))


def _kept_from_children(descriptor: int) -> int:
    """A child that outlives us is not to keep our reader from seeing our end."""
    os.register_at_fork(after_in_child=partial(os.close, descriptor))
    return descriptor


def _write_a_little(target: int, pieces: Pieces) -> int:
    poll = select.poll()
    poll.register(target, select.POLLOUT)
    if not poll.poll(0):
        raise BlockingIOError
    return os.write(target, next(piece for piece in pieces if piece)[:_SURE_BYTES])
