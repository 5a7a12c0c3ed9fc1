#!/usr/bin/python3
"""
How long a start takes, and what of: `aisb -- true` with a warm and with a cold gate, against bare podman and `srt true`.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/start.py [--pairs N] [--json]'

Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench import srt  # found by the path above
from tests.bench.figures import STAGES, difference, median, most, parse_timings, ratio  # as above
from tests.bench.measuring import Found, main, milliseconds, sandbox_image  # as above

WARM = ("aisb", "-q", "--allow", "allowed.test", "--", "true")
LEAST_COLD = 5


def bare() -> list[str]:
    """podman alone, with the sandbox's image and mapping."""
    argv = ["podman", "run", "--rm", "--network", "none", "--userns", "keep-id:uid=1000,gid=1000"]
    return [*argv, "--entrypoint", "/bin/true", sandbox_image()]


def cold(number: int) -> list[str]:
    """A name that no gate knows yet needs a gate of its own."""
    return ["aisb", "-q", "--gate-idle", "5", "--allow", f"n{os.getpid()}-{number}.allowed.test", "--", "true"]


def stages() -> dict[str, float]:
    """Milliseconds by stage, of one warm start."""
    argv = (*WARM[:2], "--timings", *WARM[2:])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True)
    return parse_timings(done.stderr)


def peer_command() -> tuple[list[str], dict[str, str]]:
    """The command line of `srt true`, or why there is none."""
    try:
        return srt.command("true"), {}
    except srt.Absent as reason:
        return [], {"srt": str(reason)}


def measure(pairs: int) -> Found:
    """Interleaved runs of all of them."""
    peer, absent = peer_command()
    alone = bare()
    for argv in (WARM, alone, WARM):
        milliseconds(*argv)
    times: dict[str, list[float]] = {"bare": [], "warm": [], "srt": [], "cold": []}
    told = []
    for number in range(pairs):
        times["bare"].append(milliseconds(*alone))
        times["warm"].append(milliseconds(*WARM))
        if peer:
            times["srt"].append(1000 * srt.seconds(peer))
        told.append(stages())
        if number < max(LEAST_COLD, pairs // 4):
            times["cold"].append(milliseconds(*cold(number)))
    warm = {"aisb": times["warm"]}
    beside = {"cold": times["cold"], "warm": times["warm"][: len(times["cold"])]}
    figures = [
        difference(
            "start.warm",
            "a warm start, over bare podman",
            "ms",
            {**warm, "podman": times["bare"]},
            most(250),
            wish=most(120),
        ),
        difference("start.cold", "a cold gate, over a warm one", "ms", beside, most(800)),
    ]
    if peer:
        figures.append(ratio("start.srt", "a warm start, of `srt true`", {**warm, "srt": times["srt"]}, most(1)))
    figures += [
        median(f"stage.{name}", f"of a warm start: {name}", "ms", [one[name] for one in told]) for name in STAGES
    ]
    return Found(figures, absent)


if __name__ == "__main__":
    main(measure, 20)
