#!/usr/bin/python3
"""
What the bench is measured with, as one JSON object: versions of this host's programs, of the images' and of the peers'.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/versions.py'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench import srt
from tests.bench.measuring import MITMPROXY, PEERS, run

HOST = {
    "aisb": ("aisb", "--version"), "podman": ("podman", "--version"), "crun": ("crun", "--version"),
    "pasta": ("dpkg-query", "--show", "--showformat", "${Version}", "passt"), "slirp4netns": ("slirp4netns", "--version"), "python": ("python3", "--version"),
    "git": ("git", "--version"), "mitmproxy": (MITMPROXY, "--version"), "bubblewrap": ("bwrap", "--version"),
    "node of srt": ("node", "--version"),
}  # fmt: skip
IN_IMAGES = ("squid-openssl", "nftables", "nodejs", "python3", "tini", "git")


def first_line(argv: tuple[str, ...]) -> str:
    """The first line of what a program says of its version; "" where it is not there."""
    try:
        done = subprocess.run(
            argv, env=srt.environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True
        )
    except OSError:
        return ""
    return next(iter((done.stdout or done.stderr).splitlines()), "")


def of_images() -> dict[str, str]:
    """Packages of both images, by the image and their names."""
    found = {}
    for kind, image in json.loads(run("aisb", "inspect", "--packages")).items():
        for package in image.get("packages", ()) if isinstance(image, dict) else ():
            if package["name"] in IN_IMAGES:
                found[f"{kind}: {package['name']}"] = package["version"]
    return found


def of_srt() -> dict[str, str]:
    """The version of sandbox-runtime, by its own package file."""
    try:
        with open(f"{PEERS}/srt/node_modules/@anthropic-ai/sandbox-runtime/package.json", encoding="utf-8") as file:
            return {"srt": json.load(file)["version"]}
    except OSError:
        return {}


def main() -> None:
    """Print it."""
    host = {name: line for name, argv in HOST.items() if (line := first_line(argv))}
    print(json.dumps(host | of_srt() | of_images()))


if __name__ == "__main__":
    main()
