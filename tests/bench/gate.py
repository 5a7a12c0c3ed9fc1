#!/usr/bin/python3
"""
What the way out costs: rules against mitmproxy, bytes and connections against none, names, memory.

    tests/bench/with_origin.py HOST tests/lab/run 'python3 "$LAB_TREE"/tests/bench/gate.py [--pairs N] [--json]'

Each figure is the median of interleaved pairs in one run, so that a machine whose speed drifts does so for both.
Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
# Beside the tree, where tests/bench/run has put it.
MITMPROXY = os.path.normpath(f"{HERE}/../../../bench/bin/mitmdump")
ADDRESS = os.environ.get("BENCH_ADDRESS", "198.51.100.64")
RULED, SPLICED = "ruled.bench.test", "passed.bench.test"
# Method and path, from top to bottom, the last one that matches counts.
RULES = (
    ("DENY", "*", "/.*"), ("ALLOW", "GET", "/repos/[^/]+/[^/]+/issues"), ("ALLOW", "GET", "/repos/[^/]+/[^/]+/pulls"),
    ("ALLOW", "POST", "/repos/[^/]+/[^/]+/issues"), ("ALLOW", "GET", "/user"), ("ALLOW", "GET", "/search/.*"),
    ("DENY", "*", "/search/code"), ("ALLOW", "GET", "/bulk/.*"), ("ALLOW", "GET", "/stream/.*"), ("ALLOW", "HEAD", "/.*"),
)  # fmt: skip
ALLOWED, FORBIDDEN = "/repos/some/thing-NUMBER/issues", "/repos/some/thing/secrets"
PROXY, SOCKET = "127.0.0.1:3128", "/run/aisb/gate/gate.sock"
MEGABYTES = 200
# Seconds: a gate of the bench ends soon after it.
IDLE = "5"
NAMES = 10_000


class Target:
    """A figure, what it has to be, and in words how both are written."""

    def __init__(self, name: str, bound: float, *, least: bool, form: str) -> None:
        self.name = name
        self.bound = bound
        self.least = least
        self.form = form

    def is_met(self, value: float) -> bool:
        """Whether the figure is on the right side."""
        return value >= self.bound if self.least else value <= self.bound


TARGETS = {
    "kept": Target("rules, kept connections, over mitmproxy", 8, least=True, form="{:.1f}x"),
    "new": Target("rules, new connections, over mitmproxy", 2, least=True, form="{:.1f}x"),
    "bulk": Target("bulk passed on unread, of direct", 0.5, least=True, form="{:.0%}"),
    "relay": Target("a new connection, relay over none", 2, least=False, form="{:.2f} ms"),
    "many": Target("connections at once, answered", 500, least=True, form="{:.0f}"),
    "first": Target("first byte of a stream, over direct", 50, least=False, form="{:.1f} ms"),
    "names": Target(f"gate with {NAMES:,} names, over one", 1.5, least=False, form="{:.2f}x"),
    "memory": Target("gate's memory, idle", 60, least=False, form="{:.1f} MB"),
}


class Speaker:
    """A client of the bench, which does one thing at a time."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def ask(self, do: str, **job: object) -> Any:
        """What was measured; the bench ends where nothing could be."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": do, "path": ALLOWED, **job}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the client has ended"}
        if "error" in answer:
            raise RuntimeError(f"{do}: {answer['error']}")
        return answer["found"]


def run(*argv: str) -> str:
    """A command that has to succeed; what it printed."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True)
    if done.returncode:
        sys.exit(f"{argv} exited {done.returncode}: {done.stderr}")
    return done.stdout


def seconds(*argv: str) -> float:
    """How long a command takes."""
    began = time.monotonic()
    run(*argv)
    return time.monotonic() - began


def write(path: str, text: str) -> str:
    """A file, and its path."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def policy() -> str:
    """The path of the policy, outside the project."""
    rules = "".join(f"      - {{action: {a}, path: '{path}', method: '{method}'}}\n" for a, method, path in RULES)
    # The last name makes it a gate of its own.
    text = f"allow: [exact:{SPLICED}, exact:gate-{os.getpid()}.bench.test]\nnetworkPolicies:\n  - host: {RULED}\n    policies:\n{rules}"
    return write(os.path.expanduser("~/bench.yaml"), text)


def sandbox_image() -> str:
    """The image that aisb uses here, by its own preview."""
    shown = run("aisb", "--net", "none", "--dry-run", "--", "true")
    return next(word for word in shown.split() if word.startswith("localhost/aisb-sandbox:"))


def in_sandbox() -> Speaker:
    """The client in a sandbox."""
    shutil.copy(f"{HERE}/client.py", "client.py")
    return Speaker(
        ["aisb", "-q", "--gate-idle", IDLE, "--policy", policy(), "--", "python3", "-I", "-S", "/project/client.py"]
    )


def without() -> Speaker:
    """The client in a container of the same image, with the host's own network."""
    mount = f"type=bind,src={os.path.abspath('client.py')},dst=/client.py,ro"
    argv = ["podman", "run", "--rm", "--interactive", "--network", "host", "--mount", mount]
    return Speaker([*argv, "--entrypoint", "/usr/bin/python3", sandbox_image(), "-I", "-S", "/client.py"])


