"""aisb's own directories."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from aisb.effects.state import make_private

if TYPE_CHECKING:
    from pathlib import Path


def test_a_private_directory_has_no_open_parent(tmp_path: Path) -> None:
    """Whatever the umask: others may not even look for a name in it."""
    before = os.umask(0)
    try:
        made = make_private(f"{tmp_path}/aisb/g/0123")
    finally:
        os.umask(before)

    assert made == f"{tmp_path}/aisb/g/0123"
    modes = {stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("aisb", "aisb/g", "aisb/g/0123")}
    assert modes == {0o700}


def test_a_directory_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)

    make_private(f"{tmp_path}/mine")

    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755
