"""A folder for as long as something is made in it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from aisb.effects.state import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator

_JUST_MADE_SECONDS = 60.0


@contextmanager
def own_folder(parent: str) -> Iterator[str]:
    """A new folder below `parent` for as long as the block runs. What a killed process left there is removed."""
    make_private(parent)
    _remove_left_over(parent)
    folder = tempfile.mkdtemp(dir=parent)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(held)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over(parent: str) -> None:
    """A folder that is not held belongs to nobody any more, unless it was made this very moment."""
    for name in os.listdir(parent):
        with suppress(OSError):
            held = os.open(f"{parent}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(held).st_mtime > _JUST_MADE_SECONDS:
                    shutil.rmtree(f"{parent}/{name}", ignore_errors=True)
            finally:
                os.close(held)
