"""A configuration file that was read: its name, and its bytes as text that can be kept, hashed and compared."""

from __future__ import annotations

from typing import NamedTuple


class SourceFile(NamedTuple):
    """
    One file, read once: what is hashed, shown, trusted and parsed are these bytes.

    `name` is how a person is told of it, and what origins begin with; a project's file is named from the project on.
    `text` is the bytes with those that are no UTF-8 escaped.
    """

    name: str
    text: str

    def data(self) -> bytes:
        """The bytes that were read."""
        return self.text.encode("utf-8", "surrogateescape")


def source_file(name: str, data: bytes) -> SourceFile:
    """The file of that name and content."""
    return SourceFile(name, data.decode("utf-8", "surrogateescape"))
