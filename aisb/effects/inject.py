"""Secrets of a run: taken out of what goes into the sandbox, and into what its own gate is handed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.inject_flag import git_variables, refuse_elsewhere, secrets_of
from aisb.domain.injection import secrets_json, unpack_secrets

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from aisb.domain.inject_flag import Injected

# Of each directory that is mounted; larger files and more of them take longer than a start may.
_LARGEST = 64 * 1024
_MOST_FILES = 300


class Prepared(NamedTuple):
    """The variables of the sandbox with placeholders in them, and what its gate is handed in memory."""

    variables: dict[bytes, bytes]
    secrets: bytes


def prepare(
    injections: Sequence[Injected],
    variables: Mapping[bytes, bytes],
    environ: Mapping[bytes, bytes],
    command: Sequence[str],
) -> Prepared:
    """
    Take the values of what is injected out of `variables`; one that is not there is the caller's own.

    Raises UsageError where a value is not set, is no token, or stands in another variable or the command as well.
    """
    values = {
        item.variable: found
        for item in injections
        if (found := variables.get(os.fsencode(item.variable), environ.get(os.fsencode(item.variable)))) is not None
    }
    secrets, placeholders = secrets_of(injections, values, os.urandom)
    inside = {**git_variables(injections), **variables, **placeholders}
    places = {f"the variable {os.fsdecode(name)}": value for name, value in inside.items()}
    refuse_elsewhere(secrets, places | {"the command": "\0".join(command).encode("utf-8", "surrogateescape")})
    return Prepared(inside, secrets_json(secrets))


def refuse_inside(secrets: bytes, variables: Mapping[bytes, bytes], files: Mapping[str, str]) -> None:
    """
    Raise UsageError where a value that is injected stands in a variable of the command, whoever set it, or in a file
    that is put into its home: the host's pi may have the same value under another name.
    """
    places = {f"the variable {os.fsdecode(name)}": value for name, value in variables.items()}
    texts = {f"~/{path}": text.encode("utf-8", "surrogateescape") for path, text in files.items()}
    refuse_elsewhere(unpack_secrets(secrets), places | texts)


def refuse_in_mounts(secrets: bytes, mounts: Iterable[str], masked: Container[str]) -> None:
    """
    Raise UsageError where a value that is injected stands in a file that is mounted, or lies directly in a directory
    that is, or configures its repository: a remote's address may hold a token. What is `masked` reads as empty.

    This is the look that a start has time for, and no proof that the value is nowhere else.
    """
    values = unpack_secrets(secrets) if secrets else ()
    if not values:
        return
    for path in (path for mount in mounts for path in _files_of(mount) if path not in masked):
        refuse_elsewhere(values, {path: _beginning(path)}, "take it out of there, or mask the file (--mask NAME)")


def _files_of(mount: str) -> Iterator[str]:
    if not os.path.isdir(mount):
        yield mount
        return
    yield f"{mount}/.git/config"
    with suppress(OSError), os.scandir(mount) as entries:
        yield from (entry.path for entry in islice(entries, _MOST_FILES) if entry.is_file(follow_symlinks=False))


def _beginning(path: str) -> bytes:
    """What a regular file begins with; nothing of anything else, and of what cannot be read."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return os.read(descriptor, _LARGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        finally:
            os.close(descriptor)
    return b""
