#!/usr/bin/python3
"""
How long aisb takes to say something: its help, what runs, what the doctor finds.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/words.py [--pairs N] [--json]'

Run as the user whose podman it is, with aisb on the PATH.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import median, most
from tests.bench.measuring import Found, main, seconds, turns

# Seconds that each may take.
COMMANDS = {
    "--version": 0.1, "--help": 0.1, "run --help": 0.1, "ps --help": 0.3, "policy check --help": 0.3, "doctor --help": 0.3,
    "ps": 1.0, "doctor": 3.0, "doctor --deep": 20.0,
}  # fmt: skip


def measure(pairs: int) -> Found:
    """Each in turn."""
    for words in COMMANDS:
        if "deep" not in words:
            seconds("aisb", *words.split())
    times = turns(pairs, {words: lambda words=words: 1000 * seconds("aisb", *words.split()) for words in COMMANDS})
    return Found(
        [
            median(f"words.{words.replace(' ', '-')}", f"`aisb {words}`", "ms", times[words], most(1000 * bound))
            for words, bound in COMMANDS.items()
        ]
    )


if __name__ == "__main__":
    main(measure)
