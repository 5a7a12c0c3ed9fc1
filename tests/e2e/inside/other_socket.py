"""
Runs inside a sandbox: looks for a way to another run's gate socket, whose paths on the host are the arguments.

Prints what each socket that answers says to a name that only the other run may reach.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys

OWN = "/run/aisb/gate/gate.sock"


def ask(path: str, name: str) -> str:
    """What the gate behind a socket says to a name."""
    with socket.socket(socket.AF_UNIX) as gate:
        gate.settimeout(10)
        gate.connect(path)
        gate.sendall(f"RESOLVE {name} AISB/1\r\n\r\n".encode())
        return gate.recv(4096).partition(b"\r\n")[0].decode()


def places(host_paths: list[str]) -> list[str]:
    """Where the other's socket might be: as on the host, as in the gate, beside one's own, in an abstract name."""
    found = []
    for path in host_paths:
        inside = "/run/aisb" + path.partition("/aisb/g/")[2][12:]
        for place in (path, inside, inside.replace("/run/aisb/", "/run/aisb/gate/../../../")):
            found += [place, "\0" + place, f"/proc/1/root{place}", f"/proc/self/cwd{place}"]
    for directory, _, names in os.walk("/"):
        if directory.startswith(("/proc", "/sys")):
            continue
        with contextlib.suppress(OSError):
            found += [path for path in (f"{directory}/{name}" for name in names) if is_socket(path)]
    return [place for place in found if os.path.realpath(place.strip("\0")) != OWN and len(place) < 108]


def is_socket(path: str) -> bool:
    """Whether there is a socket."""
    return os.stat(path, follow_symlinks=False).st_mode & 0o170000 == 0o140000


def main() -> None:
    """Try every place."""
    tries = places(sys.argv[1:])
    reached = []
    for place in tries:
        with contextlib.suppress(OSError):
            reached.append([place, ask(place, "evil.test")])
    report = {name: ask(OWN, name) for name in ("evil.test", "allowed.test")}
    print(json.dumps(report | {"tried": len(tries), "reached": reached}))


if __name__ == "__main__":
    main()
