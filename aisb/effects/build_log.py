"""The log of one build: all of it in a file, its end at hand, its steps told to whoever waits."""

from __future__ import annotations

import os
import re
import shutil
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aisb.effects.state import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.effects.progress import Report
    from aisb.effects.workshop import Workshop

_KEPT_LOGS = 20
_SHOWN_LINES = 20
# A step that says the same for an hour is not to fill the disk; what it says last is in the log all the same.
LARGEST_LOG = 4 * 1024 * 1024
_LONGEST_LINE = 4096
_CUT = "... the log is full here; its last lines:"
_OF_IMAGE = re.compile(r".*-aisb-(?P<image>[a-z]+)-[0-9a-f]+-[0-9]+\.log")
# What podman and our own script say to each other; whoever reads why a build failed needs none of it.
_INTERNAL = ("STEP ", "--> ", "aisb-step: ", "aisb-fail: ", "Error: building at STEP ", "$ ")


class BuildLog:
    """The output of a build in a file, up to a bound, its end in memory, and its steps told to the report."""

    def __init__(self, report: Report, path: str, largest: int = LARGEST_LOG) -> None:
        self.path = path
        self._left = largest
        self._unwritten: deque[str] = deque(maxlen=_SHOWN_LINES)
        self.tail: deque[str] = deque(maxlen=_SHOWN_LINES)
        self.cause = ""
        self._report = report
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115  closed by `build_log`

    def line(self, text: str) -> None:
        self._write(text)
        if not text.startswith(_INTERNAL):
            self.tail.append(text)
        kind, _, rest = text.partition(": ")
        if kind == "aisb-step":
            self._report.begin(rest)
        elif kind == "aisb-fail":
            self.cause = self.cause or rest
        self._report.tick()

    def _write(self, text: str) -> None:
        self._left -= len(text) + 1
        if self._left < 0:
            self._unwritten.append(text[:_LONGEST_LINE])
            return
        self._file.write(f"{text}\n")
        self._file.flush()

    def close(self) -> None:
        if self._unwritten:
            self._file.writelines(f"{text}\n" for text in (_CUT, *self._unwritten))
        self._file.close()


@contextmanager
def build_log(shop: Workshop, image: str) -> Iterator[BuildLog]:
    """A log for the build of one image; the oldest ones make room for it."""
    folder = make_private(f"{shop.directories.state}/builds")
    for old in sorted(os.listdir(folder))[: -_KEPT_LOGS + 1]:
        os.unlink(f"{folder}/{old}")
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    log = BuildLog(shop.report, f"{folder}/{now}-{image.rpartition('/')[2].replace(':', '-')}-{os.getpid()}.log")
    try:
        yield log
    finally:
        log.close()
        if shop.logs is not None:
            shop.logs.append(log.path)


def add_build_log(path: str, directory: str) -> None:
    """
    Have a build's log lie in this directory too, under the name of its image.

    Where it can be, it is the same file, and takes no room of its own; it stays when the other place is made free.
    """
    named = _OF_IMAGE.fullmatch(os.path.basename(path))
    target = f"{directory}/build-{named['image'] if named else 'image'}.log"
    try:
        os.link(path, target)
    except FileExistsError:
        pass
    except OSError:
        # A file system on which a file has one name.
        shutil.copyfile(path, target)
