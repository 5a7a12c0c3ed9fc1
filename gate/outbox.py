"""What the tool server has to say, in the order in which it was said, and no more of it than a little."""

from __future__ import annotations

import os
from collections import deque

from aisb.domain.frames import head_of
from gate.loop import WRITE

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

# With more than this waiting nobody fetches more from where it comes from.
ENOUGH_BYTES = 1 << 18
_MOST_PIECES = 64


class Outbox:
    """
    Writes frames to a pipe as it takes them. `on_room` is called each time there is room again.

    Whoever has much to say asks `has_room` first; answers are short, and are always taken.
    """

    def __init__(self, loop: Loop, target: int, on_full: Callable[[], None], on_room: Callable[[], None]) -> None:
        os.set_blocking(target, False)
        self._loop = loop
        self._target = target
        self._on_full = on_full
        self._on_room = on_room
        self._pieces: deque[bytes | memoryview] = deque()
        self._size = 0
        self.has_room = True

    def put(self, header: dict[str, object], body: bytes = b"") -> None:
        """Say it, after all that was said before."""
        head = head_of(header, len(body))
        was_empty = not self._pieces
        self._pieces.append(head)
        self._size += len(head)
        if body:
            self._pieces.append(body)
            self._size += len(body)
        if was_empty:
            self._write(0)
        if self.has_room and self._size >= ENOUGH_BYTES:
            self.has_room = False
            self._on_full()

    def _write(self, _events: int) -> None:
        while self._pieces:
            try:
                written = os.writev(self._target, [*self._pieces] if len(self._pieces) <= _MOST_PIECES else self._few())
            except BlockingIOError:
                break
            self._drop(written)
        self._loop.watch(self._target, WRITE if self._pieces else 0, self._write)
        if not self.has_room and self._size < ENOUGH_BYTES:
            self.has_room = True
            self._on_room()

    def _few(self) -> list[bytes | memoryview]:
        return [self._pieces[number] for number in range(_MOST_PIECES)]

    def _drop(self, written: int) -> None:
        self._size -= written
        while written:
            first = self._pieces.popleft()
            if written < len(first):
                self._pieces.appendleft(memoryview(first)[written:])
                return
            written -= len(first)
