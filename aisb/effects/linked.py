"""
The repositories that another one's index names: submodules, and whatever an agent has put into an index.

git asks each for its status whenever it is asked for that of the outer one, however deep it lies, and obeys what is in
it. So none of them is too deep to be looked at.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.domain.git_index import linked_paths
from aisb.effects.repositories import named_git_directory
from aisb.effects.tree import DIRECTORY, is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.effects.tree import Tree

_LARGEST_INDEX = 64_000_000
_MOST_LINKS = 20_000
_MOST_MODULES = 3000
_LONGEST = 4096
_SHARED = "sharedindex."
_MOST_SHARED = 20


def linked_repositories(tree: Tree, repositories: Iterable[str]) -> tuple[list[str], bool]:
    """
    These repositories and what their indexes name, as far as it is one now, each by the path of its `.git`.

    False where there was more than is looked at.
    """
    pending = list(repositories)
    seen = dict.fromkeys(pending)
    looked_at = 0
    is_whole = True
    while pending and looked_at < _MOST_LINKS:
        entry = pending.pop()
        top = entry.rpartition("/")[0] if os.path.basename(entry) == ".git" else entry
        indexes = _indexes(tree, _git_directory(tree, entry))
        is_whole = is_whole and None not in indexes
        for path in (path for index in indexes for path in linked_paths(index or b"")):
            looked_at += 1
            below = os.path.join(top, path, ".git")
            if below not in seen and tree.status(below) is not None:
                seen[below] = None
                pending.append(below)
    return list(seen), is_whole and looked_at < _MOST_LINKS


def module_directories(tree: Tree, repositories: Iterable[str]) -> tuple[list[str], bool]:
    """
    The git directories that these repositories have for submodules, whether anything is checked out of them or not:
    `git submodule update` takes one that is there, with its hooks.

    False where there was more than is looked at.
    """
    pending = [(entry, True) for entry in repositories if os.path.basename(entry) in (".git", "")]
    found: list[str] = []
    looked_at = 0
    while pending and looked_at < _MOST_MODULES:
        directory, is_git = pending.pop()
        if is_git:
            # Each worktree has its own.
            worktrees = directories_in(tree, os.path.join(directory, "worktrees"))
            looked_at += len(worktrees)
            pending += [(os.path.join(place, "modules"), False) for place in (directory, *worktrees)]
            continue
        for path in directories_in(tree, directory):
            looked_at += 1
            is_one = tree.status(f"{path}/HEAD") is not None
            found += [path] if is_one else []
            pending += [(path, is_one)] if is_one or len(path) < _LONGEST else []
    return found, looked_at < _MOST_MODULES


def directories_in(tree: Tree, directory: str) -> list[str]:
    """The directories in one of the tree, by their paths."""
    found = (entry.name for entry in tree.entries(directory) if entry.kind == DIRECTORY)
    return [os.path.join(directory, name) for name in found]


def _git_directory(tree: Tree, entry: str) -> str | None:
    """Where the index is: there, or where a file says that is in the tree. None where it says something else."""
    if is_directory(tree.status(entry)) or not entry:
        return entry
    return named_git_directory(tree, entry)


def _indexes(tree: Tree, directory: str | None) -> list[bytes | None]:
    """The index of a git directory, and what it may be made up of. None for one that is too large."""
    if directory is None:
        return []
    shared = [entry.name for entry in tree.entries(directory) if entry.name.startswith(_SHARED)]
    paths = [os.path.join(directory, name) for name in ("index", *shared[:_MOST_SHARED])]
    return [tree.read(path, _LARGEST_INDEX) for path in paths if is_file(tree.status(path))]
