"""The relay as a process, through twenty thousand connections of all kinds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load.py")
NAMESPACES = (
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--mount-proc",
    "--fork",
    "--kill-child",
)
CONNECTIONS = 20_000
MOST_PSS_KB = 10 * 1024
# One chunk for each of 400 connections would be 25 MB: what is read is passed on, not kept.
MOST_GROWTH_KB = 1024


def test_the_relay_leaks_nothing_and_stays_small() -> None:
    """Each connection ends as it has to, and afterwards there are as many descriptors as before."""
    done = subprocess.run(
        [*NAMESPACES, sys.executable, PROGRAM, str(CONNECTIONS)], capture_output=True, timeout=240, check=False
    )
    assert not done.returncode, done.stderr.decode()
    found = json.loads(done.stdout)

    assert (found["failed"], found["answered"]) == (0, 400)
    assert found["after"]["descriptors"] == found["before"]["descriptors"]
    assert found["most"]["pss_kb"] < MOST_PSS_KB
    # Not the whole share: that grows too when another Python ends, with which pages were shared.
    assert found["after"]["anonymous_kb"] - found["before"]["anonymous_kb"] < MOST_GROWTH_KB
