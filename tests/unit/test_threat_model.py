"""The threat model names a test for each attempt and each limit, and each of them is there."""

from __future__ import annotations

import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


STOPPED, LIMITS = "## What is stopped", "## What is not"
# Of these no test can show anything.
WITHOUT = {"**time and load**"}
# What somebody has to be told of before they rely on this.
NEEDED = ("allowed", "CDN", "echoes", "proxy upstream", "replaced files", "the kernel")


def rows(title: str) -> list[list[str]]:
    """The cells of each row of the table below a title."""
    part = read("docs/threat-model.md").partition(f"{title}\n")[2].partition("\n## ")[0]
    table = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return table[1:]


def named(title: str) -> list[tuple[str, str]]:
    """Files and functions, row by row; a function alone is of the file before it."""
    found = []
    for cells in rows(title):
        tests = re.findall(r"`(?:(\w+)/(\w+): )?(\w+)`", cells[-1])
        assert tests or cells[0] in WITHOUT, f"no test: {cells[0]}"
        for folder, file, function in tests:
            path = f"tests/{folder}/test_{file}.py" if file else found[-1][0]
            found.append((path, f"test_{function}"))
    return found


@pytest.mark.parametrize(("title", "least"), [(STOPPED, 30), (LIMITS, 15)])
def test_each_row_has_a_test_that_exists(title: str, least: int) -> None:
    """What is stopped, and what is not: of that the test shows the limit itself, or what helps."""
    missing = [f"{path}: {name}" for path, name in named(title) if f"\ndef {name}(" not in read(path)]

    assert missing == []
    assert len(named(title)) >= least


def test_each_limit_has_what_it_means_and_what_helps() -> None:
    limits = {cells[0]: cells[1:] for cells in rows(LIMITS)}

    assert [name for name, cells in limits.items() if len(cells) != 3 or not all(cells)] == []
    assert [word for word in NEEDED if not any(word in name for name in limits)] == []
