"""What podman says, and how much of it is passed on."""

from __future__ import annotations

import subprocess
import sys

import pytest

PASSED_ON = """
import os, select, sys
from aisb.effects.output import open_outlets
outlets = open_outlets(stdout=sys.argv[1] != "terminal", podmans_alone=sys.argv[1] == "terminal")
podman = os.dup(outlets.descriptors[2])
outlets.start()
for piece in sys.stdin.buffer.read().split(b"|"):
    os.write(podman, piece)
os.close(podman)
outlets.end()
select.select([outlets.done], [], [])
"""
SAID = (
    b"Error: no such image\n"
    b"2026-01-01T00:00:00Z: container not run|ning: No such process\n"
    b"time=now level=error msg=\"forwarding signal 21 to container 7: open pidfd: No such process\"\n"
    b"kill container: No such process\nlast|words"
)  # fmt: skip


@pytest.mark.parametrize(
    ("stdout", "kept"),
    [("terminal", b"Error: no such image\nlastwords"), ("pipe", SAID.replace(b"|", b""))],
)
def test_only_where_podman_alone_speaks_its_words_about_late_signals_are_left_out(stdout: str, kept: bytes) -> None:
    """In a terminal what the command says comes by stdout; elsewhere these may be the command's own words."""
    done = subprocess.run((sys.executable, "-c", PASSED_ON, stdout), input=SAID, capture_output=True, check=True)

    assert done.stderr == kept
