"""
Locks between the programs of the laboratory: files in the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def locked(file: Path, *, shared: bool = False) -> Iterator[None]:
    """
    Hold the lock `file` for the length of a `with` block.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
