#!/usr/bin/python3
"""
How long a start takes: `aisb -- true` with a warm and with a cold gate, against bare podman.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/start.py [--pairs N] [--json]'

Interleaved pairs in one run, so that a machine whose speed drifts does so for both. Prints medians and the
differences, pair by pair. Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TARGETS = {"warm": 0.25, "cold": 0.80}
"""Seconds: a warm start over bare podman, a cold gate over a warm one."""


def seconds(argv: list[str]) -> float:
    """How long the command takes, from start to end."""
    began = time.monotonic()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{argv} exited {done.returncode}: {done.stderr.decode()}")
    return time.monotonic() - began


def sandbox_image() -> str:
    """The image that aisb uses here, by its own preview."""
    preview = ["aisb", "--net", "none", "--dry-run", "--", "true"]
    shown = subprocess.run(preview, capture_output=True, check=True, text=True)
    return next(word for word in shown.stdout.split() if word.startswith("localhost/aisb-sandbox:"))


def measure(pairs: int) -> dict[str, object]:
    """Interleaved runs of all three."""
    bare = ["podman", "run", "--rm", "--network", "none", "--userns", "keep-id:uid=1000,gid=1000",
            "--entrypoint", "/bin/true", sandbox_image()]  # fmt: skip
    warm = ["aisb", "-q", "--allow", "allowed.test", "--", "true"]
    for argv in (warm, bare, warm):
        seconds(argv)
    times: dict[str, list[float]] = {"bare": [], "warm": [], "cold": []}
    for number in range(pairs):
        times["bare"].append(seconds(bare))
        times["warm"].append(seconds(warm))
        if number < max(5, pairs // 4):
            # A name that no gate knows yet needs a gate of its own.
            cold = ["aisb", "-q", "--gate-idle", "5", "--allow", f"n{os.getpid()}-{number}.allowed.test", "--", "true"]
            times["cold"].append(seconds(cold))
    median = {name: statistics.median(values) for name, values in times.items()}
    over = {
        "warm": statistics.median(a - b for a, b in zip(times["warm"], times["bare"], strict=True)),
        "cold": median["cold"] - median["warm"],
    }
    return {"pairs": pairs, "median": median, "over": over, "targets": TARGETS, "times": times}


def show(result: dict[str, object]) -> None:
    """The figures as a person reads them."""
    median, over = result["median"], result["over"]
    assert isinstance(median, dict)
    assert isinstance(over, dict)
    print(f"medians of {result['pairs']} interleaved pairs")
    for name, value in median.items():
        print(f"  {name:<5} {1000 * value:7.0f} ms")
    for name, target in TARGETS.items():
        verdict = "met" if over[name] <= target else "MISSED"
        than = "bare podman" if name == "warm" else "a warm gate"
        print(f"  {name} over {than}: {1000 * over[name]:.0f} ms (target {1000 * target:.0f} ms: {verdict})")


def main() -> None:
    """Measure and print; exit 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.pairs)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)
    over = result["over"]
    assert isinstance(over, dict)
    sys.exit(any(over[name] > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    main()
