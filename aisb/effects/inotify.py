"""The kernel's news of changes in directories, as far as they are needed here: that there are some."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

# inotify(7). A path that is a link is not followed, and what is no directory is not watched.
_CHANGES = 0x0000_0008 | 0x0000_0040 | 0x0000_0080 | 0x0000_0100 | 0x0000_0200 | 0x0000_0400
_DIRECTORY_ITSELF = 0x0100_0000 | 0x0200_0000
_LARGEST = 65536
_MOST_READ = 64
# struct inotify_event, before its name.
_EVENT = struct.Struct("iIII")


class Inotify:
    """Tells of files that were made, written, moved or removed in some directories."""

    def __init__(self) -> None:
        self._directories: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        made = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        # The kernel has so many for a user, and a sandbox may have them all: then nothing is ever told, and whoever
        # waits looks by the clock.
        self.is_there = made >= 0
        self._never = () if self.is_there else os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.descriptor: int = self._never[0] if self._never else made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._never or (self.descriptor,):
            os.close(descriptor)

    def watch(self, directories: Iterable[str]) -> None:
        """From now on these too; one that is not there is left out."""
        for path in directories if self.is_there else ():
            number = self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), _CHANGES | _DIRECTORY_ITSELF)
            if number >= 0:
                self._directories[number] = path

    def changed(self) -> set[str]:
        """The paths of which something was told since the last time; "" among them where something was missed."""
        found: set[str] = set()
        with suppress(BlockingIOError):
            for _ in range(_MOST_READ):
                found |= set(self._paths(os.read(self.descriptor, _LARGEST)))
            # Whoever makes it makes more while it is read.
            found.add("")
        return found

    def _paths(self, data: bytes) -> Iterator[str]:
        offset = 0
        while offset < len(data):
            number, _, _, length = _EVENT.unpack_from(data, offset)
            start = offset + _EVENT.size
            offset = start + length
            name = os.fsdecode(data[start:offset].rstrip(b"\0"))
            directory = self._directories.get(number, "")
            yield f"{directory}/{name}" if name else directory
