"""
Tries everything that `aisb doctor --deep` does in two containers that podman encloses as little as it can, one on the
host's own network and one whose network is its own, and prints the verdicts: what passes here proves nothing.

Runs on a host, by the Python that aisb is installed for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from aisb.domain.attempts import SANDBOX, judge, parse_report
from aisb.effects.deep import COMMAND, INJECTED, Ground, ground, in_gate, left_out, program
from aisb.effects.process import SystemRunner
from aisb.effects.state import directories

PODMAN = "/usr/bin/podman"
NETWORKS = ("host", "none")
# Here it is silence that is met with, again and again. Of the same length, which the program begins with.
SOONER = (b"SECONDS = 10.0", b"SECONDS = 00.2")


def image() -> str:
    """The newest image of a sandbox that has all of it."""
    argv = (PODMAN, "images", "--filter", "label=aisb.role=sandbox", "--sort", "created", "--format", "{{.ID}}")
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()[0]


def name_of(network: str) -> str:
    """What the container is called, so that none is left however its podman ends."""
    return f"open-{network}-{os.getpid()}"


def opened(place: Ground, network: str) -> tuple[str, ...]:
    """podman's argv for such a container, which has the value itself in a variable."""
    beside = os.path.dirname(place.project)
    return (
        PODMAN, "run", "--rm", "--interactive", f"--name={name_of(network)}", "--pull=never", "--privileged", f"--network={network}",
        "--mount", f"type=bind,src={place.project},dst=/project",
        "--mount", f"type=bind,src={beside},dst={beside}",
        "--workdir=/project", "--user=0", "--entrypoint=",
        "--env", f"{INJECTED}={'0' * 40}", "--env", f"OTHER={place.secret}",
        image(), *COMMAND,
    )  # fmt: skip


def tried(network: str) -> dict[str, str]:
    """The verdict of each attempt of which something was said in a container with that network."""
    with ground(directories(os.environ)) as place:
        words = program(place.given("somebody", left_out(("pids-limit",), ""))).replace(*SOONER)
        said = in_gate(opened(place, network), words, SystemRunner())
        remove = (PODMAN, "rm", "--force", "--ignore", "--time=0", name_of(network))
        subprocess.run(remove, capture_output=True, check=True)
        seen = {**parse_report(said, SANDBOX), **place.seen()}
    return {result.attempt: result.verdict for result in judge(seen, {}) if result.attempt in seen}


def main() -> None:
    """Both at once."""
    with ThreadPoolExecutor() as pool:
        json.dump(dict(zip(NETWORKS, pool.map(tried, NETWORKS), strict=True)), sys.stdout)


if __name__ == "__main__":
    main()
