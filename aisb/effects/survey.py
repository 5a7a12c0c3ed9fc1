"""A bounded look through the upper levels of a project: repositories, secrets, sockets, and what may be run."""

from __future__ import annotations

import stat
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.host_files import DIRECTORIES, OF_A_REPOSITORY, OF_AN_ENVIRONMENT, is_of_tools, may_be_run
from aisb.domain.masks import is_environment_file, may_be_key
from aisb.domain.protected import of_other_repository
from aisb.effects.linked import directories_in, linked_repositories, module_directories
from aisb.effects.tree import DIRECTORY, FILE, MOST_NAMES, OTHER, Entry, is_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.effects.tree import Tree

# The project's own directory is the first level.
LEVELS = 3
MOST_ENTRIES = 5000
_MOST_RUNNABLE = 2000
_MOST_STAMPS = 20_000
_PASSED_OVER = frozenset({".ai-sandbox", ".git", "node_modules", "__pycache__"})
_ENVIRONMENT = "pyvenv.cfg"
_MARKS = frozenset({".git", "HEAD", "objects", "refs", "commondir", _ENVIRONMENT})


class Survey(NamedTuple):
    """
    What was found, each by its path from the project on.

    `paths` is everything in the levels that count, `runnable` has for each file what changes when the file does.
    Where there was more than the bound, `is_whole` is False. `is_git` says that the directory is one of git's alone.
    """

    repositories: tuple[str, ...]
    secrets: tuple[str, ...]
    keys: tuple[str, ...]
    sockets: tuple[str, ...]
    paths: tuple[str, ...]
    runnable: dict[str, str]
    is_whole: bool
    is_git: bool = False


NOTHING_SEEN = Survey((), (), (), (), (), {}, is_whole=True)


class _Walk:
    """The state of one look."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.left = MOST_ENTRIES
        self.paths: list[str] = []
        self.directories: list[str] = []
        self.repositories: list[str] = []
        self.files: list[str] = []
        self.others: list[str] = []
        self.environments: list[str] = []
        # Of a virtual environment: no secrets, and not to be masked by a name.
        self.inner_files: list[str] = []

    def levels(self) -> None:
        """One level after the other, so that what is left out where there is too much is what lies deepest."""
        level = [("", False)]
        for _ in range(LEVELS):
            level = [found for directory, is_inner in level for found in self._in(directory, is_inner=is_inner)]

    def _in(self, directory: str, *, is_inner: bool) -> Iterator[tuple[str, bool]]:
        if self.left <= 0:
            return
        entries = self._entries(directory)
        self.left -= len(entries)
        if any(entry.name == _ENVIRONMENT for entry in entries):
            self.environments.append(directory)
            is_inner = True
        if _is_bare({entry.name for entry in entries}):
            self.repositories.append(directory)
        for entry in entries:
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.name == ".git":
                self.repositories.append(path)
            else:
                self._take(entry, path, is_inner=is_inner)
                if entry.kind == DIRECTORY and entry.name not in _PASSED_OVER:
                    yield path, is_inner

    def _entries(self, directory: str) -> list[Entry]:
        """Of a directory with more than are listed, what a repository or an environment is known by is among them."""
        entries = self.tree.entries(directory)
        if len(entries) < MOST_NAMES:
            return entries
        missing = _MARKS - {entry.name for entry in entries}
        found = [(name, self.tree.status(f"{directory}/{name}" if directory else name)) for name in sorted(missing)]
        there = [(name, DIRECTORY if is_directory(status) else FILE) for name, status in found if status]
        return [*entries, *(Entry(name, kind) for name, kind in there)]

    def _take(self, entry: Entry, path: str, *, is_inner: bool) -> None:
        if not is_inner or entry.name == _ENVIRONMENT:
            self.paths.append(path)
        if entry.kind == DIRECTORY:
            self.directories.append(path)
        elif entry.kind == OTHER:
            self.others.append(path)
        else:
            (self.inner_files if is_inner else self.files).append(path)


def _is_bare(names: set[str]) -> bool:
    """Whether a directory is what git takes for a repository, whatever its own name is."""
    return "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)


def survey(tree: Tree) -> Survey:
    """Look through the first levels of a project, without those of git, of node_modules and of virtual environments."""
    walk = _Walk(tree)
    walk.levels()
    names = [(path, path.rpartition("/")[2]) for path in walk.files]
    runnable = [path for path in (*walk.files, *walk.inner_files) if may_be_run(path.rpartition("/")[2])]
    linked, are_all = linked_repositories(tree, walk.repositories)
    modules, are_all_modules = module_directories(tree, linked)
    return Survey(
        repositories=(*linked, *modules),
        secrets=tuple(path for path, name in names if is_environment_file(name)),
        keys=tuple(path for path, name in names if may_be_key(name)),
        sockets=tuple(path for path in walk.others if _is_socket(tree, path)),
        paths=tuple(walk.paths),
        runnable=_stamps(walk, runnable, [*linked, *modules]),
        is_whole=walk.left > 0 and are_all and are_all_modules,
    )


def survey_of_git(tree: Tree) -> Survey:
    """Of a directory of git's own, which has its work tree elsewhere."""
    modules, is_whole = module_directories(tree, [""])
    runnable = stamps_of(tree, islice(_of_repositories(tree, ["", *modules]), _MOST_STAMPS))
    return Survey((*modules,), (), (), (), (), runnable, is_whole, is_git=True)


def _is_socket(tree: Tree, path: str) -> bool:
    status = tree.status(path)
    return status is not None and stat.S_ISSOCK(status.st_mode)


def _of_repositories(tree: Tree, repositories: list[str]) -> Iterator[str]:
    for place in repositories:
        worktrees = directories_in(tree, f"{place}/worktrees" if place else "worktrees")
        for directory in (place, *worktrees):
            yield from (f"{directory}/{name}" if directory else name for name in OF_A_REPOSITORY)


def stamps_of(tree: Tree, paths: Iterable[str]) -> dict[str, str]:
    """For each file that is there what changes when it does."""
    return {path: stamp for path in paths if (stamp := stamp_of(tree, path))}


def _stamps(walk: _Walk, paths: list[str], repositories: list[str]) -> dict[str, str]:
    own = [f"{place}/{name}" if place else name for place in walk.environments for name in OF_AN_ENVIRONMENT]
    below = [path for path in walk.directories if "/" in path and is_of_tools(path)]
    inner = [f"{path}/.bin" for path in walk.directories if path.endswith("/node_modules")]
    found = dict.fromkeys(paths)
    for directory in dict.fromkeys((*DIRECTORIES, *below, *inner, *own)):
        found |= dict.fromkeys(_files_in(walk.tree, directory, depth=2))
    found |= dict.fromkeys(item.path for path in walk.directories for item in of_other_repository(path))
    found |= dict.fromkeys(islice(_of_repositories(walk.tree, repositories), _MOST_STAMPS))
    return stamps_of(walk.tree, list(found)[:_MOST_STAMPS])


def _files_in(tree: Tree, directory: str, depth: int) -> Iterator[str]:
    for entry in tree.entries(directory)[:_MOST_RUNNABLE]:
        path = f"{directory}/{entry.name}"
        if entry.kind != DIRECTORY:
            yield path
        elif depth > 1:
            yield from _files_in(tree, path, depth - 1)


def stamp_of(tree: Tree, path: str) -> str:
    """What changes when a file does, "" where there is none. Nobody without privilege sets the time of a change."""
    status = tree.status(path)
    return f"{status.st_ino} {status.st_mode} {status.st_size} {status.st_ctime_ns}" if status else ""
