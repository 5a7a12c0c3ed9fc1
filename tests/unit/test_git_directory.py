"""A repository that lies outside of its project is known by what it says of the project."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from aisb.effects.git_directory import find_git_directory
from aisb.effects.shield import Wishes, look
from aisb.effects.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.domain.protected import Cover

IDENTITY = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(place: Path, *words: str) -> None:
    """git, with an identity of nobody's."""
    own = ("-c", "user.name=A", "-c", "user.email=a@a.test", "-c", "protocol.file.allow=always")
    subprocess.run(("git", *own, *words), cwd=place, env=os.environ | IDENTITY, check=True, capture_output=True)


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with a worktree and a submodule."""
    for name in ("main", "other"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path / "main", "worktree", "add", "-q", "../wt")
    git(tmp_path / "main", "submodule", "--quiet", "add", "../other", "sub")
    return tmp_path / "main"


def test_a_worktrees_repository_is_found_whole_at_the_same_path(main: Path) -> None:
    found, note = find_git_directory(f"{main.parent}/wt")

    assert note == ""
    assert found is not None
    assert found[:4] == (f"{main}/.git", f"{main}/.git", f"{main}/.git/worktrees/wt", "")
    assert found.pointer.text == f"gitdir: {main}/.git/worktrees/wt\n"


def test_a_submodules_is_found_where_its_file_leads_and_its_work_tree_is_the_project(main: Path) -> None:
    found, note = find_git_directory(f"{main}/sub")

    assert note == ""
    assert found is not None
    assert found[:3] == (f"{main}/.git/modules/sub", "/.git/modules/sub", f"{main}/.git/modules/sub")
    assert found.config.startswith((main / ".git/modules/sub/config").read_text().rstrip())
    assert found.config.endswith("\n[core]\n\tworktree = /project\n")


def test_there_is_nothing_to_find_in_other_projects(main: Path) -> None:
    assert find_git_directory(str(main)) == (None, "")
    assert find_git_directory(str(main.parent)) == (None, "")
    assert find_git_directory("") == (None, "")


@pytest.mark.parametrize(
    "text",
    [
        "gitdir: {home}/.ssh\n",
        "gitdir: ../main/.git\n",
        "gitdir: ../main/.git/worktrees/wt\n",
        "gitdir: ../main/.git/modules/sub\n",
        "gitdir: ../gone\n",
        "gitdir: \n",
        "{home}/.ssh\n",
        "gitdir: {home}/.ssh\ngitdir: x\n",
        "",
    ],
)
def test_what_does_not_name_the_project_in_return_is_not_mounted(main: Path, tmp_path: Path, text: str) -> None:
    """A planted file that names a directory of keys, another's worktree, a whole repository. (B08)"""
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "p").mkdir()
    (tmp_path / "p/.git").write_text(text.format(home=f"{tmp_path}/home"))

    found, note = find_git_directory(f"{tmp_path}/p")

    assert found is None
    assert note.startswith(f"{tmp_path}/p/.git names ")


def test_a_link_in_the_place_of_the_file_is_not_followed(main: Path) -> None:
    (main.parent / "p").mkdir()
    os.symlink("../wt/.git", main.parent / "p/.git")

    assert find_git_directory(f"{main.parent}/p") == (None, "")


def test_a_repository_elsewhere_is_protected_like_one_that_is_here(main: Path) -> None:
    """Its hooks, configuration and what is said of worktrees; git's own place for a submodule's work tree is shown."""
    wishes = Wishes(default_masks=False, home="/h", work_tree=f"{main}/sub", has_config=True)

    with Tree(f"{main}/.git/modules/sub") as tree:
        covers = look(tree, "/.git/modules/sub", wishes, None).covers
    with Tree(f"{main}/.git") as tree:
        whole = look(tree, "/m", wishes._replace(has_config=False), None).covers

    assert [shown(cover) for cover in covers] == ["config ro git-config", "hooks ro "]
    assert {"config ro ", "hooks ro ", "worktrees/wt rw ", "worktrees/wt/gitdir ro ", "modules/sub/config ro "} <= {
        shown(cover) for cover in whole
    }


def shown(cover: Cover) -> str:
    """A cover in short."""
    place = cover.target.removeprefix("/.git/modules/sub/").removeprefix("/m/")
    return f"{place} {'ro' if cover.read_only else 'rw'} {cover.shown}"
