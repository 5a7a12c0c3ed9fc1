"""Takes in squid's log lines over TCP, and hands each on as a value."""

from __future__ import annotations

import _socket
import sys
from typing import TYPE_CHECKING

from gate import ports
from gate.loop import READ
from gate.squid_log import parse_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop
    from gate.squid_log import LogLine

_LONGEST_LINE = 131072


class LogListener:
    """Listens where squid's configuration says that its log goes."""

    def __init__(self, loop: Loop, on_line: Callable[[LogLine], None]) -> None:
        self._loop = loop
        self._on_line = on_line
        self._listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        self._listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", ports.LOG))
        self._listener.listen(16)
        loop.watch(self._listener.fileno(), READ, self._on_squid)

    def _on_squid(self, _events: int) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # in CPython, not in the stubs
        except OSError:
            return
        squid = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, descriptor)
        squid.setblocking(False)
        _Stream(self._loop, squid, self._on_line)


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
