"""Connects to the gate's socket."""

from __future__ import annotations

import _socket
import time

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

RETRY_SECONDS = 0.01


def dial(loop: Loop, path: str, seconds: float, then: Callable[[_socket.socket | None], None]) -> None:
    """
    Call `then` with a connected, non-blocking socket, or with None when nobody listens at `path`.

    A unix socket connects at once or not at all, but for one case: the queue of the listener is
    full. Nothing tells when there is room again, so that is tried anew for at most `seconds`.
    """
    _attempt(loop, path, time.monotonic() + seconds, then)


def _attempt(loop: Loop, path: str, deadline: float, then: Callable[[_socket.socket | None], None]) -> None:
    socket = None
    try:
        socket = _connected(path)
    except BlockingIOError:
        if time.monotonic() < deadline:
            loop.after(RETRY_SECONDS, lambda: _attempt(loop, path, deadline, then))
            return
    except OSError:
        # Nobody listens, or there is no descriptor left: the same for the client.
        pass
    then(socket)


def _connected(path: str) -> _socket.socket:
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    try:
        socket.connect(path)
    except OSError:
        socket.close()
        raise
    return socket
