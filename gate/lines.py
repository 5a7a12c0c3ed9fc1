"""Reads lines from a socket, as many as come and none longer than a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gate.loop import READ, receive

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from gate.loop import Loop


# squid drops lines of its log that nobody fetches: as much as has come is taken before anything else goes on.
_READS_A_TURN = 4


class Lines:
    """Owns the socket: closed at its end, at an error, and at a line that is too long."""

    def __init__(self, loop: Loop, socket: _socket.socket, longest: int, on_line: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._socket = socket
        self._longest = longest
        self._on_line = on_line
        self._rest = b""
        loop.watch(socket.fileno(), READ, self._on_event)

    def send(self, data: bytes) -> None:
        """Send something back; whoever does not take it is cut off."""
        if self._socket.fileno() < 0:
            return
        try:
            is_sent = self._socket.send(data) == len(data)
        except OSError:
            is_sent = False
        if not is_sent:
            self.close()

    def close(self) -> None:
        """Let go of the socket; twice does nothing."""
        if self._socket.fileno() >= 0:
            self._loop.forget(self._socket.fileno())
            self._socket.close()

    def _on_event(self, _events: int) -> None:
        for _ in range(_READS_A_TURN):
            data = receive(self._socket, self._longest) if self._socket.fileno() >= 0 else None
            if data is None:
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line)
        if not data or len(self._rest) > self._longest:
            self.close()
