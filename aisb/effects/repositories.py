"""What the repositories of a project have the host run, as their configuration names it. No git is started for it."""

from __future__ import annotations

import os
import pwd
import stat
from typing import TYPE_CHECKING

from aisb.domain.git_config import parse_git_config, program_names
from aisb.domain.protected import (
    FILE,
    OF_A_GIT_DIRECTORY,
    OF_A_WORKTREE,
    Protected,
    below,
    included_in,
    named_in,
    plain,
    relative_to,
)
from aisb.effects.tree import DIRECTORY, LARGEST, MOST_NAMES, is_closed, is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aisb.domain.git_config import Setting
    from aisb.effects.tree import Tree

# Far above what people have. An agent makes as many as it likes, and each one that counts is a mount or two.
_MOST_DIRECTORIES = 500
_MOST_LOOKED_INTO = 3000
_MOST_BYTES = 16_000_000
# With thousands of branches it may be a large one.
_LARGEST_CONFIG = 4_000_000
_MOST_NAMED = 5000
# No program opens what has a longer path.
_LONGEST = 4096
_POINTER = "gitdir: "


class Repositories:
    """
    Finds what is protected for the sake of git in one tree.

    `left_out` is what was not looked into, because there is too much: what git obeys there is not among what was found.
    `closed` is what cannot be looked into by us, and may be opened inside.
    """

    def __init__(self, tree: Tree, home: str) -> None:
        self._tree = tree
        self._home = home
        self._seen: set[tuple[str, str]] = set()
        self._read: dict[str, tuple[Setting, ...]] = {}
        self._tops: dict[str, None] = {}
        self._known: set[str] = set()
        self._directories = 0
        self._looked_into = 0
        self._bytes = 0
        self._named_paths = 0
        self.left_out: list[str] = []
        self.closed: list[str] = []

    def of(self, entries: Iterable[str]) -> list[Protected]:
        """
        For each entry `.git`: its paths if it is a git directory, itself if it is the file that names one.

        An entry of another name is a repository without a work tree.
        """
        return [item for entry in entries for item in self._of_entry(entry)]

    def _of_entry(self, entry: str) -> Iterator[Protected]:
        if entry.rpartition("/")[2] != ".git":
            yield from self.of_git_directory(entry, self._absolute(entry))
        elif is_directory(self._tree.status(entry)):
            yield from self.of_git_directory(entry, self._absolute(entry.rpartition("/")[0]))
        else:
            yield Protected(entry, FILE)
            top = self._absolute(entry.rpartition("/")[0])
            place = named_git_directory(self._tree, entry)
            if place and is_directory(self._tree.status(place)):
                yield from self.of_git_directory(place, top)
            elif place:
                # One that is made there is obeyed by then, and no file named `.git` is new.
                yield Protected(f"{place}/HEAD", FILE)
            yield from self._of_work_tree(self._directories_for(top, self._tree.text(entry)), top)

    def of_git_directory(self, directory: str, top: str) -> Iterator[Protected]:
        """The paths of a git directory, whose work tree is at `top`, of its modules and of its worktrees."""
        if directory in self._known:
            return
        self._known.add(directory)
        self._directories += 1
        if self._directories > _MOST_DIRECTORIES:
            self.left_out.append(directory)
            return
        yield from below(directory, OF_A_GIT_DIRECTORY)
        for place in dict.fromkeys((top, self._top_of_module(directory, top))):
            yield from self._of_work_tree([self._absolute(directory)], place)
        yield from self._of_worktrees(directory, top)
        yield from self._of_modules(_join(directory, "modules"), top)

    def _of_work_tree(self, directories: Iterable[str], top: str) -> Iterator[Protected]:
        """What a work tree has git run in it, by the configuration in these directories, wherever they are."""
        if self._is_there(top):
            self._tops[top] = None
        for directory in directories:
            for name in ("config", "config.worktree"):
                yield from self._named(f"{directory}/{name}", top)

    def of_user(self, files: Iterable[str], top: str) -> list[Protected]:
        """What the user's own configuration names in this tree, and its files where they lie in it themselves."""
        own = (relative_to(os.path.realpath(path), self._tree.path) for path in files)
        named = (item for path in files for item in self._named(path, top))
        # Relative paths mean each repository's own. What is not there yet is watched for in the first alone.
        others = [place for place in self._tops if place != top]
        inner = (item for place in others for path in files for item in self._named(path, place, is_there=True))
        return [*(Protected(path, FILE) for path in own if path), *named, *inner]

    def of_enclosing(self) -> Iterator[Protected]:
        """What repositories that begin above the tree have the host run in it."""
        top = os.path.dirname(self._tree.path)
        while top != "/":
            place = f"{top}/.git"
            directories = [place] if os.path.isdir(place) else self._directories_for(top, _text_outside(place))
            for path in (f"{directory}/{name}" for directory in directories for name in ("config", "config.worktree")):
                yield from self._named(path, top)
            top = os.path.dirname(top)

    def _of_worktrees(self, directory: str, top: str) -> Iterator[Protected]:
        """Each of them obeys the configuration of all, in which relative paths mean its own."""
        for path in self._directories_in(_join(directory, "worktrees")):
            yield from below(path, OF_A_WORKTREE)
            own = self._top_of_worktree(path) or top
            if own != top and (place := self._tree.place_of(f"{own}/.git")):
                yield Protected(place, FILE)
            # Of one that is gone, nothing is to be made: that it came back is told.
            if self._is_there(own):
                yield from self._of_work_tree([self._absolute(path), self._absolute(directory)], own)
            yield from self._of_modules(f"{path}/modules", own)

    def _is_there(self, top: str) -> bool:
        """Whether a work tree is, as far as it is in this tree."""
        place = self._tree.place_of(top)
        return not place or is_directory(self._tree.status(place))

    def _top_of_worktree(self, directory: str) -> str:
        """As it says itself, "" where it does not."""
        named = self._tree.text(f"{directory}/gitdir").rstrip("\r\n")
        return os.path.dirname(plain(os.path.join(self._absolute(directory), named))) if named else ""

    def _directories_for(self, top: str, pointer: str) -> list[str]:
        """The git directory that a file `.git` in a work tree names, and the one that has the rest; none of another."""
        if not pointer.startswith(_POINTER):
            return []
        own = plain(os.path.join(top, pointer.removeprefix(_POINTER).rstrip("\r\n")))
        return [own, plain(os.path.join(own, self._text(f"{own}/commondir")[0].rstrip("\r\n")))]

    def _of_modules(self, directory: str, top: str) -> Iterator[Protected]:
        """A module's name may have slashes, and be of several directories."""
        pending = [directory]
        while pending:
            for path in self._directories_in(pending.pop()):
                if self._tree.status(f"{path}/HEAD") is not None:
                    yield from self.of_git_directory(path, self._top_of_module(path, top))
                elif len(path) < _LONGEST:
                    pending.append(path)

    def _directories_in(self, directory: str) -> Iterator[str]:
        if is_closed(self._tree.status(directory)):
            self.closed.append(directory)
        entries = self._tree.entries(directory)
        if len(entries) >= MOST_NAMES:
            self.left_out.append(directory)
        for entry in entries:
            if entry.kind == DIRECTORY:
                self._looked_into += 1
                if self._looked_into > _MOST_LOOKED_INTO:
                    self.left_out.append(directory)
                    return
                yield f"{directory}/{entry.name}"

    def _top_of_module(self, directory: str, top: str) -> str:
        settings = parse_git_config(self._tree.text(f"{directory}/config"))
        found = [setting.value for setting in settings if setting.name == "core.worktree"]
        return plain(os.path.join(self._absolute(directory), found[-1])) if found else top

    def _named(self, file: str, top: str, *, is_there: bool = False) -> Iterator[Protected]:
        """
        What a configuration file names in this tree, and what the files name that it includes.

        With `is_there` no file that is not there.
        """
        pending = [file]
        while pending:
            path = pending.pop()
            if (path, top) in self._seen:
                continue
            self._seen.add((path, top))
            settings = self._settings(path)
            pending += included_in(settings, file=path, home_of=self._home_of)
            for item in self._named_by(settings, path, top):
                if is_there and item.kind == FILE and self._tree.status(item.path) is None:
                    continue
                self._named_paths += 1
                if self._named_paths > _MOST_NAMED:
                    self.left_out.append(relative_to(path, self._tree.path) or path)
                    return
                yield item

    def _named_by(self, settings: tuple[Setting, ...], file: str, top: str) -> Iterator[Protected]:
        for item in named_in(settings, file=file, top=top, home_of=self._home_of):
            if place := self._tree.place_of(item.path):
                yield Protected(place, item.kind)
        for name in dict.fromkeys(program_names(settings)):
            place = self._tree.place_of(f"{top}/{name}")
            if place and is_file(self._tree.status(place)):
                yield Protected(place, FILE)

    def _home_of(self, name: str) -> str:
        try:
            return pwd.getpwnam(name).pw_dir if name else self._home
        except KeyError:
            return ""

    def _settings(self, path: str) -> tuple[Setting, ...]:
        """Of a file, read once whatever it is asked for."""
        if path not in self._read:
            text, is_large = self._text(path)
            self._bytes += len(text)
            is_large = is_large or self._bytes > _MOST_BYTES
            if is_large:
                self.left_out.append(self._tree.place_of(path) or path)
            self._read[path] = () if is_large else parse_git_config(text)
        return self._read[path]

    def _text(self, path: str) -> tuple[str, bool]:
        """A file's text, "" where there is none, and whether it is too large."""
        place = self._tree.place_of(path)
        if not place:
            return _text_outside(path), False
        behind = self._tree.leads_to(place)
        status = self._tree.status(behind)
        is_large = status is not None and is_file(status) and status.st_size > _LARGEST_CONFIG
        return _text_in(self._tree, behind), is_large

    def _absolute(self, path: str) -> str:
        return f"{self._tree.path}/{path}" if path else self._tree.path


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory and name else directory or name


def named_git_directory(tree: Tree, entry: str) -> str | None:
    """The git directory that a file `.git` names, where that is in the tree; None where it is not."""
    text = tree.text(entry)
    if not text.startswith(_POINTER):
        return None
    named = text.removeprefix(_POINTER).rstrip("\r\n")
    place = named if named.startswith("/") else f"{tree.path}/{os.path.dirname(entry)}/{named}"
    return tree.place_of(plain(place)) or None


def _text_in(tree: Tree, path: str) -> str:
    return (tree.read(path, _LARGEST_CONFIG) or b"").decode("utf-8", "surrogateescape")


def _text_outside(path: str) -> str:
    """A file of the user's own, where no agent writes; "" for what is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return (file.read(LARGEST) or b"").decode("utf-8", "surrogateescape")


def user_git_files(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where the user's own configuration of git may be."""
    home = environ.get("HOME", "")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return (f"{home}/.gitconfig", f"{config}/git/config")
