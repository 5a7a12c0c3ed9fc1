"""
Programs in a sandbox, each as a user types it: what each said, how it ended and how long that took.

Standard library only. Sent whole to a `python3 -`, followed by a call of `main`. Nothing here judges.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Ended = tuple[int | None, str, float]
PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
# What one of them gets ready for all of its calls.
TOOLS = "/tmp/tools"
AT_ONCE = 3
PREPARE_SECONDS = 300
VERSION_SECONDS = 60
SHOWN_BYTES = 4000


def main(programs: Mapping[str, Mapping[str, Any]]) -> None:
    """Each program's calls one after the other, the programs side by side."""
    os.makedirs(f"{TOOLS}/bin")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        said = pool.map(lambda name: calls_of(**programs[name]), programs)
        json.dump(dict(zip(programs, said, strict=True)), sys.stdout)


def calls_of(prepare: str, version: str, calls: Mapping[str, Sequence[Any]]) -> dict[str, Ended]:
    """What its version is, and what came of each call; with nothing prepared there are none."""
    prepared = call(prepare or ":", {}, "allowed.test", False, PREPARE_SECONDS)
    if prepared[0] != 0:
        return {"prepare": prepared}
    return {
        "version": call(version, {}, "", False, VERSION_SECONDS),
        **{name: call(*given) for name, given in calls.items()},
    }


def call(script: str, files: Mapping[str, str], site: str, bare: bool, seconds: float) -> Ended:
    """Exit code (None: not in time), the end of what it printed, seconds; in a home and a directory of its own."""
    # What was left of its session may still write while it is taken away.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as top:
        home, place = f"{top}/home", f"{top}/work"
        shutil.copytree(os.path.expanduser("~"), home, symlinks=True)
        os.mkdir(place)
        for path, text in files.items():
            target = path.replace("~", home, 1) if path.startswith("~") else f"{place}/{path}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text.replace("$SITE", site))
        variables = {name: value for name, value in os.environ.items() if not (bare and name in PROXY_VARIABLES)}
        own = {"HOME": home, "SITE": site, "TOOLS": TOOLS, "PATH": f"{TOOLS}/bin:{os.environ['PATH']}"}
        return ended(("sh", "-euc", script), variables | own, place, seconds)


def ended(argv: Sequence[str], environment: Mapping[str, str], place: str, seconds: float) -> Ended:
    """A command in a session of its own, of which nothing is left."""
    with tempfile.TemporaryFile() as said:
        began = time.monotonic()
        process = subprocess.Popen(
            argv, env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        took = time.monotonic() - began
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(max(0, said.seek(0, os.SEEK_END) - SHOWN_BYTES))
        return code, said.read().decode(errors="replace"), took
