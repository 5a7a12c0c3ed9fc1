"""
Stand between podman and readers that may leave.

podman takes a reader's leave for a failure of its own: it says so, in its own words on the command's stderr, and
exits with a code of its own. So where stdout or stderr is a pipe or a socket, podman gets a pipe of ours.
"""

from __future__ import annotations

import _thread
import os
import select
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIECE = 65536


class Outlets:
    """
    The pipes that podman writes to, and the threads that pass on what comes.

    `left` can be read when a reader has left; what the command goes on to write is thrown away then. `done` can be
    read when everything has been passed on.
    """

    def __init__(self, pairs: Mapping[int, tuple[int, int]]) -> None:
        self.descriptors = {number: write_end for number, (_, write_end) in pairs.items()}
        self._targets = {read_end: number for number, (read_end, _) in pairs.items()}
        self.left, self._leave = os.pipe2(os.O_CLOEXEC)
        self.done, self._finish = os.pipe2(os.O_CLOEXEC)
        self._over, self._end = os.pipe2(os.O_CLOEXEC)

    def start(self) -> None:
        """podman has its ends."""
        for descriptor in set(self.descriptors.values()):
            os.close(descriptor)
        for read_end, number in self._targets.items():
            finish = os.dup(self._finish)
            _thread.start_new_thread(self._pass_on, (read_end, number, finish))
        os.close(self._finish)

    def end(self) -> None:
        """podman has ended: what is in the pipes now is all, whoever else may hold them."""
        os.close(self._end)

    def _pass_on(self, source: int, target: int, finish: int) -> None:
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        is_read = True
        # At the end there may be more in the pipe: it comes first.
        while source in dict(poll.poll()):
            data = os.read(source, _PIECE)
            if not data:
                break
            if is_read and not _write(target, data):
                is_read = False
                os.write(self._leave, b".")
        os.close(finish)


def open_outlets() -> Outlets:
    """
    The outlets of this process's stdout and stderr.

    Where both are one pipe podman gets one as well: what was written in turn stays in turn.
    """
    pairs: dict[int, tuple[int, int]] = {}
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for number in (1, 2):
        status = os.fstat(number)
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            place = (status.st_dev, status.st_ino)
            if place not in known:
                known[place] = os.pipe2(os.O_CLOEXEC)
            pairs[number] = known[place]
    return Outlets(pairs)


def _write(target: int, data: bytes) -> bool:
    """Write all of it, however long that takes; False where nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            # The caller shares the file with somebody who does not like to wait.
            select.select([], [target], [])
        except OSError:
            return False
    return True
