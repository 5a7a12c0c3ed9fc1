"""
Directories that a project did not have, made so that there is something to mount over, and removed by its last run.

Two files of aisb's own state go with a project: whoever makes or removes holds `lock` for that moment; each run, and
its podman, holds `held` for as long as it lives. What was made is written down before it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from aisb.effects.state import make_private, read_if_there
from aisb.effects.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_AGAIN_SECONDS = 0.02
# What is remembered of a project, of each kind, and of how many projects: 10 MB if an agent does its worst.
_MOST_PATHS = 300
_MOST_PROJECTS = 200
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class Claim:
    """A run's part in what was made in its project."""

    def __init__(self, state: str, project: str) -> None:
        self.project = project
        # The directory itself: it may be renamed meanwhile, and another one take its place.
        self._root = _directory(project)
        self._record = f"{make_private(f'{state}/made')}/{_key(project)}"
        self._lock = os.open(f"{self._record}.lock", _OPEN, 0o600)
        self.held = os.open(f"{self._record}.held", _OPEN, 0o600)
        self._is_released = False

    def take(self) -> None:
        """Begin: from now on nothing of it is removed. What a run that was killed has left is removed first."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._remove_if_last()
        fcntl.flock(self.held, fcntl.LOCK_SH)
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def make(self, tree: Tree, directories: Iterable[str]) -> list[str]:
        """Make directories that are missing, the outer ones first. Returns those that could be made."""
        wanted = list(directories)
        if not wanted:
            return []
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._write([*self._made(), *wanted])
        made = [path for path in wanted if tree.make(path)]
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        return made

    def seen_before(self, found: dict[str, list[str]], is_there: Callable[[str], bool]) -> dict[str, list[str]]:
        """
        What was found, and what earlier runs of the project had found: whoever writes a project can hide things from a
        look through it, in a crowd, or in what is passed over.

        Of each kind 300 paths are remembered. No crowd pushes out what is known already and there.
        """
        path = f"{self._record}.seen"
        before = _lists(read_if_there(path))
        if not before and not any(found.values()):
            return found
        together = _together(found, before, is_there)
        if together == before:
            # The one that was of use last is forgotten last.
            os.utime(path)
            return together
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        _replace(path, json.dumps(together).encode("ascii"))
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        _forget_oldest(os.path.dirname(path))
        return together

    def release(self) -> None:
        """End, and remove what was made if this was the last run; nothing the second time."""
        if self._is_released:
            return
        self._is_released = True
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._remove_if_last()
        self._close()

    def remove_if_unused(self, patience: float) -> None:
        """Remove what was made and nobody uses any more; nothing where somebody is about to."""
        deadline = time.monotonic() + patience
        with suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while not self._remove_if_last() and time.monotonic() < deadline:
                time.sleep(_AGAIN_SECONDS)
        self._close()

    def _close(self) -> None:
        for descriptor in (self.held, self._lock, *(() if self._root is None else (self._root,))):
            os.close(descriptor)

    def _remove_if_last(self) -> bool:
        """Whether nothing is left of it."""
        made = self._made()
        if not made:
            return True
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if self._root is not None:
            # What is not empty any more is somebody's.
            with suppress(OSError), Tree(".", self._root) as tree:
                for path in sorted(made, reverse=True):
                    tree.remove(path)
        os.unlink(f"{self._record}.json")
        return True

    def _write(self, made: list[str]) -> None:
        _replace(f"{self._record}.json", _document(self.project, made))

    def _made(self) -> list[str]:
        return _made(read_if_there(f"{self._record}.json"))[1]


def seen_before(
    state: str, project: str, found: dict[str, list[str]], is_there: Callable[[str], bool]
) -> dict[str, list[str]]:
    """The same as a claim's, for a preview: nothing is written down."""
    return _together(found, _lists(read_if_there(f"{state}/made/{_key(project)}.seen")), is_there)


def remove_left_over(state: str, patience: float = 0) -> None:
    """Remove what runs of any project have left that were killed together with all that looks after them."""
    directory = f"{state}/made"
    with suppress(FileNotFoundError):
        for name in os.listdir(directory):
            if name.endswith(".json"):
                project, _ = _made(read_if_there(f"{directory}/{name}"))
                if project and name == f"{_key(project)}.json":
                    Claim(state, project).remove_if_unused(patience)


def _directory(path: str) -> int | None:
    try:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def _together(
    found: dict[str, list[str]], before: dict[str, list[str]], is_there: Callable[[str], bool]
) -> dict[str, list[str]]:
    return {key: _remembered(paths, before.get(key, []), is_there) for key, paths in found.items()}


def _remembered(found: list[str], before: list[str], is_there: Callable[[str], bool]) -> list[str]:
    """What is to be remembered, what is known and there before what is new, and what is gone last: it may come back."""
    known = [path for path in before if is_there(path)]
    return list(dict.fromkeys((*known, *found, *before)))[:_MOST_PATHS]


def _forget_oldest(directory: str) -> None:
    """Of more projects than are remembered, what was found in those that had no run for the longest time."""
    times = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".seen"):
                with suppress(FileNotFoundError):
                    times[entry.path] = entry.stat().st_mtime_ns
    for path in sorted(times, key=times.__getitem__)[:-_MOST_PROJECTS]:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _replace(path: str, data: bytes) -> None:
    """Write a file whole. Nobody else writes it meanwhile, and a start has no time for more."""
    with open(f"{path}.new", "wb") as file:
        file.write(data)
    os.rename(f"{path}.new", path)


def _lists(data: bytes | None) -> dict[str, list[str]]:
    try:
        return {str(key): [str(path) for path in paths] for key, paths in json.loads(data or b"{}").items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _key(project: str) -> str:
    return hashlib.sha256(os.fsencode(project)).hexdigest()[:32]


def _document(project: str, directories: list[str]) -> bytes:
    return json.dumps({"project": project, "directories": list(dict.fromkeys(directories))}).encode("ascii")


def _made(data: bytes | None) -> tuple[str, list[str]]:
    """The project of a record and what was made in it; nothing where it cannot be read."""
    try:
        document = json.loads(data or b"{}")
        return str(document["project"]), [str(path) for path in document["directories"]]
    except (ValueError, KeyError, TypeError):
        return "", []
