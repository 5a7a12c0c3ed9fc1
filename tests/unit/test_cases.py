"""Of what people have met with tools in sandboxes, each kind has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PRACTICE = "B01 B02 B04 B05 B08 B09 B11 B12 B14 B17 B18 B19 B21 B23 B24 B25 B26 B27 B30 B31 B32 B34 B36 B38 B39 B40 B42 B45 B46 B48 B49 B50"
_RANGE = re.compile(r"B(\d\d)-B(\d\d)")


def named(text: str) -> set[str]:
    """The cases that a test's words name, `B17-B19` for a row of them."""
    rows = {f"B{number:02}" for first, last in _RANGE.findall(text) for number in range(int(first), int(last) + 1)}
    return rows | set(re.findall(r"\bB\d\d\b", text))


def test_each_case_of_practice_is_named_by_a_test() -> None:
    """In what a test says of itself."""
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name]

    assert set(PRACTICE.split()) - set().union(*map(named, texts)) == set()
