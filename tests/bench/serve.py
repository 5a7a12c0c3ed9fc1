#!/usr/bin/python3
"""
What a session costs: its start, a call against `podman exec` of the same, 100 MB of output, calls beside a slow one.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/serve.py [--pairs N] [--json]'

Calls and their podman counterparts alternate, so that a machine whose speed drifts does so for both. Run as the user whose
podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import Figure, least, median, most, ratio
from tests.bench.measuring import Found, main
from tests.e2e.outside.session import Session

# A call a round beside podman's, and so many more by itself.
CALLS = 10
SIZE = 10_000
MEGABYTES = 100


def took(action: object, *arguments: object, **named: object) -> float:
    """How many milliseconds it takes."""
    began = time.monotonic()
    assert callable(action)
    action(*arguments, **named)
    return 1000 * (time.monotonic() - began)


def starts(pairs: int) -> list[float]:
    """How long each of some sessions takes to say hello."""
    found = []
    for _ in range(pairs):
        session = Session("--net", "none", "-q")
        found.append(1000 * session.seconds)
        session.end()
    return found


def calls(pairs: int, session: Session) -> dict[str, list[float]]:
    """A command and a file, by the session and by `podman exec`: a median of some calls for each of podman's."""
    container = session.hello["container"]
    beside = ["podman", "exec", "--user", "1000", container]
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    cat = [*beside, "/usr/bin/cat", f"{session.hello['cwd']}/ten"]
    times: dict[str, list[float]] = {"exec": [], "podman exec": [], "read": [], "podman read": []}
    for _ in range(pairs):
        times["exec"].append(statistics.median(took(session.call, "exec", command=["true"]) for _ in range(CALLS)))
        times["podman exec"].append(took(subprocess.run, [*beside, "/usr/bin/true"], **quiet))
        times["read"].append(statistics.median(took(session.call, "readFile", path="ten") for _ in range(CALLS)))
        times["podman read"].append(took(subprocess.run, cat, **quiet))
    return times


def measure(pairs: int) -> Found:
    """All figures."""
    began = starts(5)
    with open("ten", "wb") as file:
        file.write(bytes(SIZE))
    session = Session("--net", "none", "-q")
    times = calls(pairs, session)
    session.keep = False
    command = ["head", "-c", str(MEGABYTES * 1_000_000), "/dev/zero"]
    rates = [1000 * MEGABYTES / took(session.call, "exec", command=command) for _ in range(5)]
    slow = session.begin("exec", command=["sleep", "1000"])
    fifty = time.monotonic()
    for call in [session.begin("exec", command=["true"]) for _ in range(50)]:
        session.wait(call)
    parallel = 1000 * (time.monotonic() - fifty)
    session.tell("cancel", id=slow.number)
    session.wait(slow)
    session.end()

    def beside(what: str) -> dict[str, list[float]]:
        return {"podman exec": times[f"podman {what}"], "aisb": times[what]}

    return Found(
        [
            median("serve.start", "a session's start", "ms", began, most(1000)),
            median("serve.exec", "a session's call of `true`", "ms", times["exec"], most(8)),
            median("serve.read", "a session's read of 10 kB", "ms", times["read"], most(8)),
            ratio("serve.exec.podman", "`podman exec` of the same, of the call", beside("exec"), least(10)),
            ratio("serve.read.podman", "`podman exec` of the same, of the read", beside("read"), least(10)),
            median("serve.output", f"{MEGABYTES} MB of a call's output", "MB/s", rates, least(100)),
            Figure("serve.fifty", "50 calls at once, beside a slow one", "ms", parallel),
        ]
    )


if __name__ == "__main__":
    main(measure, 20)
