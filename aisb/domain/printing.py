"""Somebody else's text, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters, characters that cannot be seen and broken bytes made visible."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
