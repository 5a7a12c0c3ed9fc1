"""
Asks the bridge whether a name may be resolved, over one connection that is kept.

An answer is remembered for a few seconds when it was yes, never when it was no: what the user
allows while a run lasts works at once. When the bridge cannot be asked the answer is None, which
is neither.
"""

from __future__ import annotations

import time

from gate.dial import dial
from gate.loop import READ, receive

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from gate.loop import Loop, Timer

ANSWER_SECONDS = 2.0
REMEMBERED_SECONDS = 5.0
MOST_REMEMBERED = 1024
MOST_WAITING = 512
LONGEST_ANSWER = 1024

_END = b"\r\n\r\n"
_VERDICTS = {b"AISB/1 200 ": True, b"AISB/1 403 ": False}


class Verdicts:
    """Whether a name may be resolved: asked one at a time, each name once however many wait for it."""

    def __init__(self, loop: Loop, gate: str) -> None:
        self._loop = loop
        self._gate = gate
        self._socket: _socket.socket | None = None
        self._is_dialling = False
        # Whether the connection has answered before: only then is its end no answer by itself.
        self._is_kept = False
        self._received = b""
        self._asked = ""
        self._timer: Timer | None = None
        self._waiting: dict[str, list[Callable[[bool | None], None]]] = {}
        self._allowed_until: dict[str, float] = {}

    def ask(self, name: str, then: Callable[[bool | None], None]) -> None:
        """Call `then` with the verdict on `name`, a canonical name; at once where it is remembered."""
        if self._allowed_until.get(name, 0.0) > time.monotonic():
            then(True)
            return
        waiting = self._waiting.get(name)
        if len(self._waiting if waiting is None else waiting) >= MOST_WAITING:
            then(None)
            return
        self._waiting.setdefault(name, []).append(then)
        self._next()

    def close(self) -> None:
        """Let go of the connection; who waits gets no verdict."""
        self._give_up()

    def _next(self) -> None:
        """Put the next waiting name to the bridge, unless one is there already."""
        if self._asked or self._is_dialling or not self._waiting:
            return
        if self._socket is None:
            self._is_dialling = True
            dial(self._loop, self._gate, ANSWER_SECONDS, self._on_dialled)
            return
        name = next(iter(self._waiting))
        request = f"RESOLVE {name} AISB/1\r\n\r\n".encode("ascii")
        try:
            is_sent = self._socket.send(request) == len(request)
        except OSError:
            is_sent = False
        self._asked = name
        if is_sent:
            self._timer = self._loop.after(ANSWER_SECONDS, self._give_up)
        else:
            self._lost()

    def _on_dialled(self, socket: _socket.socket | None) -> None:
        self._is_dialling = False
        if socket is None:
            self._give_up()
            return
        self._socket = socket
        self._loop.watch(socket.fileno(), READ, self._on_event)
        self._next()

    def _on_event(self, _events: int) -> None:
        if self._socket is None:
            return
        data = receive(self._socket, LONGEST_ANSWER)
        if data is None:
            return
        self._received += data
        if not data or len(self._received) > LONGEST_ANSWER or not self._asked:
            self._lost()
        elif _END in self._received:
            self._on_answer()

    def _on_answer(self) -> None:
        head, _, rest = self._received.partition(_END)
        verdict = _VERDICTS.get(head[:11])
        # One request, one answer: what follows is not to be taken for the answer to the next.
        if verdict is None or rest:
            self._give_up()
            return
        self._received = b""
        self._is_kept = True
        name = self._asked
        self._stop_asking()
        if verdict:
            self._remember(name)
        for then in self._waiting.pop(name):
            then(verdict)
        self._next()

    def _lost(self) -> None:
        """The connection has ended. One that was kept is replaced and the name asked again, once."""
        if self._asked and (not self._is_kept or self._received):
            self._give_up()
            return
        self._disconnect()
        self._stop_asking()
        self._next()

    def _give_up(self) -> None:
        """Nobody who waits gets a verdict: what failed for one will fail for the next, and time is short."""
        self._disconnect()
        self._stop_asking()
        waiting, self._waiting = self._waiting, {}
        for callbacks in waiting.values():
            for then in callbacks:
                then(None)

    def _stop_asking(self) -> None:
        self._asked = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._received = b""
        self._is_kept = False

    def _remember(self, name: str) -> None:
        if len(self._allowed_until) >= MOST_REMEMBERED:
            self._allowed_until.clear()
        self._allowed_until[name] = time.monotonic() + REMEMBERED_SECONDS
