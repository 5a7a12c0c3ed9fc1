"""
The gate's control socket: one JSON object a line in, one a line out. Only the caller can reach it.

Answers come in the order in which they are ready; who asks one thing at a time never notices.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gate.listening import listen_at, take_in
from gate.loop import READ

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Mapping

    from gate.loop import Loop

    Reply = Callable[[dict[str, object]], None]
    Handler = Callable[[dict[str, object], Reply], None]

_LONGEST_LINE = 4096
_BACKLOG = 64


class Control:
    """Listens at `path`, and answers each line by the handler of its `op`."""

    def __init__(self, loop: Loop, path: str, handlers: Mapping[str, Handler]) -> None:
        take_in(loop, listen_at(path, 0o600, _BACKLOG), lambda caller: _serve(loop, caller, handlers))


def _serve(loop: Loop, caller: _socket.socket, handlers: Mapping[str, Handler]) -> None:
    _Caller(loop, caller, handlers)


class _Caller:
    """One connection to the control socket."""

    def __init__(self, loop: Loop, socket: _socket.socket, handlers: Mapping[str, Handler]) -> None:
        self._loop = loop
        self._socket = socket
        self._handlers = handlers
        self._data = b""
        loop.watch(socket.fileno(), READ, self._on_event)

    def _on_event(self, _events: int) -> None:
        try:
            data = self._socket.recv(_LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._data = (self._data + data).split(b"\n")
        if not data or len(self._data) > _LONGEST_LINE:
            self._close()
            return
        for line in lines:
            self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            question = json.loads(line)
            handler = self._handlers[question["op"]]
        except (ValueError, KeyError, TypeError):
            self._reply({"ok": False, "error": f"the gate knows: {', '.join(sorted(self._handlers))}"})
            return
        try:
            handler(question, self._reply)
        except (ValueError, OSError) as error:
            self._reply({"ok": False, "error": str(error)})

    def _reply(self, answer: dict[str, object]) -> None:
        if self._socket.fileno() < 0:
            return
        try:
            self._socket.send(json.dumps(answer).encode("ascii") + b"\n")
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
