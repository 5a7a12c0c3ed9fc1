#!/usr/bin/python3
"""
What a long list costs: 1, 100 and 10,000 names, to render, to start a gate with, and to look up.

    tests/bench/with_origin.py HOST tests/lab/run 'python3 "$LAB_TREE"/tests/bench/names.py [--pairs N] [--json]'

Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import Figure, most, ratio
from tests.bench.measuring import IDLE, SOCKET, SPLICED, Found, containers, in_sandbox, main, milliseconds, write

COUNTS = (1, 100, 10_000)
LOOK_UPS = 100
_serial = itertools.count()


def policy_of(count: int, *more: str) -> str:
    """A policy of so many names that no list had before."""
    mark = f"{os.getpid()}-{next(_serial)}"
    names = [*more, *(f"n{index}-{mark}.bench.test" for index in range(count - len(more)))]
    return write(f"~/names-{mark}.yaml", "allow:\n" + "".join(f"- {name}\n" for name in names))


def all_gates_gone(before: set[str]) -> None:
    """Wait until the gates of the bench have ended: they are started anew then."""
    deadline = time.monotonic() + 120
    while containers("aisb-gate-") - before and time.monotonic() < deadline:
        time.sleep(0.5)


def measure(count: int) -> Found:
    """Each number in turn, round by round."""
    before = containers("aisb-gate-")
    render: dict[int, list[float]] = {number: [] for number in COUNTS}
    start: dict[int, list[float]] = {number: [] for number in COUNTS}
    look: dict[str, dict[int, list[float]]] = {
        kind: {number: [] for number in COUNTS} for kind in ("allowed", "denied")
    }
    starts = []
    for _ in range(count):
        paths = {number: policy_of(number) for number in COUNTS}
        for number, path in paths.items():
            # Read and rendered for the first time, for a preview: nothing is started.
            render[number].append(milliseconds("aisb", "--policy", path, "--print-squid"))
            starts.append((number, ["aisb", "-q", "--gate-idle", IDLE, "--policy", path, "--", "true"]))
    for _, argv in starts:
        # From now on both list and plan are known.
        milliseconds(*argv)
    all_gates_gone(before)
    for number, argv in starts:
        start[number].append(milliseconds(*argv))
    for number in COUNTS:
        with in_sandbox("--policy", policy_of(number, f"exact:{SPLICED}")) as client:
            for _ in range(count):
                times = client.ask("verdicts", allowed=SPLICED, denied="denied.bench.test", way=SOCKET, count=LOOK_UPS)
                for kind, values in times.items():
                    look[kind][number].append(statistics.median(values))
    return Found(figures_of(render, start, look))


def figures_of(
    render: dict[int, list[float]], start: dict[int, list[float]], look: dict[str, dict[int, list[float]]]
) -> list[Figure]:
    """All of them; a gate's start has a target."""
    largest = COUNTS[-1]
    rows = {"render": ("read and rendered, for the first time", render), "start": ("a start with a cold gate", start)}
    rows |= {kind: (f"a name that is {kind} is looked up", values) for kind, values in look.items()}
    figures = [
        Figure(f"names.{number}.{key}", f"{number:,} {'name' if number == 1 else 'names'}: {words}", "ms", statistics.median(values[number]), rounds={"aisb": values[number]})
        for key, (words, values) in rows.items()
        for number in COUNTS
    ]  # fmt: skip
    sides = {f"{largest:,} names": start[largest], "one name": start[1]}
    return [*figures, ratio("names.growth", f"a start with a gate of {largest:,} names, over one", sides, most(1.5))]


if __name__ == "__main__":
    main(measure)
