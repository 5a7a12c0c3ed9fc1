"""
The git repository that allowed.test serves as plain files.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

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
