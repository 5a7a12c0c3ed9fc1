"""
Runs anywhere: prints each readable file that holds a private key, below the directories that are its arguments.

Large files are passed over, and what the kernel makes up as it is read.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 200_000
MARK = b"PRIVATE KEY-----\n"
MADE_UP = ("/proc", "/sys")


def files_below(top: str) -> Iterator[str]:
    """Every regular file, through no link."""
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if os.path.join(directory, name) not in MADE_UP]
        yield from (os.path.join(directory, name) for name in files)


def holds_a_key(path: str) -> bool:
    """Whether there is one in it that we can read."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return False
        with open(path, "rb") as file:
            return MARK in file.read()
    except OSError:
        return False


if __name__ == "__main__":
    print("\n".join(path for top in sys.argv[1:] for path in files_below(top) if holds_a_key(path)))
