"""
The record of what was trusted: one file a project, private, outside of every project.

It holds the contents themselves, so that a change can be shown.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.trust import PROJECT_FILES, changes, content_hash
from aisb.effects.safe_files import not_written
from aisb.effects.state import make_private, read_if_there, write_whole
from aisb.errors import Unavailable, Untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisb.domain.source_files import SourceFile
    from aisb.domain.trust import Change

_VERSION = 1


class Asked(NamedTuple):
    """What a person is asked about: the files as they were read, and how they differ from what was trusted."""

    project: str
    files: tuple[SourceFile, ...]
    changes: tuple[Change, ...]


def need_trust(
    project: str, state: str, files: Sequence[SourceFile], once: str, agrees: Callable[[Asked], bool] | None
) -> None:
    """
    Return where all of these files of the project may be read. Raises Untrusted otherwise.

    `once` is the hash that this very run may rely on, "" without one; `agrees` asks a person, None where there is none.
    """
    if once:
        _check_once(project, files, once)
        return
    found = changes(read_record(state, project), files)
    if not found:
        return
    asked = Asked(project, tuple(files), found)
    if agrees is None or not agrees(asked):
        raise untrusted(asked)
    write_record(state, project, files)


def untrusted(asked: Asked) -> Untrusted:
    """The refusal, with the command that asks about it."""
    return Untrusted(
        "; ".join(change.sentence() for change in asked.changes) + ": nobody has trusted this",
        hint=f"look at it and say so: {trust_command(asked)}\n"
        f"or, in a script that knows what is in it: --trust-once {content_hash(asked.files)}",
    )


def trust_command(asked: Asked) -> str:
    """The command that asks about it."""
    from shlex import join

    named = [file.name for file in asked.files if file.name not in PROJECT_FILES]
    return join(["aisb", "trust", "--project", asked.project, *named])


def _check_once(project: str, files: Sequence[SourceFile], once: str) -> None:
    if once != content_hash(files):
        raise Untrusted(
            f"--trust-once: the files of {project} are not those that were seen",
            hint=f"look at them; their hash now is {content_hash(files)}",
        )


def read_record(state: str, project: str) -> Mapping[str, str]:
    """
    The files that were trusted, by name; none where the project never was.

    Raises Unavailable for a record that cannot be read: that is no answer, and above all no trust.
    """
    path = record_path(state, project)
    try:
        data = read_if_there(path)
        return {} if data is None else _files_of(json.loads(data), project)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unavailable(
            f"{path}, the record of what was trusted, cannot be read", hint="forget it: aisb trust --revoke"
        ) from error


def _files_of(document: object, project: str) -> dict[str, str]:
    if not isinstance(document, dict) or (document["version"], document["project"]) != (_VERSION, project):
        raise ValueError("this is a record of something else")
    files = document["files"]
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ValueError("the files of a record are texts")
    return files


def write_record(state: str, project: str, files: Sequence[SourceFile]) -> None:
    """
    Remember these contents as trusted, beside what was trusted under other names.

    A file of `.ai-sandbox` that is not among them is gone, and forgotten.
    """
    kept = {name: text for name, text in read_record(state, project).items() if name not in PROJECT_FILES}
    _write(state, project, kept | {file.name: file.text for file in files})


def add_to_record(state: str, project: str, file: SourceFile) -> None:
    """Remember this one content, and change nothing else of what was trusted."""
    _write(state, project, {**read_record(state, project), file.name: file.text})


def forget_record(state: str, project: str) -> bool:
    """Trust nothing of the project any more. Returns whether something was trusted."""
    try:
        os.unlink(record_path(state, project))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _not_written(record_path(state, project), error) from error
    return True


def need_writable(state: str, project: str) -> None:
    """Raises Unavailable where nothing could be remembered: nobody writes a file then that nobody would trust."""
    path = record_path(state, project)
    directory = os.path.dirname(path)
    try:
        make_private(directory)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: str, error: OSError) -> Unavailable:
    return not_written(f"{path}, the record of what was trusted,", "written", error)


def record_path(state: str, project: str) -> str:
    """Where the record of a project lies; the project is a real path."""
    return f"{state}/trust/{hashlib.sha256(os.fsencode(project)).hexdigest()[:32]}.json"


def _write(state: str, project: str, files: Mapping[str, str]) -> None:
    path = record_path(state, project)
    need_writable(state, project)
    # ASCII on the disk: bytes that are no UTF-8 are in the text as escapes.
    data = json.dumps({"version": _VERSION, "project": project, "files": files}, indent=1).encode("ascii")
    try:
        write_whole(path, data)
    except OSError as error:
        raise _not_written(path, error) from error
