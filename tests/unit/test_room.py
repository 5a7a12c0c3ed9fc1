"""A full disk is a sentence."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from aisb.effects.room import no_room

if TYPE_CHECKING:
    from pathlib import Path


def test_only_a_disk_without_room_is_one(tmp_path: Path) -> None:
    """With the file where the error has it: none of our own directories is full here. (C51)"""
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    full = no_room(OSError(errno.ENOSPC, "", "/d/x"), home)
    quota = no_room(OSError(errno.EDQUOT, ""), home)

    assert full is not None
    assert full.message == "a file could not be written: No space left on device"
    assert full.hint == "make room, and run it again: df -h /d/x"
    assert quota is not None
    assert no_room(OSError(errno.EACCES, "", "/d/x"), home) is None
