"""The launcher runs nothing in a directory that is not the one that aisb looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.effects.run import project_identity
from gate import launcher

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_directory_is_known_by_device_and_inode(tmp_path: Path) -> None:
    launcher.check_same(str(tmp_path), project_identity(str(tmp_path)))


def test_a_directory_that_took_its_place_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    expected = project_identity(str(project))
    project.rename(tmp_path / "old")
    os.symlink("/etc", project)

    with pytest.raises(launcher.Refused, match="replaced while the sandbox started"):
        launcher.check_same(str(project), expected)


def test_no_project_is_nothing_to_compare() -> None:
    assert project_identity("") == ""
    launcher.check_same("/project", "")
