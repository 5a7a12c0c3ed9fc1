"""How a file differs from what was trusted, for a person to judge: every line of it, and nothing that can hide."""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import unified_diff
from typing import TYPE_CHECKING

from aisb.domain.entries import a_label
from aisb.domain.hosts import canonical_name
from aisb.domain.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.domain.trust import Change

# What the parsers take for the end of a line: a carriage return must not put an entry behind a comment.
_LINE_END = re.compile("\r\n?|\n")
# What may be a host's name.
_WORD = re.compile(r"[^\s,:/@=*#\"'\[\]{}]+")
# What stands between its labels, in every alphabet that has a dot of its own.
_DOTS = frozenset(".\u3002\uff0e\uff61")
_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
_PLAIN = "\x1b[0m"


def difference(changes: Iterable[Change], *, colour: bool) -> str:
    """All changes as a unified difference; of a new or lost file every line."""
    return "".join(f"{line}\n" for change in changes for line in _of_file(change, colour=colour))


def _of_file(change: Change, *, colour: bool) -> Iterator[str]:
    yield printable(change.sentence())
    # Compared as they are: two lines that look alike are two.
    for raw in list(unified_diff(_lines(change.old), _lines(change.new), lineterm=""))[2:]:
        line = printable(raw)
        yield f"{_COLOURS[line[0]]}{line}{_PLAIN}" if colour and line[0] in _COLOURS else line
        if not raw.isascii():
            yield from _names_in_ascii(raw[1:])


def _names_in_ascii(line: str) -> Iterator[str]:
    """What the names in a line are on the wire: letters of other alphabets, and some of ours, look like others."""
    for word in dict.fromkeys(_WORD.findall(line)):
        # A word at the end of a sentence is none.
        if word.isascii() or _DOTS.isdisjoint(word[:-1]):
            continue
        with suppress(ValueError):
            yield f"? {printable(word)} is {canonical_name(a_label(word))}"


def _lines(text: str | None) -> list[str]:
    lines = _LINE_END.split(text or "")
    # The end of the last line begins no other one.
    return lines if lines[-1] else lines[:-1]
