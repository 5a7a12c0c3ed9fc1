"""
Connects to a port of the host, by a socket that aisb listens on in the run's own directory.

Nothing of the host's network is in the gate. The sandbox does not see that directory: what gets there was judged.
"""

from __future__ import annotations

import _socket
from typing import TYPE_CHECKING

from gate.ends import HostEnd
from gate.loop import READ, receive

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

# The forwarder's first byte: whether somebody listens at that port.
REACHED = b"+"
# It dials the machine that it is on.
ANSWER_SECONDS = 10.0


class HostCall:
    """One connection to the forwarder. `then(host)` is called once, with None where nobody listens there."""

    def __init__(self, loop: Loop, path: str, then: Callable[[HostEnd | None], None]) -> None:
        self._loop = loop
        self._then = then
        self._timer = loop.after(ANSWER_SECONDS, self._fail)
        self._host = host = HostEnd(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        try:
            host.connect(path)
        except OSError:
            # No such port, no aisb, or a full queue. Heard by the caller from the loop, like every other end of a call.
            self._timer.cancel()
            self._timer = loop.after(0.0, self._fail)
            return
        loop.watch(host.fileno(), READ, lambda _: self._on_answer())

    def cancel(self) -> None:
        """Give the call up; `then` is not called."""
        self._timer.cancel()
        self._loop.forget(self._host.fileno())
        self._host.close()

    def _on_answer(self) -> None:
        answer = receive(self._host, 1)
        if answer is None:
            return
        if answer != REACHED:
            self._fail()
            return
        self._timer.cancel()
        self._loop.forget(self._host.fileno())
        self._then(self._host)

    def _fail(self) -> None:
        self.cancel()
        self._then(None)
