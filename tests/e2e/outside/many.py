"""
Runs on a host: aisb's command line, many times in one process, each as `aisb ARGUMENT...` would be.

CASES in the environment is a JSON list of lists of arguments. Prints a list of [exit code, stdout, stderr].
"""

from __future__ import annotations

import contextlib
import io
import json
import os

from aisb.cli.main import main


def run(arguments: list[str]) -> tuple[int, str, str]:
    """One command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    print(json.dumps([run(arguments) for arguments in json.loads(os.environ["CASES"])]))
