#!/usr/bin/python3
"""
What a session costs: its start, a call against `podman exec` of the same, 100 MB of output, calls beside a slow one.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/serve.py [--calls N] [--json]'

Calls and their podman counterparts alternate, so that a machine whose speed drifts does so for both. Run as the user whose
podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e", "outside"))

from session import Session

# Seconds; times; megabytes a second.
START, CALL, FASTER, OUTPUT = 1.0, 0.008, 10.0, 100.0
SIZE = 10_000
MEGABYTES = 100


def took(action: object, *arguments: object, **named: object) -> float:
    """How long it takes."""
    began = time.monotonic()
    assert callable(action)
    action(*arguments, **named)
    return time.monotonic() - began


def measure(calls: int) -> dict[str, float]:
    """All figures: seconds, but for the rate of output."""
    starts = []
    for _ in range(5):
        session = Session("--net", "none", "-q")
        starts.append(session.seconds)
        session.end()
    with open("ten", "wb") as file:
        file.write(bytes(SIZE))
    session = Session("--net", "none", "-q")
    container = session.hello["container"]
    beside = ["podman", "exec", "--user", "1000", container]
    times: dict[str, list[float]] = {"exec": [], "podman exec": [], "read": [], "podman read": []}
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    for number in range(calls):
        times["exec"].append(took(session.call, "exec", command=["true"]))
        times["read"].append(took(session.call, "readFile", path="ten"))
        if number % 10 == 0:
            times["podman exec"].append(took(subprocess.run, [*beside, "/usr/bin/true"], **quiet))
            times["podman read"].append(
                took(subprocess.run, [*beside, "/usr/bin/cat", f"{session.hello['cwd']}/ten"], **quiet)
            )
    session.keep = False
    command = ["head", "-c", str(MEGABYTES * 1_000_000), "/dev/zero"]
    rates = [MEGABYTES / took(session.call, "exec", command=command) for _ in range(3)]
    slow = session.begin("exec", command=["sleep", "1000"])
    began = time.monotonic()
    for call in [session.begin("exec", command=["true"]) for _ in range(50)]:
        session.wait(call)
    parallel = time.monotonic() - began
    session.tell("cancel", id=slow.number)
    session.wait(slow)
    session.end()
    return {"start": statistics.median(starts), "output": statistics.median(rates), "fifty": parallel} | {
        name: statistics.median(values) for name, values in times.items()
    }


def main() -> None:
    """Measure and print; exit 1 where a target is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.calls)
    ratio = min(found["podman exec"] / found["exec"], found["podman read"] / found["read"])
    verdicts = {
        f"start {found['start'] * 1000:.0f} ms (target {START * 1000:.0f})": found["start"] <= START,
        f"exec true {found['exec'] * 1000:.1f} ms, read of 10 kB {found['read'] * 1000:.1f} ms (target {CALL * 1000:.0f})": max(
            found["exec"], found["read"]
        )
        <= CALL,
        f"podman exec of the same takes {ratio:.0f} times as long (target {FASTER:.0f})": ratio >= FASTER,
        f"{MEGABYTES} MB of output at {found['output']:.0f} MB/s (target {OUTPUT:.0f})": found["output"] >= OUTPUT,
    }
    if options.json:
        print(json.dumps(found))
    else:
        for line, is_met in verdicts.items():
            print(f"  {line}: {'met' if is_met else 'MISSED'}")
        print(f"  50 calls at once, beside a slow one: {found['fifty'] * 1000:.0f} ms")
    sys.exit(not all(verdicts.values()))


if __name__ == "__main__":
    main()
