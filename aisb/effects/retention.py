"""Forget the records of older runs: never that of a run that goes on, and nothing that a link leads to."""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.run_record import KEEP_BUILT_IN, Keep
from aisb.effects.run_record import is_running, read_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nor where all records together are larger, whatever was said.
MOST_BYTES = 256 * 1024 * 1024
# At a time: the end of a run is not to last because somebody keeps fewer from now on.
MOST_AT_ONCE = 200
_DAY_SECONDS = 86400
_RUN = re.compile(r"[0-9a-f]{8}")


class _Found(NamedTuple):
    """A record: when it was last written, where it is, and how large."""

    when: float
    path: str
    size: int


def forget_old(state: str, keep: Keep = KEEP_BUILT_IN, most_bytes: int = MOST_BYTES) -> None:
    """Remove the oldest records beyond the bounds; the newest one stays, however large."""
    import shutil

    found = sorted(_records(f"{state}/runs"), reverse=True)
    for item in _beyond(found, keep, most_bytes)[:MOST_AT_ONCE]:
        # What cannot be read is not known to be over.
        with suppress(OSError):
            if not is_running(read_fields(item.path)):
                shutil.rmtree(item.path, ignore_errors=True)


def _beyond(found: list[_Found], keep: Keep, most_bytes: int) -> list[_Found]:
    """What is too much of them, the oldest first."""
    oldest = time.time() - keep.days * _DAY_SECONDS if keep.days else 0.0
    together, beyond = 0, []
    for number, item in enumerate(found):
        together += item.size
        is_one_too_many = bool(keep.runs) and number >= keep.runs
        if number and (is_one_too_many or item.when < oldest or together > most_bytes):
            beyond.append(item)
    return beyond[::-1]


def _records(directory: str) -> Iterator[_Found]:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            # Another run may be forgetting the same one; and what cannot be looked at cannot be removed either.
            with suppress(OSError):
                if _RUN.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield _look(entry.path)


def _look(path: str) -> _Found:
    with os.scandir(path) as entries:
        files = [entry.stat(follow_symlinks=False) for entry in entries]
    regular = [status for status in files if stat.S_ISREG(status.st_mode)]
    when = max((status.st_mtime for status in regular), default=os.lstat(path).st_mtime)
    return _Found(when, path, sum(status.st_size for status in regular))
