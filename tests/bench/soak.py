#!/usr/bin/python3
"""
Streams on which nothing is said for an hour, in a real sandbox: none of them may be cut.

    tests/bench/with_origin.py HOST tests/lab/run 'python3 "$LAB_TREE"/tests/bench/soak.py [--minutes N]'

What stands between the two ends (relay, bridge, squid, podman's network) each has times of its own. The tests look at
what is rendered, and at a sixtieth of it; this looks at the clock.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.measuring import (  # found by the path above
    CLIENT,
    PROXY,
    RULED,
    SPLICED,
    Speaker,
    policy,
    put_client,
)


def main() -> None:
    """Say of each kind what became of it; exit 1 where one was cut."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=60)
    seconds = int(60 * parser.parse_args().minutes)
    put_client()
    with Speaker(["aisb", "-q", "--policy", policy(), "--", "python3", *CLIENT]) as client:
        found = client.ask("silence", passed=SPLICED, ruled=RULED, way=PROXY, seconds=seconds)
    for kind, fault in found.items():
        print(f"  {kind:<46} silent for {seconds} s: {fault or 'goes on'}")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
