"""
Paths of requests: which form is judged at all, what a server may read in it, and patterns.

Rules compare text, so a path counts only in a form that every server takes for the same place. The gate's
image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PATH = 4096

_VISIBLE = re.compile(r"/[!-~]*")
_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED = re.compile(rb"%([0-9A-Fa-f]{2})")
# Up to these a server may read a path, and drop the rest: parameters, a query that was encoded, a fragment. A
# backslash is a slash to some.
_NEVER = re.compile(r"[;?#\\]")
# What needs no encoding is encoded only to be overlooked. A slash and a percent sign are read as such by servers
# that decode before they split, or twice; the rest is as above, moves cursors, or ends strings.
_NEVER_ENCODED = re.compile(rb"[A-Za-z0-9._~/%;?#\\\x00-\x1f\x7f-]")
# Look like slashes, and become one in some code pages.
_SLASHES = frozenset("\N{FRACTION SLASH}\N{DIVISION SLASH}\N{SET MINUS}\N{REVERSE SOLIDUS OPERATOR}\N{BIG SOLIDUS}")

# In this there is nothing to encode.
_PLAIN = re.compile(r"[A-Za-z0-9._~/-]*")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# What programs leave as it is in a path when they encode it, besides letters, digits and -._~/: nothing more, what
# encodeURIComponent leaves, and all that may stand there.
_LEFT = (b"", b"!*'()", b"!$&'()*+,:=@")
# Of one path it is asked several times in a row.
_REMEMBERED = 8

# A segment that ends in what is dropped there.
_HAS_LOOSE_END = re.compile(r"[. ](?:/|\Z)")


def without_query(target: str) -> str:
    """The path of a request's target: what comes before the first question mark."""
    return target.partition("?")[0]


def form_fault(path: str) -> str:
    """
    What is wrong with the form of a path (without its query), "" where it is canonical.

    A canonical path leads to the same place whoever reads it, however often it is decoded, and whatever is
    stripped from it: nothing in it goes up, is skipped, or turns into another path.
    """
    if not _VISIBLE.fullmatch(path) or len(path) > LONGEST_PATH:
        return f"a path begins with / and is at most {LONGEST_PATH} printable ASCII characters"
    if _NEVER.search(path):
        return "there is a semicolon, a # or a backslash, of which servers think differently"
    if _BROKEN_PERCENT.search(path):
        return "a percent sign is not followed by two hex digits"
    if "%" not in path:
        return _fault_of_segments(path)
    if any(_NEVER_ENCODED.match(_byte(match)) for match in _ENCODED.finditer(path.encode())):
        return "a character is encoded that needs no encoding, or must not appear"
    return _fault_of_decoded(path) or _fault_of_segments(path)


def _decoded(path: str) -> str:
    return _ENCODED.sub(_byte, path.encode()).decode() if "%" in path else path


def _byte(encoded: re.Match[bytes]) -> bytes:
    return bytes([int(encoded[1], 16)])


def _fault_of_decoded(path: str) -> str:
    try:
        decoded = _decoded(path)
    except UnicodeDecodeError:
        return "what is encoded is not UTF-8"
    if any(_is_misleading(char) for char in decoded if not char.isascii()):
        return "a character is invisible, or another way to write one of ASCII"
    return ""


def _is_misleading(char: str) -> bool:
    folded = unicodedata.normalize("NFKC", char)
    return not char.isprintable() or char in _SLASHES or any(part.isascii() for part in folded)


def _fault_of_segments(path: str) -> str:
    if "//" in path:
        return "there are two slashes in a row"
    decoded = _decoded(path)
    if not _HAS_LOOSE_END.search(decoded):
        return ""
    if any(segment and not _trimmed(segment) for segment in decoded.split("/")):
        return "a segment is made of nothing but dots and blanks"
    return ""


@lru_cache(maxsize=_REMEMBERED)
def readings(path: str) -> tuple[str, ...]:
    """
    A canonical path as it came, and in every other spelling that a server may take for the same.

    Decoded; with the digits of what is encoded in either case; encoded as widespread programs do it; each of these
    without the dots and blanks that Windows drops at the end of a name, and with accents joined to letters or not.
    """
    if _PLAIN.fullmatch(path) and not _HAS_LOOSE_END.search(path):
        # As nearly all are.
        return (path,)
    decoded = _decoded(path)
    written = dict.fromkeys((path, decoded, _trimmed(path), _trimmed(decoded)))
    digits = (_ESCAPE.sub(lambda match: match[0].upper(), path), _ESCAPE.sub(lambda match: match[0].lower(), path))
    meant = dict.fromkeys(form for text in (decoded, _trimmed(decoded)) for form in _composed(text))
    return tuple(dict.fromkeys((*written, *digits, *meant, *(other for text in meant for other in _encoded(text)))))


def _composed(text: str) -> tuple[str, ...]:
    return (text,) if text.isascii() else (text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD")))


def _encoded(text: str) -> Iterator[str]:
    data = text.encode()
    return ("".join([table[byte] for byte in data]) for table in _encoders())


@cache
def _encoders() -> tuple[tuple[str, ...], ...]:
    """Each byte as such a program writes it, with its digits in either case."""
    return tuple(
        tuple(chr(byte) if _PLAIN.fullmatch(chr(byte)) or byte in left else form % byte for byte in range(256))
        for left in _LEFT
        for form in ("%%%02X", "%%%02x")
    )


def _trimmed(path: str) -> str:
    return "/".join(segment.rstrip(". ") for segment in path.split("/"))


def glob_fault(pattern: str) -> str:
    """What is wrong with the path pattern of a method and path entry, "" where nothing is."""
    if "?" in pattern:
        return "the query is no part of a path"
    *segments, last = pattern.split("/")
    if any("**" in segment for segment in segments) or ("**" in last and last != "**"):
        return "** stands for any rest, as the last segment of a path"
    return form_fault(pattern)


def glob_regex(pattern: str) -> str:
    """A path pattern as an expression for re.fullmatch: `*` is one segment or a part of one, `**` any rest."""
    *segments, last = pattern.split("/")
    return "/".join([*map(_segment_regex, segments), ".*" if last == "**" else _segment_regex(last)])


def _segment_regex(segment: str) -> str:
    if segment == "*":
        return "[^/]+"
    return "[^/]*".join(re.sub(r"[.^$+{}\[\]|()]", r"\\\g<0>", part) for part in segment.split("*"))
