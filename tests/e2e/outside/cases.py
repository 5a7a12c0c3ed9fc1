"""
Runs on a host, as the account: several commands, each with files and variables of its own, and how each ended.

CASES in the environment is a JSON list of objects:
    argv        the command, as a list
    files       {path below the home: text}, written before and removed after, with mode 0755
    variables   {name: text, or null to take it away}
    stdin       text
    cwd         the directory, below the project's; made where it is not there

A file whose text is null is not made. Prints a list of [exit code, stdout, stderr, files that are new in the project].
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

SECONDS = 100


def listing(directory: str) -> set[str]:
    """All files below a directory."""
    return {os.path.relpath(f"{parent}/{name}", directory) for parent, _, names in os.walk(directory) for name in names}


def run(case: dict[str, Any], project: str) -> list[Any]:
    """One command to its end."""
    home = os.environ["HOME"]
    made = {f"{home}/{path}": text for path, text in case["files"].items() if text is not None}
    for path, text in made.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.chmod(path, 0o755)
    environment = {name: value for name, value in os.environ.items() if name != "CASES"} | case["variables"]
    directory = f"{project}/{case['cwd']}"
    os.makedirs(directory, exist_ok=True)
    before = listing(project)
    done = subprocess.run(
        case["argv"],
        input=case["stdin"].encode(),
        capture_output=True,
        env={name: value for name, value in environment.items() if value is not None},
        cwd=directory,
        timeout=SECONDS,
        check=False,
    )
    new = sorted(listing(project) - before)
    for path in [*made, *(f"{project}/{path}" for path in new)]:
        os.unlink(path)
    texts = (done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape"))
    return [done.returncode, *texts, new]


def main() -> None:
    """Run them one after the other."""
    project = os.getcwd()
    print(json.dumps([run(case, project) for case in json.loads(os.environ["CASES"])]))


if __name__ == "__main__":
    main()
