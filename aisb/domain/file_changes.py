"""What became of files that the host may run, as it is told at the end of a run."""

from __future__ import annotations

from typing import NamedTuple


class Changed(NamedTuple):
    """A protected path that is not what it was. `kept` is a copy of what was there, "" without one."""

    path: str
    was_there: bool
    is_there: bool
    is_directory: bool
    kept: str


class NewRepository(NamedTuple):
    """A git directory that is new, and what in it the host's git would run."""

    path: str
    settings: tuple[str, ...]
    hooks: tuple[str, ...]


class FileReport(NamedTuple):
    """
    All that is to be said about files at the end of a run. `runnable` has a path and the word for what it is. Paths are
    from the project on, and whole where they are in another directory that could be written.

    `attempts` are protected files that something inside tried to write: from the project on, or whole paths of what is
    not in it. `crowded` are directories with more to look through than is, and was not before.
    """

    protected: tuple[Changed, ...] = ()
    runnable: tuple[tuple[str, str], ...] = ()
    repositories: tuple[NewRepository, ...] = ()
    attempts: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    crowded: tuple[str, ...] = ()
