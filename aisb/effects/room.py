"""What to say where a disk is full: the error of a write does not tell which."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from aisb.domain.printing import shell_word
from aisb.effects.state import preview_directories
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# What a start writes is less.
_LEAST_BYTES = 1 << 20


def no_room(error: OSError, environ: Mapping[str, str]) -> Unavailable | None:
    """The sentence for an error that says that there is no room left; None for another one."""
    if error.errno not in _NO_ROOM:
        return None
    where = preview_directories(environ)
    full = [
        place for place in (where.runtime, where.cache, where.state, environ.get("TMPDIR", "/tmp")) if _is_full(place)
    ]
    named = " ".join(map(shell_word, dict.fromkeys(full))) or shell_word(str(error.filename or ""))
    return Unavailable(
        f"a file could not be written: {os.strerror(error.errno)}", hint=f"make room, and run it again: df -h {named}"
    )


def _is_full(path: str) -> bool:
    while path != "/" and not os.path.isdir(path):
        path = os.path.dirname(path)
    with contextlib.suppress(OSError):
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize < _LEAST_BYTES or (found.f_files > 0 and found.f_favail == 0)
    return False
