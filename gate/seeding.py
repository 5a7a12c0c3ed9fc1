"""
Files that the sandbox's user is to find in the home: written there by the launcher, as that user, following no link.

Each is one of a pair. What the host has comes anew with every run; what was edited inside stays. Beside the files lies
a copy of what was last written, so that the two can be told apart. It is the agent's to change, as the files are: all
that it can spoil is its own configuration.
"""

from __future__ import annotations

import os
import stat

LONGEST = 4 << 20
COPIES = ".aisb"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

NEW = "new"
SAME = "same"
EDITED = "edited"
BOTH = "both"


class Unseedable(Exception):
    """Why a file cannot be put where it belongs, in one sentence."""


def outcome(wanted: bytes, there: bytes | None, before: bytes | None) -> str:
    """
    What becomes of a file: written (`new`), as it is to be (`same`), or left alone because it was edited inside
    (`edited`), also where the host has another version since (`both`).
    """
    if there == wanted:
        return SAME
    if there is None or there == before:
        return NEW
    return EDITED if wanted == before else BOTH


def seed(home: str, directory: str, name: str, wanted: bytes) -> str:
    """Put `wanted` at home/directory/name, mode 0600, and say what became of it. Raises Unseedable."""
    place = _open_below(home, directory)
    try:
        copies = _open_below(home, f"{directory}/{COPIES}")
        try:
            there = _read(place, name)
            result = outcome(wanted, there, _read(copies, name))
            if result == NEW:
                _write(place, name, wanted)
            elif there is not None and not _is_private(place, name):
                _write(place, name, there)
            if result in (NEW, SAME):
                _write(copies, name, wanted)
        finally:
            os.close(copies)
    except OSError as error:
        raise Unseedable(f"{directory}/{name} in the home: {error.strerror}") from error
    finally:
        os.close(place)
    return result


def _open_below(home: str, directory: str) -> int:
    """A descriptor of the directory, each part of the way opened by itself and made where it is missing."""
    descriptor = os.open(home, _DIRECTORY)
    for part in directory.split("/"):
        try:
            inner = _enter(descriptor, part)
        except OSError as error:
            what = "no directory" if error.errno in _NO_DIRECTORY else error.strerror
            raise Unseedable(f"{directory} in the home: {part} is {what}") from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


# A link is ELOOP or ENOTDIR, by the kernel's version.
_NO_DIRECTORY = frozenset({20, 40})


def _enter(descriptor: int, part: str) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=descriptor)
    except FileNotFoundError:
        os.mkdir(part, 0o700, dir_fd=descriptor)
        return os.open(part, _DIRECTORY, dir_fd=descriptor)


def _read(directory: int, name: str) -> bytes | None:
    """The content of a plain file; None where there is none, or something else, which is not looked into."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        parts = []
        left = LONGEST + 1
        while left and (part := os.read(file, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(file)


def _is_private(directory: int, name: str) -> bool:
    """Whether a file has this one name, and is its owner's alone."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return status.st_nlink == 1 and stat.S_IMODE(status.st_mode) == 0o600


def _write(directory: int, name: str, data: bytes) -> None:
    """Write a file that is there whole or not at all, in the place of a link, a pipe or whatever was put there."""
    # Not by the process's number: every sandbox that shares the home has the same, and what was killed left it there.
    new = f"{name}.{os.urandom(6).hex()}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(new, dir_fd=directory)
        raise
    finally:
        os.close(file)
