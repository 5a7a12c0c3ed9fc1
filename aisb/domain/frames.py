"""
The frames of a session (docs/session-protocol.md): two lengths, a JSON header, raw bytes.

Both sides of the sandbox's wall read them with this: nothing is kept of a frame that is longer than it may be, and a
header is strict JSON. The sandbox's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import struct

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HEADER_BYTES = 1 << 20
MOST_BODY_BYTES = 1 << 20
MOST_NUMBER = (1 << 53) - 1
_LEAST_HEADER_BYTES = 2
_DEEPEST = 16
_LENGTHS = struct.Struct(">II")
_LENGTH = struct.Struct(">I")


class Malformed(ValueError):
    """What came is no frame: what follows it cannot be read either."""


class Frame:
    """A header, and the bytes that belong to it."""

    __slots__ = ("body", "header")

    def __init__(self, header: dict[str, object], body: bytes = b"") -> None:
        self.header = header
        self.body = body

    def __eq__(self, other: object) -> bool:
        """Whether both say the same."""
        return isinstance(other, Frame) and (self.header, self.body) == (other.header, other.body)

    __hash__ = None  # type: ignore[assignment]  # as of every value that can change

    def __repr__(self) -> str:
        """For a failed test."""
        return f"Frame({self.header!r}, {self.body!r})"


def head_of(header: dict[str, object], body_bytes: int) -> bytes:
    """All of a frame but its body. Raises ValueError for one that may not be sent."""
    # A lone surrogate becomes the escape that JSON has for it; all else is no longer than it came.
    text = _ENCODER.encode(header).encode("utf-8", "backslashreplace")
    if len(text) > MOST_HEADER_BYTES or body_bytes > MOST_BODY_BYTES:
        raise ValueError("a frame is longer than it may be")
    return _LENGTHS.pack(len(text), body_bytes) + text


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    return head_of(frame.header, len(frame.body)) + frame.body


class Reader:
    """Takes bytes as they come, and gives the frames that are whole. Never holds more than one frame and a piece."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def missing(self) -> int:
        """How many bytes of a frame whose beginning has come are still to come."""
        if len(self._buffer) < _LENGTHS.size:
            return 0
        header_bytes, body_bytes = _LENGTHS.unpack_from(self._buffer)
        return int(_LENGTHS.size + header_bytes + body_bytes - len(self._buffer))

    def feed(self, data: bytes) -> Iterator[Frame]:
        """
        The frames that are whole now. Raises Malformed, also in the middle of them.

        To be gone through to its end before the next bytes.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _LENGTHS.size:
                header_bytes, body_bytes = _LENGTHS.unpack_from(buffer, start)
                check_lengths(header_bytes, body_bytes)
                header_end = start + _LENGTHS.size + header_bytes
                end = header_end + body_bytes
                if len(buffer) < end:
                    break
                with memoryview(buffer) as view:
                    text, body = bytes(view[start + _LENGTHS.size : header_end]), bytes(view[header_end:end])
                start = end
                yield Frame(parse_header(text), body)
            if len(buffer) - start >= _LENGTH.size:
                # Words of something else are known by their first bytes: nobody waits for more of them.
                check_lengths(_LENGTH.unpack_from(buffer, start)[0], 0)
        finally:
            del buffer[:start]


def check_lengths(header_bytes: int, body_bytes: int) -> None:
    """Raise Malformed where no frame is so long, or so short."""
    if not _LEAST_HEADER_BYTES <= header_bytes <= MOST_HEADER_BYTES:
        raise Malformed(f"a header of {header_bytes} bytes")
    if body_bytes > MOST_BODY_BYTES:
        raise Malformed(f"a body of {body_bytes} bytes")


def parse_header(text: bytes) -> dict[str, object]:
    """A JSON object. Raises Malformed for anything else, and for what JSON readers do not agree about."""
    found = _parsed(text)
    if not isinstance(found, dict):
        raise Malformed("a header that is no object")
    return found


def parse_list(text: bytes) -> list[object]:
    """A JSON list, as strictly."""
    found = _parsed(text)
    if not isinstance(found, list):
        raise Malformed("a body that is no list")
    return found


def _parsed(text: bytes) -> object:
    try:
        found = _DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"this is no JSON: {error}") from error
    _check_depth(found)
    return found


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for found in level
            if isinstance(found, dict | list)
            for item in (found.values() if isinstance(found, dict) else found)
        ]
        if not level:
            return
    raise Malformed("JSON that is nested too deep")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _number(text: str) -> int:
    # No longer than a number may be: longer ones take a while to read.
    number = int(text) if len(text) <= len(str(-MOST_NUMBER)) else MOST_NUMBER + 1
    if abs(number) > MOST_NUMBER:
        raise ValueError("a number is too large")
    return number


def _fraction(text: str) -> float:
    number = float(text)
    if not -MOST_NUMBER <= number <= MOST_NUMBER:
        raise ValueError("a number is too large")
    return number


def _constant(text: str) -> object:
    raise ValueError(f"{text} is no number")


_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False, ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_int=_number, parse_float=_fraction, parse_constant=_constant, strict=True
)
