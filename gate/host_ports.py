"""
Runs on the host, beside aisb: leads what comes to a run's doors to ports of the host's loopback, and who comes to its
published ports into the sandbox. It ends when aisb does.

A door is a unix socket for one port, in a directory that the gate sees and the sandbox does not.
"""

from __future__ import annotations

import _socket
import os
import resource
import sys

from gate.loop import READ, Loop
from gate.loopback import Caller, Intake

# As `typing` has it, whose import would take 15 ms of a start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Descriptors that aisb hands on: a pipe that ends with it, then those of each argument, in order.
LIFE = 3
FIRST = 4
_NAME = b"sandbox-ports"
# Two for each of the connections that a gate takes for one run, and for each that is published at once.
_DESCRIPTORS = 4096


def end(_events: int) -> None:
    """aisb is gone, however it went."""
    os._exit(0)


def leave_terminal() -> None:
    """Go on without terminal and streams, under a name that no `pkill aisb` means."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)
    with open("/proc/self/comm", "wb", buffering=0) as name:
        name.write(_NAME)


def serve(words: Sequence[str], first: int, life: int, stop: Callable[[int], None] = end) -> None:
    """
    Serve until the descriptor `life` hangs up.

    A word is a port of the host, and has a door; or HOST:PORT, which is published, and has a listener at the host's
    port, and the socket by which the sandbox offers to lead to its own. Their descriptors begin with `first`.
    """
    loop = Loop()
    loop.watch(life, READ, stop)
    room = None
    for word in words:
        listener = _listener(first)
        if ":" not in word:
            lead_to_host(loop, listener, int(word))
            first += 1
            continue
        # Few runs publish anything.
        from gate.guests import Published, Room

        room = room or Room()
        Published(loop, listener, _listener(first + 1), room)
        first += 2
    loop.run()


def lead_to_host(loop: Loop, door: _socket.socket, port: int) -> None:
    """Lead whoever comes to this door to that port."""
    Intake(loop, door, lambda client: Caller(loop, client, port).dial())


def _listener(descriptor: int) -> _socket.socket:
    """What aisb has opened."""
    return _socket.socket(fileno=descriptor)


def main() -> None:
    """The arguments are the words of `serve`."""
    leave_terminal()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))
    serve(sys.argv[1:], FIRST, LIFE)
