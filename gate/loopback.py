"""
Joins connections that come in by a unix socket with a port of the loopback: the host's, or a sandbox's own.

The first byte that goes back says whether somebody listens at the port; then bytes are copied.
"""

from __future__ import annotations

import _socket

from gate.loop import READ, WRITE
from gate.pump import Pump

# As `typing` has it, whose import would take 15 ms of a start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

REACHED = b"+"
NOBODY = b"-"
_LOOPBACK = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
_ACCEPTS_A_TURN = 64
_PAUSE_SECONDS = 0.05


class Intake:
    """Takes connections in at a listener, while there is room for one more; the kernel keeps the others waiting."""

    def __init__(
        self,
        loop: Loop,
        listener: _socket.socket,
        on_client: Callable[[_socket.socket], None],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._on_client = on_client
        self._has_room = has_room
        listener.setblocking(False)
        self.go_on()

    def go_on(self) -> None:
        """There may be room again."""
        self._loop.watch(self._listener.fileno(), READ, self._on_event)

    def _on_event(self, _events: int) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            if not self._has_room():
                self._pause()
                return
            try:
                client = accept(self._listener)
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors: the queue is looked at again soon.
                self._pause()
                self._loop.after(_PAUSE_SECONDS, self.go_on)
                return
            self._on_client(client)

    def _pause(self) -> None:
        self._loop.watch(self._listener.fileno(), 0, self._on_event)


class Caller:
    """One connection while its port is dialled: by IPv4, and by IPv6 where nobody listens there."""

    def __init__(self, loop: Loop, client: _socket.socket, port: int) -> None:
        self._loop = loop
        self._client = client
        self._port = port
        self._left = list(_LOOPBACK)

    def dial(self) -> None:
        """Try the next address."""
        if not self._left:
            self._say(NOBODY)
            self._client.close()
            return
        family, address = self._left.pop(0)
        try:
            server = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        except OSError:
            self.dial()
            return
        server.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        try:
            server.connect((address, self._port))
        except BlockingIOError:
            self._loop.watch(server.fileno(), WRITE, lambda _: self._on_connected(server))
        except OSError:
            server.close()
            self.dial()
        else:
            self._join(server)

    def _on_connected(self, server: _socket.socket) -> None:
        self._loop.forget(server.fileno())
        if server.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR):
            server.close()
            self.dial()
        else:
            self._join(server)

    def _join(self, server: _socket.socket) -> None:
        self._say(REACHED)
        Pump(self._loop, self._client, server, _nothing)

    def _say(self, word: bytes) -> None:
        try:
            self._client.send(word)
        except OSError:
            # Gone meanwhile: whoever reads from it next finds out.
            return


def _nothing() -> None:
    """Nobody counts."""


def accept(listener: _socket.socket) -> _socket.socket:
    """The next connection, non-blocking."""
    descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # in CPython since 3.0, not in the stubs
    client = _socket.socket(listener.family, listener.type, 0, descriptor)
    client.setblocking(False)
    return client
