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
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from gate import PROXY, RULED, SPLICED, Speaker, policy  # noqa: E402  # the bench's, found by the path above


def main() -> None:
    """Say of each kind what became of it; exit 1 where one was cut."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=60)
    seconds = int(60 * parser.parse_args().minutes)
    shutil.copy(f"{HERE}/client.py", "client.py")
    own = ("--policy", policy(), "--allow", f"{SPLICED}:5432")
    with Speaker(["aisb", "-q", *own, "--", "python3", "-I", "-S", "/project/client.py"]) as client:
        found = client.ask("silence", passed=SPLICED, ruled=RULED, way=PROXY, seconds=seconds)
    for kind, fault in found.items():
        print(f"  {kind:<46} silent for {seconds} s: {fault or 'goes on'}")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
