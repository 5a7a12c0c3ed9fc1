#!/usr/bin/python3
"""
What the relay adds: a connection by name (redirected) and by the proxy's port, against one that speaks to the gate's socket itself.

    tests/bench/with_origin.py HOST tests/lab/run 'python3 "$LAB_TREE"/tests/bench/relay.py [--pairs N] [--json]'

Latency, bulk, the memory of a sandbox, and what is still open after 20,000 connections. Run as the user whose podman it is, with
aisb on the PATH.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import Figure, difference, median, most, percentile, ratio
from tests.bench.measuring import (
    PROXY,
    SOCKET,
    SPLICED,
    Found,
    Speaker,
    containers,
    descriptors,
    in_sandbox,
    main,
    memory,
    one,
    processes,
    settled,
)

WAYS = {"by name": "", "by proxy": PROXY, "without": SOCKET}
CONNECTIONS = 100
MEGABYTES = 200
CHURN = 20_000
# As fast as the gate lets one run go on.
PACE = {"connections": 16, "a_second": 190}
ECHO = 5432
SHARES = {"p50": 0.5, "p99": 0.99}


def measure_latency(count: int, client: Speaker) -> list[Figure]:
    """What each way adds to a new connection's first answer."""
    samples: dict[str, dict[str, list[float]]] = {share: {side: [] for side in WAYS} for share in SHARES}
    for _ in range(count):
        times = client.ask("latency", name=SPLICED, ways=list(WAYS.values()), count=CONNECTIONS)
        for share, bound in SHARES.items():
            for side, way in WAYS.items():
                samples[share][side].append(percentile(times[way], bound))
    return [
        difference(
            f"relay.{side.replace(' ', '-')}.{share}", f"a new connection {side}, over none: {share}", "ms",
            {side: sides[side], "without": sides["without"]}, most(2) if share == "p50" else None,
        )
        for side in ("by name", "by proxy")
        for share, sides in samples.items()
    ]  # fmt: skip


def measure_bulk(count: int, client: Speaker) -> list[Figure]:
    """What is left of the gate's own rate."""
    size = MEGABYTES << 20
    rates: dict[str, list[float]] = {side: [] for side in WAYS}
    for _ in range(count):
        for side, way in WAYS.items():
            rates[side].append(client.ask("bulk", name=SPLICED, way=way, path=f"/bulk/{size}", bytes=size))
    return [
        ratio(f"relay.{side.replace(' ', '-')}.bulk", f"bulk {side}, of none", {side: rates[side], "without": rates["without"]}, unit="%")
        for side in ("by name", "by proxy")
    ]  # fmt: skip


def measure_churn(client: Speaker, watched: dict[str, int]) -> list[Figure]:
    """How many more descriptors each program has open once 20,000 connections have come and gone."""

    def opened() -> dict[str, int]:
        return {name: settled(lambda: descriptors(pid)) for name, pid in watched.items()}  # noqa: B023  # called at once

    client.ask("churn", name=SPLICED, port=ECHO, ways=["", PROXY], count=64, **PACE)
    before = opened()
    client.ask("churn", name=SPLICED, port=ECHO, ways=["", PROXY], count=CHURN, **PACE)
    after = opened()
    return [
        Figure(f"relay.descriptors.{name}", f"{name}: more descriptors after {CHURN:,} connections", "", after[name] - before[name], most(0))
        for name in watched
    ]  # fmt: skip


def measure(count: int) -> Found:
    """Everything, with one sandbox."""
    gates, runs = containers("aisb-gate-"), containers("aisb-run-")
    with in_sandbox() as client:
        client.ask("hello")
        (run,) = containers("aisb-run-") - runs
        (gate,) = containers("aisb-gate-") - gates
        inside, outside = processes(run), processes(gate)
        relay = one(inside, "gate.relay")
        held = [memory([relay]) for _ in range(count)]
        figures = [median("relay.memory", "the relay's memory (PSS), one a sandbox", "MB", held)]
        figures += measure_latency(count, client) + measure_bulk(count, client)
        figures += measure_churn(
            client, {"relay": relay, "bridge": one(outside, "gate.bridge"), "squid": one(outside, "squid -N")}
        )
        return Found(figures)


if __name__ == "__main__":
    main(measure)
