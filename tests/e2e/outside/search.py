"""
Runs on a host, in the account's user namespace (`podman unshare`): where a secret has left a trace.

    python3 search.py SINCE        the needles on stdin, one a line

Looks at every file that has changed since SINCE (seconds since 1970) below the places where podman and aisb keep
things, at the arguments of every process, and at the environments of podman and what it starts. A needle is looked
for as it is, in hex, and in base64 at all three offsets. Prints the places.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# The processes that podman starts for a container, and podman itself: none of them has the caller's variables.
PODMANS = {"conmon", "crun", "podman", "pasta", "pasta.avx2", "slirp4netns", "rootlessport", "setpriv", "catatonit"}


def forms(needle: str) -> set[bytes]:
    """How a text of 16 letters or more may be written down."""
    raw = needle.encode()
    encoded = {base64.b64encode(b" " * offset + raw)[4:-4] for offset in range(3)}
    return {raw, raw.hex().encode(), *encoded}


def places() -> list[str]:
    """Where podman and aisb keep things."""
    runtime = os.environ["XDG_RUNTIME_DIR"]
    found = [os.environ["HOME"], os.environ["XDG_CACHE_HOME"], runtime, "/home/aisb-lab/store", "/tmp", "/var/tmp"]
    return [*found, "/dev/shm", "/run/containers", "/var/log"]


def changed(since: float) -> Iterator[str]:
    """Every regular file that has changed."""
    for place in places():
        for directory, below, names in os.walk(place):
            if directory.endswith("/store/overlay"):
                # Only the layer of a container is written to, and that is a new directory here.
                below[:] = [name for name in below if os.lstat(f"{directory}/{name}").st_ctime >= since]
            for name in names:
                with contextlib.suppress(OSError):
                    path = f"{directory}/{name}"
                    status = os.lstat(path)
                    if stat.S_ISREG(status.st_mode) and max(status.st_mtime, status.st_ctime) >= since:
                        yield path


def processes() -> Iterator[str]:
    """What of processes can be read by others of the same user: arguments, and podman's environments."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield f"/proc/{name}/cmdline"
            with contextlib.suppress(OSError), open(f"/proc/{name}/comm", encoding="utf-8") as file:
                if file.read().strip() in PODMANS:
                    yield f"/proc/{name}/environ"


def holds(path: str, needles: set[bytes]) -> bool:
    """Whether one of the needles is in a file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        rest = b""
        while data := file.read(1 << 20):
            if any(needle in rest + data for needle in needles):
                return True
            rest = data[-4096:]
    return False


def main() -> None:
    """Search."""
    since = float(sys.argv[1])
    needles = {form for needle in sys.stdin.read().split() for form in forms(needle)}
    print(json.dumps([path for path in [*changed(since), *processes()] if holds(path, needles)]))


if __name__ == "__main__":
    main()
