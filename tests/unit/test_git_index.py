"""Git's index read as bytes."""

from __future__ import annotations

import struct

import pytest

from aisb.domain.git_index import linked_paths

FILE, LINK = 0o100644, 0o160000
# Of a mode git looks at the kind alone.
ODD_LINK = 0xABCD_0000 | 0o160755


def index_of(entries: dict[str, int], version: int = 2, object_bytes: int = 20) -> bytes:
    """An index as gitformat-index(5) has it, each path with the mode of its entry."""
    data, before = struct.pack(">4sII", b"DIRC", version, len(entries)), b""
    for text, mode in entries.items():
        path = text.encode()
        # Times and numbers of the file that look like the mode of a link themselves.
        entry = b"\x00\x00\xe0\x00" * 6 + struct.pack(">4I", mode, 1000, 1000, 0) + b"\xe0" * object_bytes
        entry += struct.pack(">H", min(len(path), 0xFFF) | (0x4000 if version == 3 else 0))
        entry += b"\0\0" if version == 3 else b""
        if version == 4:
            data += entry + _compressed(before, path)
            before = path
        else:
            entry += path
            data += entry + b"\0" * (8 - len(entry) % 8)
    return data + b"TREE" + b"\xe0" * 44


def _compressed(before: bytes, path: bytes) -> bytes:
    common = 0
    while path[: common + 1] == before[: common + 1] != path:
        common += 1
    less = len(before) - common
    number = bytes([less & 0x7F])
    while less := less >> 7:
        less -= 1
        number = bytes([0x80 | (less & 0x7F)]) + number
    return number + path[common:] + b"\0"


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("object_bytes", [20, 32], ids=["sha1", "sha256"])
def test_every_entry_that_is_a_repository_is_found(version: int, object_bytes: int) -> None:
    long = "/".join(["directory"] * 409)
    entries = {"a": FILE, "b/c": LINK, "b/c.x": FILE, "d/e f/\N{SNOWMAN}": ODD_LINK, f"{long}/12345": LINK, "z": LINK}

    found = linked_paths(index_of(entries, version, object_bytes))

    assert {path for path, mode in entries.items() if mode != FILE} <= set(found)
    assert not {"a", "b/c.x"} & set(found)


def test_a_path_is_as_long_as_git_takes_it_for() -> None:
    """git does not look whether it is followed by what belongs there."""
    assert "lib/x" in linked_paths(index_of({"lib/x": LINK}).replace(b"lib/x\0\0\0", b"lib/xyyy"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"DIRC",
        struct.pack(">4sII", b"DIRC", 4, 2**32 - 1) + b"\0\0\xe0\0" * 500,
        index_of({"x": LINK}, 4)[:70],
        index_of({"../x": LINK, "/etc": LINK, "a//b": LINK, ".": LINK}),
    ],
    ids=["nothing", "cut off", "a count that is none", "cut off in a path", "paths that lead out"],
)
def test_what_is_no_index_names_nothing(data: bytes) -> None:
    assert [path for path in linked_paths(data) if path.isprintable()] == []
