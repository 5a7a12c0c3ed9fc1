"""Takes in squid's log lines over TCP, and hands each on as a value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gate import ports
from gate.listening import listen_on_loopback, take_in
from gate.loop import READ
from gate.squid_log import parse_line

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from gate.loop import Loop
    from gate.squid_log import LogLine

_LONGEST_LINE = 131072


def listen_for_log(loop: Loop, on_line: Callable[[LogLine], None]) -> None:
    """Listen where squid's configuration says that its log goes."""
    take_in(loop, listen_on_loopback(ports.LOG), lambda squid: _serve(loop, squid, on_line))


def _serve(loop: Loop, squid: _socket.socket, on_line: Callable[[LogLine], None]) -> None:
    _Stream(loop, squid, on_line)


class _Stream:
    """One connection that brings lines."""

    def __init__(self, loop: Loop, socket: _socket.socket, on_line: Callable[[LogLine], None]) -> None:
        self._loop = loop
        self._socket = socket
        self._on_line = on_line
        self._rest = b""
        loop.watch(socket.fileno(), READ, self._on_event)

    def _on_event(self, _events: int) -> None:
        try:
            data = self._socket.recv(_LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._hand_on(line)

    def _hand_on(self, raw: bytes) -> None:
        try:
            line = parse_line(raw)
        except ValueError as error:
            print(f"bridge: {error}: {raw[:300]!r}", file=sys.stderr, flush=True)
            return
        if line is not None:
            self._on_line(line)
