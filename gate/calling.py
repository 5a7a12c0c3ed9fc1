"""Connects to one of squid's doors, and hears what squid answers to a CONNECT."""

from __future__ import annotations

import _socket
import contextlib
from typing import TYPE_CHECKING

from gate import ports
from gate.ends import SquidEnd
from gate.loop import READ, WRITE, receive

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

# squid looks a name up and connects before it answers; this is longer than it tries.
ANSWER_SECONDS = 60.0
LONGEST_ANSWER = 65536
# What may wait for squid to read it: where requests are judged in their turn, that is a while.
UNREAD_BYTES = 32768


class Call:
    """
    One connection to squid, in the making.

    With words to say it says them and waits for the whole head of the answer; without, being connected is
    enough. Then `then(squid, answer)` is called once, with None where squid cannot be had.
    """

    def __init__(self, loop: Loop, door: int, words: bytes, then: Callable[[SquidEnd | None, bytes], None]) -> None:
        self._loop = loop
        self._words = words
        self._then = then
        self._answer = b""
        self._timer = loop.after(ANSWER_SECONDS, self._fail)
        self._squid: SquidEnd | None = None
        try:
            self._squid = squid = SquidEnd(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
            _dial(squid, door)
        except OSError:
            # Heard by the caller from the loop, like every other end of a call.
            self._timer.cancel()
            self._timer = loop.after(0.0, self._fail)
            return
        loop.watch(squid.fileno(), WRITE, lambda _: self._on_connected(squid))

    def cancel(self) -> None:
        """Give the call up; `then` is not called."""
        self._timer.cancel()
        if self._squid is not None:
            self._loop.forget(self._squid.fileno())
            self._squid.close()

    def _on_connected(self, squid: SquidEnd) -> None:
        if squid.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR):
            self._fail()
            return
        if not self._words:
            self._succeed(squid)
            return
        try:
            sent = squid.send(self._words)
        except OSError:
            sent = 0
        # A new connection takes the few hundred bytes of a CONNECT whole, or something is wrong with it.
        if sent != len(self._words):
            self._fail()
            return
        self._loop.watch(squid.fileno(), READ, lambda _: self._on_answer(squid))

    def _on_answer(self, squid: SquidEnd) -> None:
        data = receive(squid, LONGEST_ANSWER)
        if data is None:
            return
        self._answer += data
        if b"\r\n\r\n" in self._answer:
            self._succeed(squid)
        elif not data or len(self._answer) >= LONGEST_ANSWER:
            self._fail()

    def _succeed(self, squid: SquidEnd) -> None:
        self._timer.cancel()
        self._loop.forget(squid.fileno())
        self._then(squid, self._answer)

    def _fail(self) -> None:
        self.cancel()
        self._then(None, b"")


def _dial(squid: SquidEnd, door: int) -> None:
    squid.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    if door in (ports.EXPLICIT, ports.PLAIN):
        squid.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, UNREAD_BYTES)
    with contextlib.suppress(BlockingIOError):
        squid.connect(("127.0.0.1", door))
