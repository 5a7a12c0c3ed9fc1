"""Memory files: for what is to be handed to a program and to be written nowhere."""

from __future__ import annotations

import fcntl
import os


def sealed(data: bytes) -> int:
    """A memory file with `data` that nobody can change any more."""
    descriptor = os.memfd_create("aisb-variables", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(
        descriptor,
        fcntl.F_ADD_SEALS,
        fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE,
    )
    return descriptor
