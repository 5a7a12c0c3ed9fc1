"""
The repository of a project that has it elsewhere: of a worktree, or of a submodule.

The project's file `.git` names it, and an agent can write that file. So what it names counts only where that is a git
directory which names this very project in return, and where its user has seen the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.git_config import parse_git_config
from aisb.domain.protected import plain
from aisb.domain.source_files import SourceFile, source_file
from aisb.effects.tree import Tree, is_directory, is_file
from aisb.render.argv import PROJECT_TARGET

if TYPE_CHECKING:
    from aisb.effects.tree import Tree as Opened

_POINTER = "gitdir: "


class GitDirectory(NamedTuple):
    """
    What is mounted, on the host and inside: for a worktree the whole repository that it belongs to.

    `own` is the part that is the worktree's. `config` is what git reads inside in the place of its configuration,
    where the work tree that it names is another there; "" for as it is. `pointer` is the file that named it.
    """

    source: str
    target: str
    own: str
    config: str
    pointer: SourceFile


class Found(NamedTuple):
    """The repository, None without one, and what has to be said of it."""

    git: GitDirectory | None = None
    note: str = ""


def find_git_directory(project: str, target: str = PROJECT_TARGET) -> Found:
    """Look at the project's `.git`, which counts here only where it is a file. Inside the project is at `target`."""
    if not project:
        return Found()
    with Tree(project) as tree:
        if not is_file(tree.status(".git")):
            return Found()
        data = tree.read(".git") or b""
    pointer = source_file(".git", data)
    named = data.decode("utf-8", "surrogateescape").removeprefix(_POINTER).rstrip("\n")
    if not data.startswith(_POINTER.encode()) or not named or "\n" in named:
        return Found(note=f"{project}/.git names no git directory: nothing is mounted for it")
    real = os.path.realpath(os.path.join(project, named))
    shown = plain(named if named.startswith("/") else f"{target}/{named}")
    try:
        with Tree(real) as tree:
            found = _worktree(tree, project, shown, pointer) or _submodule(tree, project, target, shown, pointer)
    except OSError:
        found = None
    if found is None:
        return Found(note=f"{project}/.git names {real}, which is no git directory of this project: it is not mounted")
    return Found(found)


def _worktree(tree: Opened, project: str, shown: str, pointer: SourceFile) -> GitDirectory | None:
    """The repository of a worktree: its directory there names the worktree's file, and lies where git puts it."""
    back = tree.text("gitdir").rstrip("\n")
    common = os.path.realpath(os.path.join(tree.path, tree.text("commondir").rstrip("\n") or "."))
    if not back or os.path.realpath(os.path.join(tree.path, back)) != f"{project}/.git":
        return None
    if os.path.dirname(tree.path) != f"{common}/worktrees" or not _is_git_directory(common):
        return None
    return GitDirectory(common, os.path.dirname(os.path.dirname(shown)), tree.path, "", pointer)


def _submodule(tree: Opened, project: str, target: str, shown: str, pointer: SourceFile) -> GitDirectory | None:
    """The git directory of a submodule: its configuration names the project as its work tree."""
    text = tree.text("config")
    places = [setting.value for setting in parse_git_config(text) if setting.name == "core.worktree"]
    if not places or os.path.realpath(os.path.join(tree.path, places[-1])) != project:
        return None
    if tree.status("commondir") is not None or not _is_git_directory(tree.path):
        return None
    inside = plain(places[-1] if places[-1].startswith("/") else f"{shown}/{places[-1]}")
    ours = f"{text.rstrip()}\n[core]\n\tworktree = {target}\n"
    return GitDirectory(tree.path, shown, tree.path, "" if inside == target else ours, pointer)


def _is_git_directory(path: str) -> bool:
    with Tree(path) as tree:
        needed = (is_file(tree.status("HEAD")), is_file(tree.status("config")), is_directory(tree.status("objects")))
    return all(needed)
