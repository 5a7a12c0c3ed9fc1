"""aisb's own words: on stderr, prefixed, and never with a control character of somebody else's in them."""

from __future__ import annotations

import os
import sys

from aisb.domain.printing import printable
from aisb.errors import Unwritable


def say(text: str) -> None:
    """One line to the person at the terminal."""
    for line in text.splitlines() or [""]:
        sys.stderr.write(f"aisb: {printable(line)}\n")
    sys.stderr.flush()


def answer(text: str) -> None:
    """
    What was asked for, on stdout and out of our hands when this returns.

    Raises Unwritable where it cannot be written, and BrokenPipeError where its reader left.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"stdout could not be written: {error.strerror}") from error


def write_stderr(text: str) -> None:
    """Text for the person at the terminal, at once and past every buffer: a signal's handler may call this."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(sys.stderr.fileno(), data) :]
