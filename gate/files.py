"""Files of the bridge's that others read."""

from __future__ import annotations

import os


def write_whole(path: str, data: bytes) -> None:
    """Write a file that everybody may read, there whole or not at all, and follow no link."""
    new = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(new, flags, 0o644), "wb") as file:
        file.write(data)
    os.replace(new, path)
