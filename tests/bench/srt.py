"""Anthropic's sandbox-runtime, as tests/bench/peers has installed it: with the same policy, shown before anything is measured."""

from __future__ import annotations

import json
import os
import subprocess
import time

from tests.bench.measuring import PEERS, write

ALLOWED, DENIED = "allowed.test", "evil.test"
SETTINGS = {
    "network": {"allowedDomains": [ALLOWED, f"*.{ALLOWED}"], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
}
_SECONDS = 60


class Absent(Exception):
    """Why it cannot be measured, in its own words."""


def environment() -> dict[str, str]:
    """With what it needs of the distribution's packages, from the bench's own folder where the host has none."""
    libraries = f"{PEERS}/root/usr/lib/{os.uname().machine}-linux-gnu"
    path = f"{PEERS}/srt/node_modules/.bin:{os.environ['PATH']}:{PEERS}/root/usr/bin"
    return os.environ | {"PATH": path, "LD_LIBRARY_PATH": libraries, "CURL_CA_BUNDLE": os.environ.get("LAB_CA", "")}


def command(*words: str) -> list[str]:
    """The command line that has it run these words. Raises Absent where it does not do what aisb does."""
    argv = ["srt", "--settings", write("~/srt.json", json.dumps(SETTINGS))]
    for name, allowed in ((ALLOWED, True), (DENIED, False)):
        done = _run([*argv, "curl", "--silent", "--show-error", "--fail", "--max-time", "20", f"https://{name}/"])
        if (done.returncode == 0) != allowed:
            what = "does not lead to" if allowed else "lets through"
            raise Absent(f"srt {what} {name}: {done.stderr.strip() or done.stdout.strip()}"[:500])
    return [*argv, *words]


def seconds(argv: list[str]) -> float:
    """How long it takes. Raises Absent where it fails."""
    began = time.monotonic()
    done = _run(argv)
    if done.returncode:
        raise Absent(f"{' '.join(argv[-1:])}: {done.stderr.strip()}"[:500])
    return time.monotonic() - began


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(str(error)) from error
