"""
Stand between podman and readers that may leave, and disks that may be full.

podman takes that for a failure of its own: it says so, in its own words on the command's stderr, and exits with a
code of its own. So it gets a pipe of ours; but a terminal that is the sandbox's as well it gets as it is.
"""

from __future__ import annotations

import _thread
import os
import re
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIECE = 65536
# What podman and its runtime say of a signal that they could not pass on: of each read from a terminal that podman was
# not given yet (SIGTTIN), for one, while a short command comes and goes.
_UNDELIVERED = re.compile(rb"container not running|kill container: No such process|forwarding signal [0-9]+")


class Outlets:
    """
    The pipes that podman writes to, and the threads that pass on what comes.

    `left` can be read when a reader has left; what the command goes on to write is thrown away then. `done` can be
    read when everything has been passed on. `failed` is the stream that could not be written, and why. Where nobody
    writes but podman itself (`podmans_alone`) its words about signals that came too late are left out.
    """

    def __init__(self, pairs: Mapping[int, tuple[int, int]], *, podmans_alone: bool = False) -> None:
        self._podmans_alone = podmans_alone
        self.descriptors = {number: write_end for number, (_, write_end) in pairs.items()}
        self._targets = {read_end: number for number, (read_end, _) in pairs.items()}
        self._is_muted = False
        self.failed: tuple[int, OSError] | None = None
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

    def mute(self) -> None:
        """Throw away what comes from now on: podman's words about an end that is our doing."""
        self._is_muted = True

    def end(self) -> None:
        """podman has ended: what is in the pipes now is all, whoever else may hold them."""
        os.close(self._end)

    def _pass_on(self, source: int, target: int, finish: int) -> None:
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        is_read = True
        held_back = b""
        # At the end there may be more in the pipe: it comes first.
        while source in dict(poll.poll()):
            data = os.read(source, _PIECE)
            if not data:
                break
            if self._podmans_alone:
                data, held_back = _worth_telling(held_back + data)
            if is_read and not self._is_muted:
                is_read = self._write(target, data)
        if held_back and is_read and not self._is_muted:
            self._write(target, held_back)
        os.close(finish)

    def _write(self, target: int, data: bytes) -> bool:
        """Write all of it, however long that takes; False, and a sign in `left`, where it cannot be written."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(target, view) :]
            except BlockingIOError:
                # The caller shares the file with somebody who does not like to wait.
                select.select([], [target], [])
            except OSError as error:
                if not isinstance(error, BrokenPipeError):
                    self.failed = (target, error)
                os.write(self._leave, b".")
                return False
        return True


def _worth_telling(data: bytes) -> tuple[bytes, bytes]:
    """The whole lines that are, and the beginning of the next one."""
    *lines, rest = data.split(b"\n")
    return b"".join(line + b"\n" for line in lines if not _UNDELIVERED.search(line)), rest


def open_outlets(*, stdout: bool, podmans_alone: bool) -> Outlets:
    """
    The outlets of this process's stdout and stderr; of stderr alone where the sandbox has something else for `stdout`.

    Where both are one file podman gets one pipe: what was written in turn stays in turn.
    """
    pairs: dict[int, tuple[int, int]] = {}
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for number in (1, 2) if stdout else (2,):
        status = os.fstat(number)
        place = (status.st_dev, status.st_ino)
        if place not in known:
            known[place] = os.pipe2(os.O_CLOEXEC)
        pairs[number] = known[place]
    return Outlets(pairs, podmans_alone=podmans_alone)
