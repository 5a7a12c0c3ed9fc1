"""
Copies bytes both ways between two sockets until both sides have said all they had to say.

Nothing is read that the other side cannot take: a slow reader slows its writer down, and a pair
never holds more than one piece a direction. An end of one direction is passed on as such, so that
protocols which close half a connection work. There is no time limit: a silent stream stays.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import fcntl
import os
import struct

from gate.loop import READ, WRITE

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop, Timer

CHUNK_BYTES = 65536
# How long a client that was sent an answer of ours is given to read it.
FAREWELL_SECONDS = 2.0

# One buffer for all reads: there is one thread, and what cannot be passed on at once is copied out.
_BUFFER = bytearray(CHUNK_BYTES)
_VIEW = memoryview(_BUFFER)
_LINGER_NOT_AT_ALL = struct.pack("ii", 1, 0)
# Where much comes at once the kernel hands it on by itself, at a third of the cost: through a pipe, which is empty
# again after each time.
_MOVE_AT_ONCE = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_PIPE: list[int] = []
HANDED_ON_BYTES = 131072
# In the module since Python 3.10, but not on every system.
_F_SETPIPE_SZ, _F_GETPIPE_SZ = 1031, 1032
# With less at a time copying is cheaper.
_LEAST_HANDED_ON = CHUNK_BYTES // 4


def prepare() -> None:
    """Take what all pumps of this process share, once. Without it, or where it is of no use, they copy."""
    if _PIPE:
        return
    pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    # A user who has many pipes gets no more than this, and less at a time than a copy moves (pipe(7), "Pipe capacity").
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe[1], _F_SETPIPE_SZ, HANDED_ON_BYTES)
    if fcntl.fcntl(pipe[1], _F_GETPIPE_SZ) < CHUNK_BYTES:
        for end in pipe:
            os.close(end)
        return
    _PIPE.extend(pipe)


class _Side:
    """One of the two sockets: what is still to be sent to it, and which of its directions have ended."""

    __slots__ = ("comes_in_bulk", "counts", "ended", "may_be_handed_on", "pending", "shut", "socket")

    def __init__(self, socket: _socket.socket, pending: bytes, may_be_handed_on: bool) -> None:
        self.socket = socket
        self.pending = pending
        self.may_be_handed_on = may_be_handed_on
        self.comes_in_bulk = False
        self.counts = hasattr(socket, "taken")
        self.ended = False
        self.shut = False


class Pump:
    """
    Joins two connected, non-blocking sockets, and owns them: they are closed when it is done.

    What comes from `inner` in bulk the kernel may hand on. That is never the side of the agent, who could still
    change what it has sent so.
    """

    __slots__ = ("_loop", "_on_done", "_one", "_other", "closed")

    def __init__(
        self,
        loop: Loop,
        one: _socket.socket,
        other: _socket.socket,
        on_done: Callable[[], None],
        first_to_one: bytes = b"",
        inner: _socket.socket | None = None,
    ) -> None:
        self._loop = loop
        self._on_done = on_done
        self._one = _Side(one, first_to_one, bool(_PIPE) and one is inner)
        self._other = _Side(other, b"", bool(_PIPE) and other is inner)
        self.closed = False
        self._flush(self._one)
        self._settle()

    def _on_one(self, events: int) -> None:
        self._on_event(self._one, self._other, events)

    def _on_other(self, events: int) -> None:
        self._on_event(self._other, self._one, events)

    def _on_event(self, side: _Side, peer: _Side, events: int) -> None:
        if events & WRITE and side.pending:
            self._flush(side)
        # A hang-up or an error without READ shows in recv too.
        if not self.closed and events & ~WRITE and not peer.pending and not side.ended:
            if side.comes_in_bulk:
                self._hand_on(side, peer)
            elif self._move(side, peer) and events == READ:
                # Nearly always: both wait for what they waited for before.
                return
        self._settle()

    def _move(self, source: _Side, target: _Side) -> bool:
        """Pass on what has come. Whether nothing has to wait for that, and nothing has ended."""
        try:
            count = source.socket.recv_into(_BUFFER)
        except BlockingIOError:
            return True
        except OSError:
            self.abort()
            return False
        if not count:
            source.ended = True
            return False
        source.comes_in_bulk = count == CHUNK_BYTES and source.may_be_handed_on
        try:
            sent = target.socket.send(_VIEW[:count])
        except BlockingIOError:
            sent = 0
        except OSError:
            self.abort()
            return False
        if sent == count:
            return True
        target.pending = bytes(_VIEW[sent:count])
        return False

    def _hand_on(self, source: _Side, target: _Side) -> None:
        _, writer = _PIPE
        try:
            count = os.splice(source.socket.fileno(), writer, HANDED_ON_BYTES, flags=_MOVE_AT_ONCE)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.EINVAL:
                # Not on every kernel, nor from every socket.
                source.comes_in_bulk = source.may_be_handed_on = False
            else:
                self.abort()
            return
        if not count:
            source.ended = True
            return
        if source.counts:
            source.socket.taken += count  # type: ignore[attr-defined]  # it has it
        source.comes_in_bulk = count >= _LEAST_HANDED_ON
        target.pending, fault = _empty_into(target.socket, count)
        if fault == errno.EINVAL:
            source.comes_in_bulk = source.may_be_handed_on = False
        elif fault not in (0, errno.EAGAIN):
            self.abort()

    def _flush(self, side: _Side) -> None:
        if not side.pending:
            return
        try:
            side.pending = side.pending[side.socket.send(side.pending) :]
        except BlockingIOError:
            return
        except OSError:
            self.abort()

    def _settle(self) -> None:
        """Pass ends on, close when all is said, and wait for what can happen next."""
        if self.closed:
            return
        for side, peer in ((self._one, self._other), (self._other, self._one)):
            if peer.ended and not side.pending and not side.shut:
                side.shut = True
                shut_down(side.socket)
        if self._one.shut and self._other.shut:
            self._close()
            return
        self._watch(self._one, self._other, self._on_one)
        self._watch(self._other, self._one, self._on_other)

    def _watch(self, side: _Side, peer: _Side, handler: Callable[[int], None]) -> None:
        # A socket that waits for nothing is not watched at all: its hang-up would be reported without end.
        wanted = 0 if side.ended or peer.pending else READ
        self._loop.watch(side.socket.fileno(), wanted | (WRITE if side.pending else 0), handler)

    def abort(self) -> None:
        """End both connections by a reset: one of them was, and the other is to know."""
        if self.closed:
            return
        for side in (self._one, self._other):
            reset_on_close(side.socket)
        self._close()

    def _close(self) -> None:
        self.closed = True
        for side in (self._one, self._other):
            self._loop.forget(side.socket.fileno())
            side.socket.close()
        self._on_done()


def _empty_into(socket: _socket.socket, count: int) -> tuple[bytes, int]:
    """Send what is in the pipe: what the socket does not take, for the pipe is everybody's, and the error's number."""
    reader, _ = _PIPE
    fault = 0
    try:
        while count:
            count -= os.splice(reader, socket.fileno(), count, flags=_MOVE_AT_ONCE)
    except OSError as error:
        fault = error.errno or errno.EIO
    rest = b""
    try:
        while len(rest) < count:
            rest += os.read(reader, count - len(rest))
    except BlockingIOError:
        # Never seen: the kernel says how much it has taken. Rather an end than a hole, or a wait for ever.
        return rest, errno.EIO
    return rest, fault


class Farewell:
    """
    Sends a last answer and closes, without losing it.

    A socket that is closed with unread bytes in it is reset, and the reset throws away what the
    client has not read yet: so what still comes is read and dropped, for a short while.
    """

    __slots__ = ("_ended", "_loop", "_on_done", "_pending", "_socket", "_timer")

    def __init__(self, loop: Loop, socket: _socket.socket, answer: bytes, on_done: Callable[[], None]) -> None:
        self._loop = loop
        self._socket = socket
        self._pending = answer
        self._ended = False
        self._on_done = on_done
        self._timer: Timer = loop.after(FAREWELL_SECONDS, self._close)
        self._watch()

    def _watch(self) -> None:
        wanted = (0 if self._ended else READ) | (WRITE if self._pending else 0)
        self._loop.watch(self._socket.fileno(), wanted, self._on_event)

    def _on_event(self, events: int) -> None:
        try:
            if events & WRITE and self._pending:
                self._send()
            if events & ~WRITE and not self._ended:
                self._drop()
        except OSError:
            self._close()
            return
        if self._ended and not self._pending:
            self._close()
            return
        self._watch()

    def _send(self) -> None:
        try:
            self._pending = self._pending[self._socket.send(self._pending) :]
        except BlockingIOError:
            return
        if not self._pending:
            shut_down(self._socket)

    def _drop(self) -> None:
        try:
            self._ended = not self._socket.recv_into(_BUFFER)
        except BlockingIOError:
            return

    def _close(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._socket.fileno())
        self._socket.close()
        self._on_done()


def shut_down(socket: _socket.socket) -> None:
    """End our direction of a connection; one that is gone already is no error."""
    try:
        socket.shutdown(_socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


def reset_on_close(socket: _socket.socket) -> None:
    """Make `close` send a reset, so that the client sees a refusal and not an orderly end."""
    if socket.family != _socket.AF_UNIX:
        socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _LINGER_NOT_AT_ALL)


def refuse(socket: _socket.socket) -> None:
    """Close by a reset."""
    reset_on_close(socket)
    socket.close()
