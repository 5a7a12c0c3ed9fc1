"""
Runs on the host, for aisb: looks up names, one a line on stdin, and prints their addresses as JSON.

As a process of its own, because nothing ends the system's resolver before its time: what it has not found in the
seconds that are given as an argument is not found.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time

_THREADS = 32


def addresses_of(name: str) -> list[str]:
    """The addresses of a name, as it stands: no domain is searched. None where it does not resolve."""
    try:
        found = socket.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def look_up(names: list[str], seconds: float) -> dict[str, list[str]]:
    """The addresses of each name that was found in time."""
    found: dict[str, list[str]] = {}
    waiting = list(reversed(names))
    deadline = time.monotonic() + seconds

    def work() -> None:
        while waiting:
            try:
                name = waiting.pop()
            except IndexError:
                # Another one has taken the last.
                return
            found[name] = addresses_of(name)

    threads = [threading.Thread(target=work, daemon=True) for _ in names[:_THREADS]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def main() -> None:
    """See the module."""
    found = look_up(sys.stdin.read().split(), float(sys.argv[1]))
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    # Without a word to threads that still wait.
    os._exit(0)
