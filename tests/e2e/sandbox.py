"""What the tests of sandboxes share: a program that runs inside one, and what it reports."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab, Result

_PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside")


def program(name: str) -> bytes:
    """The text of a program in tests/e2e/inside, for the stdin of a `python3 -`."""
    with open(f"{_PROGRAMS}/{name}.py", "rb") as file:
        return file.read()


def report_of(result: Result) -> Any:
    """What a program printed as JSON; its errors where it did not end well."""
    assert result.code == 0, result.errors
    return json.loads(result.stdout)


def run_inside(lab: Lab, flags: str, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
    """The report of a program that ran as the command of a sandbox."""
    return report_of(lab.run(f"aisb {flags} -- python3 - {' '.join(arguments)}", stdin=program(name), env=env))


def other_than(value: object, found: Mapping[str, object]) -> dict[str, object]:
    """The entries that do not have the one value which nearly all have."""
    return {name: item for name, item in found.items() if item != value}
