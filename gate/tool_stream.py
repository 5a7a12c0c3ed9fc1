"""What a command writes to one of its two outputs, in pieces that are worth their way."""

from __future__ import annotations

import errno
import fcntl
import os

from gate.loop import READ

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

_PIECE_BYTES = 1 << 18
# Whoever has written so much is likely to write on, and most programs write a few kilobytes at a time. Each piece costs
# the same on its way: so the pipe is made larger then, and let fill; where that cannot be, pieces are put together.
_BULK_BYTES = 1 << 17
_WORTH_BYTES = 1 << 16
_PAUSE_SECONDS = 0.005
# In the module since Python 3.10, but not on every system.
_F_SETPIPE_SZ = 1031
_BULK_PIPE_BYTES = 1 << 20


class Stream:
    """Reads a pipe to its end, and closes it. `on_data` is given its bytes, `on_end` is called at last."""

    def __init__(self, loop: Loop, source: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        os.set_blocking(source, False)
        self._loop = loop
        self._source = source
        self._on_data = on_data
        self._on_end = on_end
        self._count = 0
        self._is_large: bool | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_due = False
        self._watch()

    def _watch(self) -> None:
        self._loop.watch(self._source, READ, self._on_ready)

    def _on_ready(self, _events: int) -> None:
        data = _read(self._source)
        if data is None:
            return
        if not data:
            self._flush()
            self._loop.forget(self._source)
            os.close(self._source)
            self._on_end()
            return
        self._count += len(data)
        if self._count < _BULK_BYTES:
            self._on_data(data)
        else:
            self._collect(data)

    def _collect(self, data: bytes) -> None:
        if self._is_large is None:
            self._is_large = _enlarge(self._source)
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= _WORTH_BYTES:
            self._flush()
        elif self._is_large:
            self._flush()
            self._loop.forget(self._source)
            self._loop.after(_PAUSE_SECONDS, self._watch)
        elif not self._is_due:
            self._is_due = True
            self._loop.after(_PAUSE_SECONDS, self._on_due)

    def _on_due(self) -> None:
        self._is_due = False
        self._flush()

    def _flush(self) -> None:
        pieces, self._pieces, self._size = self._pieces, [], 0
        if pieces:
            self._on_data(b"".join(pieces))


def _enlarge(pipe: int) -> bool:
    try:
        return fcntl.fcntl(pipe, _F_SETPIPE_SZ, _BULK_PIPE_BYTES) >= _BULK_PIPE_BYTES
    except OSError:
        # The user has many pipes: this one stays small.
        return False


def _read(source: int) -> bytes | None:
    """What has come; b"" at its end; None where nothing has come yet."""
    try:
        return os.read(source, _PIECE_BYTES)
    except OSError as error:
        return None if error.errno == errno.EAGAIN else b""
