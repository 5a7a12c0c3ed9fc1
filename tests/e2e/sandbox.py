"""What the tests of sandboxes share: programs that run inside one or on its host, and what they report."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.e2e.lab import Lab, Result

_HERE = os.path.dirname(os.path.abspath(__file__))
REFUSED = "aisb: refused to run unprotected: "


def inside(name: str, kind: str = "py") -> str:
    """The text of a program that runs in a sandbox, for the stdin of a `python3 -` or a `sh`."""
    return _read(f"{_HERE}/inside/{name}.{kind}")


def outside(name: str) -> str:
    """The text of a program that runs on a host, as the account."""
    return _read(f"{_HERE}/outside/{name}.py")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def report_of(result: Result) -> Any:
    """What a program printed as JSON; its errors where it did not end well."""
    assert result.code == 0, result.errors
    return json.loads(result.stdout)


class Case(NamedTuple):
    """A command on a host, and what it finds there: files below the home, variables (None takes one away)."""

    argv: Sequence[str]
    files: Mapping[str, str] = {}
    variables: Mapping[str, str | None] = {}
    stdin: str = ""
    cwd: str = ""


class Ended(NamedTuple):
    """How it ended, and the files that are new in the project."""

    code: int
    stdout: str
    stderr: str
    new: list[str]

    @property
    def refusal(self) -> str:
        """Why the run was refused: the last line, without the value that was expected."""
        last = self.stderr.splitlines()[-1] if self.stderr else ""
        return last.removeprefix(REFUSED).partition(" instead of ")[0] if last.startswith(REFUSED) else self.stderr


def run_cases(lab: Lab, cases: Iterable[Case], timeout: float = 200) -> list[Ended]:
    """Run cases one after the other, in one call of the laboratory."""
    text = json.dumps([case._asdict() for case in cases])
    result = lab.run("python3 -", stdin=outside("cases").encode(), env={"CASES": text}, timeout=timeout)
    return [Ended(*item) for item in report_of(result)]


def other_than(value: object, found: Mapping[str, object]) -> dict[str, object]:
    """The entries that do not have the one value which nearly all have."""
    return {name: item for name, item in found.items() if item != value}
