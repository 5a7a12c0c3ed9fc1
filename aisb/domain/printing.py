"""Somebody else's text, made fit for a terminal."""

from __future__ import annotations

import re
from shlex import quote

# Fillers, blank letters and selectors of variants, which count as printable.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")

_KILO = 1000


def printable(text: str) -> str:
    """The text with control characters, characters that cannot be seen and broken bytes made visible."""
    return "".join(character if _is_seen(character) else _escaped(character) for character in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() and not _UNSEEN.match(character)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shell_word(text: str) -> str:
    """
    The text as one word of a command that can be pasted into a shell, whatever is in it, bytes that are no text too.

    What a terminal should not get is in the form $'...', which bash, zsh and POSIX's sh of 2024 know.
    """
    return quote(text) if text == printable(text) else f"$'{''.join(map(_in_word, text))}'"


def _in_word(character: str) -> str:
    # Of an exclamation mark an interactive shell may make a line of its history.
    if character in "\\'!" or not _is_seen(character):
        return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
    return character


def size_text(count: int) -> str:
    """A number of bytes for people: `808.1 MB`."""
    if count < _KILO:
        return f"{count} B"
    number, units = float(count), ("kB", "MB", "GB", "TB")
    for unit in units:
        number /= _KILO
        if number < _KILO or unit == units[-1]:
            break
    return f"{number:.1f} {unit}"
