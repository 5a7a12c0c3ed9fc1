"""
The git repository that allowed.test serves as plain files, and those of tests that are served by git itself.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SITE = "allowed.test"


def make(files: Path) -> None:
    """
    Make the repository with one commit unless it is there.
    """
    target = files / SITE / "repo.git"
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        (Path(work) / "README").write_text("hello from a repository\n")
        _git("init", "--quiet", "--initial-branch=main", work)
        _git("-C", work, "add", "README")
        _git("-C", work, "commit", "--quiet", "--message=First")
        _git("clone", "--quiet", "--bare", work, f"{target}.new")
        _git("-C", f"{target}.new", "update-server-info")
        os.rename(f"{target}.new", target)


def smart(
    root: Path, method: str, target: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """
    Status, headers and body of what git's own server (git-http-backend(1)) answers to a request below /smart.
    """
    path, _, query = target.partition("?")
    environment = {
        "PATH": "/usr/bin:/bin",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": method,
        "PATH_INFO": path.removeprefix("/smart"),
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "GIT_PROTOCOL": headers.get("git-protocol", ""),
    }
    done = subprocess.run(("git", "http-backend"), input=body, stdout=subprocess.PIPE, env=environment)
    head, _, answer = done.stdout.partition(b"\r\n\r\n")
    said = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
    return int(said.pop("Status", "200").split(" ", 1)[0]), said, answer


def _git(*arguments: str) -> None:
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (
            ("NAME", "laboratory"),
            ("EMAIL", "lab@allowed.test"),
            ("DATE", "2025-01-01T00:00:00Z"),
        )
    }
    # Only what is listed here: the caller's git settings must not change the repository.
    environment = {
        "PATH": "/usr/bin:/bin",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        **identity,
    }
    subprocess.run(("git", *arguments), check=True, stdin=subprocess.DEVNULL, env=environment)
