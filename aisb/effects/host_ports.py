"""
Ports of the host that a run may reach: a door for each in the run's directory, and a process of ours behind them.

The gate connects to the doors, after it has judged; the sandbox does not see their directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from aisb.assets import asset_path
from aisb.effects.process import spawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisb.effects.session import Session

_BACKLOG = 1024
_LIFE = 3
_FIRST_DOOR = 4
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gate.host_ports import main; main()"


@contextlib.contextmanager
def host_doors(session: Session, ports: Sequence[int]) -> Iterator[None]:
    """
    While the block runs, and no longer than we live, these ports of the loopback can be reached by the run's gate.

    The doors are open when the block begins: whoever comes before the process is ready waits in the queue.
    """
    if not ports:
        yield
        return
    os.mkdir(session.doors, 0o700)
    doors = [_door(f"{session.doors}/{port}") for port in ports]
    life, held = os.pipe2(os.O_CLOEXEC)
    try:
        child = spawn(forwarder_argv(ports), {_LIFE: life} | _numbered(doors), {})
    finally:
        os.close(life)
        for door in doors:
            door.close()
    try:
        yield
    finally:
        os.close(held)
        # It ends by itself as well, but nothing is to be waited for.
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def forwarder_argv(ports: Sequence[int]) -> tuple[str, ...]:
    """The process behind the doors: this Python, without anything of the user's."""
    folder = os.path.dirname(asset_path("gate"))
    return (sys.executable, "-I", "-S", "-c", _PROGRAM, folder, *map(str, ports))


def _numbered(doors: Sequence[socket.socket]) -> dict[int, int]:
    return {_FIRST_DOOR + index: door.fileno() for index, door in enumerate(doors)}


def _door(path: str) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    # The gate's first process is the caller as well.
    os.chmod(path, 0o600)
    door.listen(_BACKLOG)
    return door