@contextlib.contextmanager
def mitmproxy() -> Any:
    """mitmdump with the same rules; where it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"BENCH_NAME": RULED, "BENCH_RULES": "\n".join(map(" ".join, RULES))}
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


def pairs(count: int, one: Callable[[], float], other: Callable[[], float]) -> dict[str, Any]:
    """Both in turn, so often; the medians, and that of the ratios."""
    found = [(one(), other()) for _ in range(count)]
    ours, theirs = zip(*found, strict=True)
    ratio = statistics.median(a / b for a, b in found)
    return {"ours": statistics.median(ours), "theirs": statistics.median(theirs), "ratio": ratio, "pairs": found}


def refuses(speaker: Speaker, way: str) -> None:
    """Nothing is measured of a proxy that lets everything through."""
    try:
        speaker.ask("new", name=RULED, way=way, path=FORBIDDEN, count=1, connections=1)
    except RuntimeError as error:
        if " 403 " in str(error):
            return
        raise
    raise RuntimeError(f"{way} lets through what no rule allows")


def measure_rules(count: int, ours: Speaker, theirs: Speaker) -> dict[str, Any]:
    """Requests of a host with rules, on kept connections and on new ones."""
    kept: dict[str, Any] = {"name": RULED, "connections": 64, "seconds": 3}
    new: dict[str, Any] = {"name": RULED, "connections": 32, "count": 200}
    with mitmproxy() as way:
        refuses(ours, PROXY)
        refuses(theirs, way)
        return {
            do: pairs(count, lambda: ours.ask(do, way=PROXY, **job), lambda: theirs.ask(do, way=way, **job))  # noqa: B023
            for do, job in (("kept", kept), ("new", new))
        }


def measure_passing(count: int, ours: Speaker, theirs: Speaker) -> dict[str, Any]:
    """What is passed on unread."""
    size = MEGABYTES << 20
    bulk: dict[str, Any] = {"name": SPLICED, "path": f"/bulk/{size}", "bytes": size}
    stream: dict[str, Any] = {"name": SPLICED, "path": "/stream/1"}
    found = {
        "bulk": pairs(
            count, lambda: ours.ask("bulk", way=PROXY, **bulk), lambda: theirs.ask("bulk", way=ADDRESS, **bulk)
        )
    }
    relay = [ours.ask("latency", name=SPLICED, way=SOCKET, count=30) for _ in range(count)]
    found["relay"] = {"value": statistics.median(a - b for a, b in relay), "pairs": relay}
    answered = ours.ask("many", name=SPLICED, way=PROXY, connections=500)
    found["many"] = {"value": answered}
    first = [(ours.ask("first_byte", way=PROXY, **stream), theirs.ask("first_byte", way=ADDRESS, **stream))
             for _ in range(count)]  # fmt: skip
    found["first"] = {"value": statistics.median(a[0] - b[0] for a, b in first), "pairs": first}
    return found


def gates() -> set[str]:
    """The gates that are there."""
    return set(run("podman", "ps", "--filter", "name=aisb-gate", "--format", "{{.Names}}").split())


def measure_names(count: int, before: set[str]) -> dict[str, Any]:
    """Starts of a gate, for many names and for one. Both lists are known to aisb: it has read each of them once."""

    def prepare(number: int, many: bool) -> list[str]:
        names = [f"n{index}-{os.getpid()}-{number}.bench.test" for index in range(NAMES if many else 1)]
        path = os.path.expanduser(f"~/names-{number}.yaml")
        write(path, "allow:\n" + "".join(f"- {name}\n" for name in names))
        return ["aisb", "-q", "--gate-idle", IDLE, "--policy", path, "--", "true"]

    starts = [(prepare(2 * number, many=True), prepare(2 * number + 1, many=False)) for number in range(count)]
    first = [(seconds(*many), seconds(*one)) for many, one in starts]
    print(f"  read for the first time: {statistics.median(a / b for a, b in first):.2f}x", file=sys.stderr)
    deadline = time.monotonic() + 120
    while gates() - before and time.monotonic() < deadline:
        time.sleep(0.5)
    left = iter(starts)
    turn: list[list[str]] = []

    def many() -> float:
        turn[:] = next(left)
        return seconds(*turn[0])

    return pairs(count, many, lambda: seconds(*turn[1]))


def gate_memory(name: str) -> float:
    """Megabytes that the processes of a gate hold, each shared page divided by those who share it."""
    processes = run("podman", "top", name, "hpid").split()[1:]
    text = run("podman", "unshare", "cat", *(f"/proc/{process}/smaps_rollup" for process in processes))
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def measure(count: int, only: str) -> dict[str, Any]:
    """Everything, in one run."""
    found: dict[str, Any] = {}
    before = gates()
    with in_sandbox() as ours, without() as theirs:
        # The gate has carried one request by then, and nothing since.
        ours.ask("new", name=RULED, way=PROXY, count=1, connections=1)
        if "memory" in only:
            found["memory"] = {"value": gate_memory((gates() - before).pop())}
        if "rules" in only:
            found |= measure_rules(count, ours, theirs)
        if "passing" in only:
            found |= measure_passing(count, ours, theirs)
    if "names" in only:
        found["names"] = measure_names(count, before)
    return found


def show(found: dict[str, Any]) -> bool:
    """The figures as a person reads them; whether each is met."""
    are_met = True
    for key, figure in found.items():
        target = TARGETS[key]
        value = figure.get("ratio", figure.get("value"))
        is_met = target.is_met(value)
        are_met = are_met and is_met
        verdict = f"{'at least' if target.least else 'at most'} {target.form.format(target.bound)}: {'met' if is_met else 'MISSED'}"
        both = f" ({figure['ours']:.4g} and {figure['theirs']:.4g})" if "ours" in figure else ""
        print(f"  {target.name:<42} {target.form.format(value):>9}{both}  {verdict}")
    return are_met


def main() -> None:
    """Measure and print; exit 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="memory rules passing names")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.pairs, options.only)
    if options.json:
        print(json.dumps(found))
    sys.exit(not show(found))


if __name__ == "__main__":
    main()
