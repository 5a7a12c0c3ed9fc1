"""Where a proposed list goes: a file that somebody named, and the one beside a project's allow list."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from aisb.domain.trust import PROPOSED_FILE
from aisb.effects.safe_files import need_outside_of_homes, open_for_writing, place_in_project, replace_in_project
from aisb.errors import Unavailable, UsageError


def open_output(path: str, project: str, volumes: str) -> int:
    """
    A descriptor to write the list to, opened before the run: where a path leads must not be the agent's to decide.

    Nor an earlier one's: raises Untrusted for a path that leads through the project, or through the homes of
    sandboxes, to somewhere else. Raises UsageError for what cannot be written.
    """
    descriptor = _open_output(path, project, volumes)
    # The low numbers are for what podman hands on.
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def _open_output(path: str, project: str, volumes: str) -> int:
    need_outside_of_homes(path, volumes, "--output")
    if place := place_in_project(path, project, "--output"):
        return open_for_writing(project, place)
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"--output {path}: {error.strerror}", hint="name a file that you can write") from error


def write_output(descriptor: int, text: str) -> None:
    """Put the list in the place of what the file held. Raises Unavailable where it cannot be written."""
    try:
        # A pipe and a terminal have nothing to cut off.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Unavailable(f"--output: the list could not be written: {error.strerror}") from error


def save_proposed(project: str, text: str) -> str:
    """
    Write `.ai-sandbox/allow.proposed`, and return its path. It is read by nobody.

    The project was an agent's to write until now: no link is followed. Raises UsageError and Unavailable.
    """
    replace_in_project(project, PROPOSED_FILE, text.encode())
    return f"{project}/{PROPOSED_FILE}"
