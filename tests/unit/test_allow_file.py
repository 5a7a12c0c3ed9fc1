"""`.ai-sandbox/allow`."""

from __future__ import annotations

import pytest

from aisb.domain.allow_file import parse_allow_file
from aisb.errors import UsageError

NAME = ".ai-sandbox/allow"
MEANT = (("a.test", f"{NAME}:1"), ("b.test:5432", f"{NAME}:3"), ("GET c.test/x#y", f"{NAME}:4"))


@pytest.mark.parametrize(
    "data",
    [
        b"a.test\n\nb.test:5432\nGET c.test/x#y\n",
        b"a.test\n\nb.test:5432\nGET c.test/x#y",
        b"a.test\r\n\r\nb.test:5432\r\nGET c.test/x#y\r\n",
        b"a.test\r\rb.test:5432\rGET c.test/x#y\r",
        b"\xef\xbb\xbfa.test\n\nb.test:5432\nGET c.test/x#y\n",
        b"a.test # the model\n#b.test\nb.test:5432\t# and # more\n  GET c.test/x#y\n # end",
        b"\ta.test  \n \t \nb.test:5432 \n\tGET c.test/x#y \n",
    ],
    ids=["plain", "no end", "CRLF", "CR", "mark", "comments", "blanks"],
)
def test_one_entry_a_line_however_the_line_is_written(data: bytes) -> None:
    """(C04)"""
    assert parse_allow_file(data, NAME) == MEANT


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"\xef\xbb\xbf"])
def test_a_file_without_entries_has_none(data: bytes) -> None:
    assert parse_allow_file(data, NAME) == ()


def test_what_an_entry_means_is_for_its_own_parser() -> None:
    """A comma, a word too many or a # inside a word is handed on as it stands."""
    data = b"a.test, b.test\na.test#x\n5,000\n"

    assert [text for text, _ in parse_allow_file(data, NAME)] == ["a.test, b.test", "a.test#x", "5,000"]


def test_five_thousand_lines_keep_their_numbers() -> None:
    data = b"".join(b"x%d.test\n" % number for number in range(1, 5001))

    assert parse_allow_file(data, NAME)[4999] == ("x5000.test", f"{NAME}:5000")


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("a.test\n".encode("utf-16"), 1),
        (b"\xfe\xff\0a", 1),
        (b"a.test\r\nm\xfcnchen.test\n", 2),
        (b"\xef\xbb\xbfa.test\n\n\xe9", 3),
        (b"a.test\nb\0.test\n", 2),
        (b"a.test\n\n\x1b[2J", 3),
        ("a.test\nb\u202e.test".encode(), 2),
        ("a.test\n\n\nb\u200b.test".encode(), 4),
    ],
)
def test_what_is_no_plain_text_is_an_error_at_its_line(data: bytes, line: int) -> None:
    """Never "no entries" (C04)."""
    with pytest.raises(UsageError) as caught:
        parse_allow_file(data, NAME)
    assert caught.value.message.startswith(f"{NAME}:{line}: ")
    assert caught.value.hint == "save the file as plain UTF-8 text"
