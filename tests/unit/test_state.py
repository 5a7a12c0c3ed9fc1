"""aisb's own directories."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from aisb.effects.state import directories, make_private
from aisb.errors import Unavailable

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
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o755)

    make_private(f"{tmp_path}/mine")

    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755


@pytest.mark.parametrize("which", ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"])
def test_a_directory_of_ours_that_others_can_write_is_not_used(tmp_path: Path, which: str) -> None:
    """Another user of this machine may have made it first, where a variable leads to a directory that all can write."""
    environ = {"HOME": str(tmp_path), which: f"{tmp_path}/shared"}
    own = tmp_path / "shared/ai-sandbox"
    own.mkdir(parents=True)
    assert f"{own}" in directories(environ, runtime=str(tmp_path)).own()

    own.chmod(0o777)

    with pytest.raises(Unavailable, match="belongs to somebody else or can be written by others"):
        directories(environ, runtime=str(tmp_path))


def test_a_directory_of_ours_that_somebody_else_has_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".cache/ai-sandbox").mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: 4711)

    with pytest.raises(Unavailable, match="belongs to somebody else"):
        directories({"HOME": str(tmp_path)}, runtime=str(tmp_path))
