"""
Git's index read as bytes, for one thing: which of its entries are other repositories, whose status git asks for.

More is taken for such an entry here than git would take, and no less: whoever asks looks whether there is something.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# gitformat-index(5): a header of three numbers, then for each entry times and numbers of its file, its mode, ...
_HEADER = struct.Struct(">4sII")
_MODE_AT = 24
# ... owner, group and size, the name of its object, by either hash, and its flags with the length of the path.
_AFTER_MODE = 16
_HASHES = (20, 32)
_FLAGS = struct.Struct(">H")
_EXTENDED = 0x4000
_LENGTH = 0x0FFF
# An entry begins at a multiple of eight behind the header. Of its mode git looks at four bits, which are these for what
# is another repository; they are the upper half of the third byte.
_STEP = 8
_KIND_AT = (_HEADER.size + _MODE_AT + 2) % _STEP
_KINDS = re.compile(rb"[\xe0-\xef]")
# Since this version a path is what is left of the one before it, and what follows; and nothing is at a multiple.
_COMPRESSED = 4
_LONGEST = 4096


def linked_paths(index: bytes) -> list[str]:
    """The paths of entries that are repositories of their own, from the top of the work tree on."""
    if len(index) < _HEADER.size:
        return []
    _, version, count = _HEADER.unpack_from(index)
    names = (name for size in _HASHES for name in _names(index, version, count, size))
    return [path.decode("utf-8", "surrogateescape") for path in dict.fromkeys(names) if _is_path(path)]


def _is_path(name: bytes) -> bool:
    return all(part not in (b"", b".", b"..") for part in name.split(b"/"))


def _names(index: bytes, version: int, count: int, size: int) -> Iterator[bytes]:
    if version >= _COMPRESSED:
        yield from _compressed_names(index, count, size)
        return
    for found in _KINDS.finditer(index[_KIND_AT::_STEP]):
        flags_at = found.start() * _STEP + _KIND_AT - 2 + _AFTER_MODE + size
        start, length = _after_flags(index, flags_at)
        # git takes as many bytes, whatever follows. It looks for the end of a path only where that can be longer.
        end = start + length if length < _LENGTH else index.find(b"\0", start, start + _LONGEST)
        if start and b"\0" not in index[start:end]:
            yield index[start:end]


def _compressed_names(index: bytes, count: int, size: int) -> Iterator[bytes]:
    at, name = _HEADER.size, b""
    for _ in range(count):
        is_link = _KINDS.match(index, at + _MODE_AT + 2) is not None
        start, _ = _after_flags(index, at + _MODE_AT + _AFTER_MODE + size)
        less, start = _number(index, start) if start else (0, 0)
        end = index.find(b"\0", start)
        if not start or end < 0:
            return
        name = name[: max(0, len(name) - less)] + index[start:end]
        if is_link:
            yield name
        at = end + 1


def _after_flags(index: bytes, at: int) -> tuple[int, int]:
    """Where the flags end that begin there, 0 where they do not; and the length in them."""
    if at + _FLAGS.size > len(index):
        return 0, 0
    (flags,) = _FLAGS.unpack_from(index, at)
    return at + _FLAGS.size * (2 if flags & _EXTENDED else 1), flags & _LENGTH


def _number(index: bytes, at: int) -> tuple[int, int]:
    """A number of git's own encoding, and where it ends; 0 for that where it does not."""
    value = -1
    while at < len(index):
        byte = index[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return value, at
        if value > len(index):
            break
    return 0, 0
