"""What is said at the end of a run about files that the host may run, with the command that undoes it."""

from __future__ import annotations

from posixpath import join
from typing import TYPE_CHECKING

from aisb.domain.printing import printable, shell_word
from aisb.render.shield import MOST, some

if TYPE_CHECKING:
    from aisb.domain.file_changes import Changed, FileReport, NewRepository


MOST_EVENTS = MOST
_CROWDED = (
    "has more files now than are looked through: repositories and other files that may be run can be new in it, and are"
    " not told here"
)


def file_lines(report: FileReport, project: str) -> list[str]:
    """What changed that is protected, what new repositories hold, and what else may be run and has changed."""
    return [
        *(_protected(changed) for changed in report.protected[:MOST]),
        *_and_more(len(report.protected), "protected paths"),
        *(_repository(found, project) for found in report.repositories[:MOST]),
        *_and_more(len(report.repositories), "repositories"),
        *map(_attempt, report.attempts),
        *_runnable(report),
        *(f"warning: {shell_word(directory)} {_CROWDED}" for directory in report.crowded),
    ]


def warns(report: FileReport) -> bool:
    """Whether something is to be said however quiet the run is to be."""
    return bool(report.protected or report.repositories or report.crowded)


def undo_of_new(path: str, *, is_directory: bool) -> str:
    """The command that takes away what was not there before."""
    return f"rm {'-r ' if is_directory else ''}{_word(path)}"


def _word(path: str) -> str:
    # What begins with - would be a flag.
    return shell_word(f"./{path}" if path.startswith("-") else path)


def _protected(changed: Changed) -> str:
    path = _word(changed.path)
    if not changed.was_there:
        undo = undo_of_new(changed.path, is_directory=changed.is_directory)
        return f"warning: {path} has appeared, and this machine may run what it says; to undo it: {undo}"
    what = "has changed" if changed.is_there else "is gone"
    first = f"warning: {path}, which is protected, {what} during this run, by somebody here or from inside"
    # What is there now may be a link, and is not to be written through.
    undo = f"cp --remove-destination {shell_word(changed.kept)} {path}"
    return f"{first}; to undo it: {undo}" if changed.kept else f"{first}: look at it"


def _repository(found: NewRepository, project: str) -> str:
    hooks = [f"the hooks {', '.join(found.hooks)}"] if found.hooks else []
    holds = "; ".join([*found.settings, *hooks])[:500]
    place = join(project, found.path).rstrip("/")
    # A directory that holds a repository beside other things, which may be the user's.
    is_bare = not place.endswith("/.git")
    undo = f"rm {shell_word(f'{place}/HEAD')}" if is_bare else f"rm -rf {shell_word(place)}"
    first = f"warning: {shell_word(place)} is {'a repository, which is new' if is_bare else 'new'}"
    return f"{first}, and git on this machine obeys what is in it: {printable(holds)}; to undo it: {undo}"


def _attempt(path: str) -> str:
    first = f"something inside tried to write {printable(path)}, which is protected"
    # The repository of a worktree is not the project's to free.
    is_beside = path.startswith("/")
    return f"{first} and no part of the project" if is_beside else f"{first}; to let it: --unprotect {shell_word(path)}"


def _runnable(report: FileReport) -> list[str]:
    if not report.runnable:
        return []
    shown = [f"{path} (new)" if what == "new" else path for path, what in report.runnable]
    return [f"changed, and may be run on this machine: {some(shown)}"]


def _and_more(count: int, what: str) -> list[str]:
    return [f"... and {count - MOST} other {what}"] if count > MOST else []
