"""A file of a session that is written in place on a disk that is full: what was there is lost by nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OWN_MOUNTS = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount")
# A file of its own mount, which nothing can be renamed over, of a disk with no room; there is room beside it.
SCRIPT = """
import json, os, subprocess, sys
from gate.tool_files import Writing

size, written, wanted = map(int, sys.argv[1:])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "small", "/mnt"], check=True)
with open("/mnt/file", "wb") as file:
    file.write(b"o" * written)
    file.truncate(size)
try:
    with open("/mnt/rest", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
except OSError:
    pass
open("file", "x").close()
subprocess.run(["mount", "--bind", "/mnt/file", "file"], check=True)
writing = Writing(b"file", 0o666)
try:
    writing.add(b"n" * wanted)
    said = writing.commit()
except OSError as error:
    said = error.strerror
with open("file", "rb") as file:
    found = file.read()
print(json.dumps([said, len(found), found.count(b"o"), found.count(b"n"), os.listdir()]))
"""
FULL = "No space left on device"


class Case(NamedTuple):
    """A file of that size, the rest of what was written a hole; how much is to be in it, and what is said and found."""

    size: int
    written: int
    wanted: int
    said: object
    found: tuple[int, int, int]


@pytest.mark.parametrize(
    "case",
    [
        Case(20_000, 20_000, 60_000, FULL, (20_000, 20_000, 0)),
        Case(60_000, 20_000, 60_000, FULL, (60_000, 20_000, 0)),
        Case(60_000, 0, 40_000, FULL, (60_000, 0, 0)),
        Case(20_000, 20_000, 20_000, {"bytes": 20_000, "created": False, "atomic": False}, (20_000, 0, 20_000)),
        Case(20_000, 20_000, 10, {"bytes": 10, "created": False, "atomic": False}, (10, 0, 10)),
    ],
    ids=["grows", "holes", "only holes", "same", "shrinks"],
)
def test_what_was_there_is_there_where_the_disk_has_no_room(tmp_path: str, case: Case) -> None:
    """It was emptied first, and then there was room for a part of what was to come."""
    numbers = map(str, (case.size, case.written, case.wanted))
    done = subprocess.run(
        [*OWN_MOUNTS, sys.executable, "-c", SCRIPT, *numbers],
        capture_output=True, cwd=tmp_path, env={"PYTHONPATH": ROOT, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == [case.said, *case.found, ["file"]]
