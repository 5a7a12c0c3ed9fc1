"""
The gate's control socket: one JSON object a line in, one a line out. Only the caller can reach it.

Answers come in the order in which they are ready; who asks one thing at a time never notices.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gate.lines import Lines
from gate.listening import listen_at, take_in

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Mapping

    from gate.loop import Loop

    Reply = Callable[[dict[str, object]], None]
    Handler = Callable[[dict[str, object], Reply], None]

_LONGEST_LINE = 4096
_BACKLOG = 64


def listen_for_control(loop: Loop, path: str, handlers: Mapping[str, Handler]) -> None:
    """Listen at `path`, and answer each line by the handler of its `op`."""
    take_in(loop, listen_at(path, 0o600, _BACKLOG), lambda socket: _serve(loop, socket, handlers))


def _serve(loop: Loop, socket: _socket.socket, handlers: Mapping[str, Handler]) -> None:
    def reply(answer: dict[str, object]) -> None:
        caller.send(json.dumps(answer).encode("ascii") + b"\n")

    caller = Lines(loop, socket, _LONGEST_LINE, lambda line: _handle(handlers, line, reply))


def _handle(handlers: Mapping[str, Handler], line: bytes, reply: Reply) -> None:
    try:
        question = json.loads(line)
        handler = handlers[question["op"]]
    except (ValueError, KeyError, TypeError):
        reply({"ok": False, "error": f"the gate knows: {', '.join(sorted(handlers))}"})
        return
    try:
        handler(question, reply)
    except (ValueError, OSError) as error:
        reply({"ok": False, "error": str(error)})
