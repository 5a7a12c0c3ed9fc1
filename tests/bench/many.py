#!/usr/bin/python3
"""
1, 5 and 20 sandboxes at once: how long each takes to start, the memory of all, and what they get through together.

    tests/bench/with_origin.py HOST tests/lab/run 'python3 "$LAB_TREE"/tests/bench/many.py [--pairs N] [--json]'

All have one policy, and so one gate, which is warm. Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import Figure, growth, least, most
from tests.bench.measuring import PROXY, SPLICED, Found, Speaker, containers, in_sandbox, main, memory, processes

COUNTS = (1, 5, 20)
CONNECTIONS = 60
SECONDS = 3
# Of what one sandbox gets through, all together have to; what they share is two or more cores.
KEPT_SHARE = 0.9


def children(pid: int) -> set[int]:
    """A process and all below it."""
    found, pending = set(), [pid]
    while pending:
        found.add(one := pending.pop())
        with contextlib.suppress(OSError), open(f"/proc/{one}/task/{one}/children", encoding="ascii") as file:
            pending += map(int, file.read().split())
    return found


def monitors(names: set[str]) -> set[int]:
    """podman's monitor of each container, which is nobody's child."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
            if words[0].endswith("conmon") and names & set(words):
                found.add(int(entry))
    return found


def round_of(count: int, before: set[str]) -> dict[str, float]:
    """So many sandboxes at once: seconds until each is there, megabytes of all, requests a second of all."""
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        clients = [stack.enter_context(in_sandbox()) for _ in range(count)]
        starts = []
        for client in clients:
            client.tell("hello")
        for client in clients:
            client.hear()
            starts.append(time.monotonic() - began)
        held = of_all(clients, containers("aisb-run-") - before)
        job = {"name": SPLICED, "way": PROXY, "seconds": SECONDS, "connections": CONNECTIONS // count}
        for client in clients:
            client.tell("kept", **job)
        rates = [client.hear()["rate"] for client in clients]
    return {"start": max(starts), "memory": held, "rate": sum(rates)}


def of_all(clients: list[Speaker], names: set[str]) -> float:
    """The memory of sandboxes, of the aisb of each, and of what podman keeps beside them."""
    pids = monitors(names)
    for name in names:
        pids |= set(processes(name))
    for client in clients:
        pids |= children(client.pid)
    return memory(sorted(pids))


def measure(count: int) -> Found:
    """The rounds of all numbers in turn, with one gate."""
    before = containers("aisb-run-")
    found: dict[int, dict[str, list[float]]] = {number: {} for number in COUNTS}
    with in_sandbox() as keeper:
        # For as long as the gate is to stay warm.
        keeper.ask("hello")
        before |= containers("aisb-run-")
        for _ in range(count):
            for number in COUNTS:
                for what, value in round_of(number, before).items():
                    found[number].setdefault(what, []).append(value)
    middles = {
        number: {what: statistics.median(values) for what, values in rounds.items()} for number, rounds in found.items()
    }
    figures = []
    for what, words, unit in (
        ("start", "until all have started", "s"),
        ("memory", "memory of all (PSS)", "MB"),
        ("rate", "requests of all", "/s"),
    ):
        for number in COUNTS:
            many = f"{number} sandboxes at once" if number > 1 else "one sandbox"
            figures.append(
                Figure(
                    f"many.{number}.{what}",
                    f"{many}: {words}",
                    unit,
                    middles[number][what],
                    rounds={"aisb": found[number][what]},
                )
            )
    for what, words in (("start", "time to start"), ("memory", "memory")):
        grown = growth({number: middle[what] for number, middle in middles.items()})
        figures.append(
            Figure(f"many.{what}.growth", f"growth of {words} from 1 to 20, of a linear one", "%", grown, most(1))
        )
    kept = min(middles[number]["rate"] for number in COUNTS) / middles[1]["rate"]
    figures.append(Figure("many.rate.kept", "requests of many sandboxes, of one's", "%", kept, least(KEPT_SHARE)))
    return Found(figures)


if __name__ == "__main__":
    main(measure)
