"""The log of one build: all of it in a file, its end at hand, its steps told to whoever waits."""

from __future__ import annotations

import os
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
# What podman and our own script say to each other; whoever reads why a build failed needs none of it.
_INTERNAL = ("STEP ", "--> ", "aisb-step: ", "aisb-fail: ", "Error: building at STEP ", "$ ")


class BuildLog:
    """The whole output of a build in a file, its end in memory, and its steps told to the report."""

    def __init__(self, report: Report, path: str) -> None:
        self.path = path
        self.tail: deque[str] = deque(maxlen=_SHOWN_LINES)
        self.cause = ""
        self._report = report
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115  closed by `build_log`

    def line(self, text: str) -> None:
        self._file.write(f"{text}\n")
        self._file.flush()
        if not text.startswith(_INTERNAL):
            self.tail.append(text)
        kind, _, rest = text.partition(": ")
        if kind == "aisb-step":
            self._report.begin(rest)
        elif kind == "aisb-fail":
            self.cause = self.cause or rest
        self._report.tick()

    def close(self) -> None:
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
