"""The threat model names a test for each attempt, and each of them is there."""

from __future__ import annotations

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def named() -> list[tuple[str, str]]:
    """Files and functions, row by row of the table of what is stopped; a function alone is of the file before it."""
    table = read("docs/threat-model.md").partition("## What is stopped")[2].partition("## What is not")[0]
    found = []
    for row in (line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| attempt")):
        cell = row.split("|")[3]
        tests = re.findall(r"`(?:(\w+)/(\w+): )?(\w+)`", cell)
        assert tests, f"no test: {row[:60]}"
        for folder, file, function in tests:
            path = f"tests/{folder}/test_{file}.py" if file else found[-1][0]
            found.append((path, f"test_{function}"))
    return found


def test_each_attempt_has_a_test_that_exists() -> None:
    missing = [f"{path}: {name}" for path, name in named() if f"\ndef {name}(" not in read(path)]

    assert missing == []
    assert len(named()) > 30
