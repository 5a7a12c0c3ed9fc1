"""aisb's own words: on stderr, prefixed, and never with a control character of somebody else's in them."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One line to the person at the terminal."""
    for line in text.splitlines() or [""]:
        sys.stderr.write(f"aisb: {printable(line)}\n")
    sys.stderr.flush()


def write_stderr(text: str) -> None:
    """Text for the person at the terminal, at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


def printable(text: str) -> str:
    """The text with control characters and broken bytes made visible."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
