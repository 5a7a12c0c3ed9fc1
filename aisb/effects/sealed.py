"""Memory files: for what is to be handed to a program and to be written nowhere."""

from __future__ import annotations

import fcntl
import os

from aisb.errors import Unavailable

_NAME = "aisb-variables"


def sealed(data: bytes) -> int:
    """A memory file with `data` that nobody can change any more."""
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(
        descriptor,
        fcntl.F_ADD_SEALS,
        fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE,
    )
    return descriptor


def sealed_by(process: int, descriptor: int) -> bytes:
    """
    What another process of this user has in such a file, which it has open under that number.

    Raises Unavailable where it has none any more.
    """
    path = f"/proc/{process}/fd/{descriptor}"
    try:
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):
            raise FileNotFoundError
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError as error:
        said = "what the run's command was given is not to be had: the run is about to end"
        raise Unavailable(said, hint="see what runs: aisb ps") from error
