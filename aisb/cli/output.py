"""aisb's own words: on stderr, prefixed, and never with a control character of somebody else's in them."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aisb.domain.printing import printable
from aisb.errors import Unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator


def say(text: str) -> None:
    """One line to the person at the terminal, or several. Of what divides lines only a line feed does so here."""
    for line in text.removesuffix("\n").split("\n"):
        sys.stderr.write(f"aisb: {printable(line)}\n")
    sys.stderr.flush()


def colour() -> bool:
    """Whether an answer may have colours: on a terminal whose user has not said no (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def answer(text: str) -> None:
    """
    What was asked for, on stdout and out of our hands when this returns.

    Raises Unwritable where it cannot be written, and BrokenPipeError where its reader left.
    """
    answer_some(text)
    with _out():
        sys.stdout.flush()


def answer_some(text: str) -> None:
    """A part of an answer that `answer` ends. Raises like that."""
    with _out():
        sys.stdout.write(text)


@contextmanager
def _out() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"stdout could not be written: {error.strerror}") from error


def write_stderr(text: str) -> None:
    """Text for the person at the terminal, at once and past every buffer: a signal's handler may call this."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(sys.stderr.fileno(), data) :]
