"""docs/troubleshooting.md has a row for every sentence that aisb refuses with, and none for one that it does not say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sentences import CLASSES, USAGE, sentences

PAGE = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text()


def rows(code: int) -> dict[str, list[str]]:
    """The sentences below the title of an exit code, each with its other cells."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(f"{code}: ")]
    lines = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return {first: rest for first, *rest in cells if first != "aisb says"}


@pytest.mark.parametrize("code", [1, 69, 70, 77, 78])
def test_every_refusal_has_a_row_and_every_row_is_a_refusal(code: int) -> None:
    """A new one is not to be had without its cause and what to do."""
    said = {sentence.text for sentence in sentences() if sentence.code == code}
    # Two sentences that begin with what could not be done; what follows is the gate's.
    said |= (
        {"… is not allowed in run …: …", "that … is denied in run … could not be proved: …"} if code == 69 else set()
    )
    # What a call of the kernel's ended with, in the proof.
    said |= {"…: …"} if code == 77 else set()

    assert set(rows(code)) == said


def test_what_is_said_of_the_command_line_is_still_said() -> None:
    said = {sentence.text for sentence in sentences(USAGE)}

    assert set(rows(2)) - said == set()


def test_every_row_has_a_cause_and_something_to_do() -> None:
    lacking = [
        text
        for code in (1, 2, 69, 70, 77, 78)
        for text, rest in rows(code).items()
        if len(list(filter(None, rest))) != 2
    ]

    assert lacking == []


def test_the_sentences_are_found_in_the_code() -> None:
    """Of each class there is one at least: a reader that finds nothing would ask for no row."""
    assert {sentence.code for sentence in sentences()} == {1, 69, 70, 77, 78}
    assert len(sentences(CLASSES)) > 90
    assert len(sentences(USAGE)) > 150
