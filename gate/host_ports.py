"""
Runs on the host, beside aisb: joins each connection to one of the run's doors with a port of the host's loopback.

A door is a unix socket for one port, in a directory that the gate sees and the sandbox does not. The first byte that
goes back says whether somebody listens at the port; then bytes are copied. It ends when aisb does.
"""

from __future__ import annotations

import _socket
import os
import resource
import sys

from gate.loop import READ, WRITE, Loop
from gate.pump import Pump

# As `typing` has it, whose import would take 15 ms of a start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Descriptors that aisb hands on: a pipe that ends with it, then the doors in the order of the arguments.
LIFE = 3
FIRST_DOOR = 4
REACHED = b"+"
NOBODY = b"-"
_NAME = b"sandbox-ports"
_LOOPBACK = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
_ACCEPTS_A_TURN = 64
_PAUSE_SECONDS = 0.05
# Two for each of the connections that a gate takes for one run.
_DESCRIPTORS = 4096


class Forwarder:
    """Takes connections in at doors."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def serve(self, door: _socket.socket, port: int) -> None:
        """Lead whoever comes to this door to that port."""

        def on_event(_events: int) -> None:
            for _ in range(_ACCEPTS_A_TURN):
                try:
                    client = accept(door)
                except BlockingIOError:
                    return
                except OSError:
                    # Out of descriptors: the queue is looked at again soon.
                    self._loop.watch(door.fileno(), 0, on_event)
                    self._loop.after(_PAUSE_SECONDS, lambda: self._loop.watch(door.fileno(), READ, on_event))
                    return
                _Caller(self._loop, client, port).dial()

        self._loop.watch(door.fileno(), READ, on_event)


class _Caller:
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
            host = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        except OSError:
            self.dial()
            return
        host.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        try:
            host.connect((address, self._port))
        except BlockingIOError:
            self._loop.watch(host.fileno(), WRITE, lambda _: self._on_connected(host))
        except OSError:
            host.close()
            self.dial()
        else:
            self._join(host)

    def _on_connected(self, host: _socket.socket) -> None:
        self._loop.forget(host.fileno())
        if host.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR):
            host.close()
            self.dial()
        else:
            self._join(host)

    def _join(self, host: _socket.socket) -> None:
        self._say(REACHED)
        Pump(self._loop, self._client, host, _nothing)

    def _say(self, word: bytes) -> None:
        try:
            self._client.send(word)
        except OSError:
            # Gone meanwhile: whoever reads from it next finds out.
            return


def _nothing() -> None:
    """Nobody counts."""


def accept(door: _socket.socket) -> _socket.socket:
    """The next connection, non-blocking."""
    descriptor, _ = door._accept()  # type: ignore[attr-defined]  # in CPython since 3.0, not in the stubs
    client = _socket.socket(door.family, door.type, 0, descriptor)
    client.setblocking(False)
    return client


def end(_events: int) -> None:
    """aisb is gone, however it went."""
    os._exit(0)


def leave_terminal() -> None:
    """Go on without terminal and streams, under a name that no `pkill aisb` means."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)
    with open("/proc/self/comm", "wb", buffering=0) as name:
        name.write(_NAME)


def serve(doors: list[tuple[int, int]], life: int, stop: Callable[[int], None] = end) -> None:
    """Serve (descriptor, port) pairs until the descriptor `life` hangs up."""
    loop = Loop()
    loop.watch(life, READ, stop)
    forwarder = Forwarder(loop)
    for descriptor, port in doors:
        door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        door.setblocking(False)
        forwarder.serve(door, port)
    loop.run()


def main() -> None:
    """The arguments are ports."""
    leave_terminal()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))
    serve([(FIRST_DOOR + index, int(text)) for index, text in enumerate(sys.argv[1:])], LIFE)
