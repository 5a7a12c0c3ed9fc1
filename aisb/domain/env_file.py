"""
A file of variables: one dialect, and an error with its line for everything else.

    # a comment has a line of its own
    AI_API_TOKEN=everything up to the end of the line, = and " and ' included
    GREETING='as it stands, a line break too'
    KEY="-----BEGIN KEY-----\\nline\\n-----END KEY-----"

Between double quotes `\\n`, `\\r`, `\\t`, `\\"` and `\\\\` mean one character each, and nothing is ever expanded. A
value without quotes does not begin with one, has no blank at either end, and no ` #` in it: other programs read each
of these in their own way.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from aisb.domain.variables import Given, refuse_own
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BOM = b"\xef\xbb\xbf"
_START = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)=")
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
_ESCAPE = re.compile(rb"\\(.?)", re.DOTALL)
# A quote and all up to its end; what follows is looked at by the caller.
_SINGLE = re.compile(rb"'([^']*)'")
_DOUBLE = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_FORM = "write: NAME=VALUE, each on a line of its own; what cannot stand there goes between quotes: NAME='VALUE'"


def parse_env_file(data: bytes, name: str) -> tuple[Given, ...]:
    """
    The variables of the file, in its order. Raises UsageError with `name:line`, and never with a value.
    """
    if data.startswith(_BOM):
        raise _refused(name, 1, "the file begins with a byte order mark", "save it as plain text, without one")
    found: dict[str, Given] = {}
    for item in _items(data, name):
        if item.name in found:
            raise _refused(
                item.origin, 0, f"{item.name} stands there twice", f"leave one of the two out: {item.origin}"
            )
        found[item.name] = item
    return tuple(found.values())


def digest_lines(given: Iterable[Given]) -> str:
    """
    What a person may be shown of a file of variables, and what stands for it in a record: names, lengths and hashes.

    Another value makes another text.
    """
    return "".join(f"{item.name} ({len(item.value)} bytes, sha256 {_hash(item.value)})\n" for item in given)


def _hash(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def _items(data: bytes, name: str) -> Iterator[Given]:
    position, line = 0, 1
    while position < len(data):
        end = _line_end(data, position)
        text = data[position:end]
        if not text.strip(b" \t") or text.lstrip(b" \t").startswith(b"#"):
            position, line = end + 1, line + 1
            continue
        start = _START.match(data, position)
        if start is None:
            raise _refused(name, line, _what_is_wrong(text), _FORM)
        value, after = _value(data, start.end(), name, line)
        variable = start[1].decode("ascii")
        refuse_own(variable, f"{name}:{line}:")
        if b"\0" in value:
            raise _refused(
                name, line, f"the value of {variable} holds a NUL byte, which no variable can", "take it out"
            )
        yield Given(variable, f"{name}:{line}", f"{name}:{line}:", value=value)
        line += data.count(b"\n", position, after) + 1
        position = after + 1


def _line_end(data: bytes, position: int) -> int:
    end = data.find(b"\n", position)
    return len(data) if end < 0 else end


def _value(data: bytes, position: int, name: str, line: int) -> tuple[bytes, int]:
    """The value that begins there, and where its last line ends."""
    quote = data[position : position + 1]
    if quote not in (b"'", b'"'):
        end = _line_end(data, position)
        return _plain(data[position:end], name, line), end
    match = (_SINGLE if quote == b"'" else _DOUBLE).match(data, position)
    if match is None:
        raise _refused(name, line, f"the quote {quote.decode()} that begins here does not end", _FORM)
    end = _line_end(data, match.end())
    if end != match.end():
        last = line + data.count(b"\n", position, match.end())
        raise _refused(name, last, "something follows the closing quote", "end the line there; a comment has its own")
    return match[1] if quote == b"'" else _unescaped(match[1], name, line), end


def _plain(value: bytes, name: str, line: int) -> bytes:
    if value.endswith(b"\r"):
        raise _refused(name, line, "the line ends with a carriage return", "save the file with the line ends of Unix")
    if value != value.strip(b" \t"):
        raise _refused(name, line, "there is a blank at an end of the value", _FORM)
    if re.search(rb"[ \t]#", value):
        raise _refused(name, line, "a # after a blank is part of the value here, and elsewhere not", _FORM)
    return value


def _unescaped(text: bytes, name: str, line: int) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        if match[1] not in _ESCAPES:
            shown = match[0].decode("latin-1")
            where = line + text.count(b"\n", 0, match.start())
            raise _refused(
                name, where, f"{shown!r} means nothing here", 'write \\\\ for a backslash; known are \\n \\r \\t \\"'
            )
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(one, text)


def _what_is_wrong(text: bytes) -> str:
    # Nothing of the line is shown: it may be the end of a value.
    if text.lstrip().startswith(b"export "):
        return "'export' is a shell's word"
    if b"=" not in text:
        return "a variable without a value; the host's own goes in by --env NAME"
    return "what stands before = is not the name of a variable, or a blank stands beside it"


def _refused(name: str, line: int, why: str, hint: str) -> UsageError:
    return UsageError(f"{name}:{line}: {why}" if line else f"{name}: {why}", hint=hint)
