#!/usr/bin/python3
"""
What the way out costs: requests and bytes by each path (passed on unread, with rules, with a secret put in), against none and
against mitmproxy with the same policy; streams, many connections, memory.

    tests/bench/with_origin.py HOST tests/lab/run 'python3 "$LAB_TREE"/tests/bench/gate.py [--pairs N] [--json]'

Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import Figure, difference, least, median, most, ratio
from tests.bench.measuring import (
    ADDRESS,
    FORBIDDEN,
    HERE,
    INJECTED,
    MITMPROXY,
    PROXY,
    RULED,
    RULES,
    SPLICED,
    Found,
    Speaker,
    containers,
    in_sandbox,
    main,
    memory,
    one,
    processes,
    processor_time,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "the-secret-of-the-bench"
MEGABYTES = 200
KEPT: dict[str, Any] = {"connections": 64, "seconds": 3}
NEW: dict[str, Any] = {"connections": 32, "count": 200}
DIRECT, UNREAD, WITH_RULES, WITH_SECRET = "direct", "passed on unread", "with rules", "with a secret"
PEER, PEER_SECRET = "mitmproxy", "mitmproxy, with a secret"
AT_ONCE = 500


class Path(NamedTuple):
    """A way to the server: whose client asks, for which host, by which proxy or address, and what else is in each request."""

    speaker: Speaker
    name: str
    way: str
    more: dict[str, str] = {}  # noqa: RUF012  # a NamedTuple's default, and nobody writes into it

    def ask(self, do: str, **job: object) -> Any:
        """What the client has measured on this way."""
        return self.speaker.ask(do, name=self.name, way=self.way, **self.more, **job)


@contextlib.contextmanager
def mitmproxy() -> Iterator[str]:
    """mitmdump with the same rules, and the same secret; where it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"BENCH_NAME": RULED, "BENCH_RULES": "\n".join(map(" ".join, RULES))}
    environment |= {"BENCH_INJECTED": INJECTED, "BENCH_SECRET": SECRET}
    settings = [f"ssl_verify_upstream_trusted_ca={os.environ['LAB_CA']}", "confdir=~/mitmproxy", "flow_detail=0"]
    options = [word for setting in settings for word in ("--set", setting)]
    argv = [MITMPROXY, "--quiet", "--listen-host", "127.0.0.1", "--listen-port", str(port), *options]
    process = subprocess.Popen([*argv, "--scripts", f"{HERE}/rules.py"], env=environment, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def need_equal_policies(paths: dict[str, Path]) -> None:
    """Nothing is measured of a proxy that lets everything through, or that puts no secret in."""
    for path in (paths[WITH_RULES], paths[PEER]):
        try:
            path.ask("new", path=FORBIDDEN, count=1, connections=1)
        except RuntimeError as error:
            if " 403 " not in str(error):
                raise
        else:
            raise RuntimeError(f"{path.way} lets through what no rule allows")
    for path in (paths[WITH_SECRET], paths[PEER_SECRET]):
        path.ask("new", path="/secret", count=1, connections=1)


def measure_paths(count: int, paths: dict[str, Path]) -> dict[str, dict[str, list[float]]]:
    """Of each path, round by round: the rates of kept connections and of new ones, and megabytes a second."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in paths}
    size = MEGABYTES << 20
    for _ in range(count):
        for do, job in (("kept", KEPT), ("new", NEW)):
            for name, path in paths.items():
                for figure, value in path.ask(do, **job).items():
                    found[name].setdefault(f"{do} {figure}", []).append(value)
        for name, path in paths.items():
            if path.name != INJECTED:
                found[name].setdefault("bulk", []).append(path.ask("bulk", path=f"/bulk/{size}", bytes=size))
    return found


def compared(found: dict[str, dict[str, list[float]]]) -> list[Figure]:
    """The figures that have targets."""

    def sides(one: str, other: str, what: str) -> dict[str, list[float]]:
        return {one: found[one][what], other: found[other][what]}

    return [
        ratio("kept.rules", "rules, kept connections, over mitmproxy", sides(WITH_RULES, PEER, "kept rate"), least(8)),
        ratio("new.rules", "rules, new connections, over mitmproxy", sides(WITH_RULES, PEER, "new rate"), least(2), wish=least(3)),
        ratio("kept.secret", "a secret, kept connections, over mitmproxy", sides(WITH_SECRET, PEER_SECRET, "kept rate")),
        ratio("new.secret", "a secret, new connections, over mitmproxy", sides(WITH_SECRET, PEER_SECRET, "new rate")),
        ratio("bulk.unread", "bulk passed on unread, of direct", sides(UNREAD, DIRECT, "bulk"), least(0.5), unit="%", wish=least(0.9)),
        ratio("bulk.rules", "bulk with rules, over mitmproxy", sides(WITH_RULES, PEER, "bulk")),
    ]  # fmt: skip


UNITS = {"rate": "/s", "p50": "ms", "p99": "ms", "bulk": "MB/s"}
WORDS = {"rate": "requests", "p50": "p50", "p99": "p99", "bulk": "bulk"}


def of_paths(found: dict[str, dict[str, list[float]]]) -> list[Figure]:
    """Everything that was measured of each path."""
    figures = []
    for path, values in found.items():
        for what, rounds in values.items():
            do, _, figure = what.rpartition(" ")
            words = f"{path}: {do + ' connections, ' if do else ''}{WORDS[figure]}"
            key = f"path.{path.replace(', ', ' ').replace(' ', '-')}.{what.replace(' ', '-')}"
            figures.append(Figure(key, words, UNITS[figure], statistics.median(rounds), rounds={path: rounds}))
    return figures


def programs(gate: str, run: str) -> dict[str, int]:
    """What takes part in each request of a sandbox."""
    outside = processes(gate)
    found = {"squid": "squid -N", "bridge": "gate.bridge", "helper": "helper.py"}
    return {"relay": one(processes(run), "gate.relay")} | {name: one(outside, words) for name, words in found.items()}


def measure_shares(count: int, paths: dict[str, Path], watched: dict[str, int]) -> list[Figure]:
    """Where the time goes: what each program takes of a core for a request with rules, and for a megabyte that is passed on unread."""
    size = MEGABYTES << 20
    found: dict[str, dict[str, list[float]]] = {"request": {}, "megabyte": {}}
    for _ in range(count):
        for unit in found:
            before = {name: processor_time(pid) for name, pid in watched.items()}
            if unit == "request":
                done = KEPT["seconds"] * paths[WITH_RULES].ask("kept", **KEPT)["rate"]
            else:
                paths[UNREAD].ask("bulk", path=f"/bulk/{size}", bytes=size)
                done = MEGABYTES
            for name, pid in watched.items():
                found[unit].setdefault(name, []).append((processor_time(pid) - before[name]) / done)
    words = {"request": "a request with rules", "megabyte": "a megabyte passed on unread"}
    return [
        median(
            f"share.{unit}.{name}", f"of a core, for {words[unit]}: {name}", "us", [1000 * value for value in values]
        )
        for unit, shares in found.items()
        for name, values in shares.items()
    ]


def measure_streams(count: int, ours: Path, theirs: Path) -> list[Figure]:
    """When the first byte of a stream is here, and how many connections have their answer at once."""
    answered = ours.ask("many", connections=AT_ONCE)
    first: dict[str, list[float]] = {"aisb": [], "direct": []}
    for _ in range(count):
        for side, path in zip(first, (ours, theirs), strict=True):
            first[side].append(path.ask("first_byte", path="/stream/1")[0])
    return [
        Figure("many", "connections at once, answered", "", answered, least(AT_ONCE)),
        difference("first", "first byte of a stream, over direct", "ms", first, most(50)),
    ]


def measure(count: int) -> Found:
    """Everything, in one run."""
    gates, runs = containers("aisb-gate-"), containers("aisb-run-")
    secret = ("--allow", f"exact:{INJECTED}", "--inject", f"BENCH_SECRET@{INJECTED}")
    with in_sandbox() as ours, without() as theirs:
        # The gate has carried one request by then, and nothing since.
        ours.ask("new", name=RULED, way=PROXY, count=1, connections=1)
        (gate,), (run,) = containers("aisb-gate-") - gates, containers("aisb-run-") - runs
        held = Figure("gate.memory", "a gate's memory, idle", "MB", memory(processes(gate)), most(60))
        with mitmproxy() as way, in_sandbox(*secret, environment={"BENCH_SECRET": SECRET}) as keyless:
            paths = {
                DIRECT: Path(theirs, SPLICED, ADDRESS),
                UNREAD: Path(ours, SPLICED, PROXY),
                WITH_RULES: Path(ours, RULED, PROXY),
                WITH_SECRET: Path(keyless, INJECTED, PROXY, {"secret": "BENCH_SECRET"}),
                PEER: Path(theirs, RULED, way),
                PEER_SECRET: Path(theirs, INJECTED, way, {"secret": "BENCH_SECRET"}),
            }
            need_equal_policies(paths)
            found = measure_paths(count, paths)
        shares = measure_shares(count, paths, programs(gate, run))
        streams = measure_streams(count, paths[UNREAD], paths[DIRECT])
    return Found([held, *compared(found), *streams, *of_paths(found), *shares])


if __name__ == "__main__":
    main(measure)
