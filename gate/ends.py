"""
The two ends of a connection through the gate: what came from the sandbox, and what leads to squid.

Both are ordinary sockets to the pump that joins them, with what squid makes necessary added: bytes are
counted for the record, and two of squid's habits are kept from the client.
"""

from __future__ import annotations

import _socket
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

# squid ends a whole tunnel, answer and all, when the client has said its last word. So the end of the
# client's direction is passed on only when nothing has come back for this long.
QUIET_SECONDS = 2.0

# A TLS record is an alert or a handshake in the beginning. What squid itself has to say is neither.
_FIRST_OF_TLS = (0x15, 0x16)


class ClientEnd(_socket.socket):
    """The sandbox's end, which counts what came from it."""

    taken = 0

    def recv_into(self, buffer: bytearray, nbytes: int = 0, flags: int = 0) -> int:  # type: ignore[override]  # one kind of buffer
        """As usual."""
        count = super().recv_into(buffer, nbytes, flags)
        self.taken += count
        return count

    def is_gone(self) -> bool:
        """Whether the other side has closed altogether, not only its own direction."""
        poll = select.poll()
        poll.register(self.fileno(), 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))


class HostEnd(_socket.socket):
    """The end that leads to a port of the host: counts, and is otherwise as any socket."""

    taken = 0

    def serve(self, _loop: Loop, _client: ClientEnd, must_be_tls: bool) -> None:
        """Nothing is to be known of the client."""

    def recv_into(self, buffer: bytearray, nbytes: int = 0, flags: int = 0) -> int:  # type: ignore[override]  # one kind of buffer
        """As usual."""
        count = super().recv_into(buffer, nbytes, flags)
        self.taken += count
        return count


class SquidEnd(_socket.socket):
    """squid's end: counts, holds the client's end back for a moment, and lets no error page into TLS."""

    taken = 0
    must_be_tls = False
    _client_is_gone: Callable[[], bool] = staticmethod(lambda: True)
    _loop: Loop | None = None
    _taken_before = 0

    def serve(self, loop: Loop, client: ClientEnd, must_be_tls: bool) -> None:
        """Say for whom, before the pump starts."""
        self._loop = loop
        self._client_is_gone = client.is_gone
        self.must_be_tls = must_be_tls

    def recv_into(self, buffer: bytearray, nbytes: int = 0, flags: int = 0) -> int:  # type: ignore[override]  # one kind of buffer
        """As usual, but an OSError where TLS has to come and something else does."""
        count = super().recv_into(buffer, nbytes, flags)
        if self.must_be_tls and not self.taken and count and buffer[0] not in _FIRST_OF_TLS:
            raise OSError("squid has something to say where only TLS belongs")
        self.taken += count
        return count

    def shutdown(self, how: int) -> None:
        """End the direction to squid, as soon as squid has been silent for a while or the client is gone."""
        if self._loop is None or self._client_is_gone():
            super().shutdown(how)
        else:
            self._wait_for_quiet(self._loop, how)

    def _wait_for_quiet(self, loop: Loop, how: int) -> None:
        self._taken_before = self.taken
        loop.after(QUIET_SECONDS, lambda: self._when_quiet(loop, how))

    def _when_quiet(self, loop: Loop, how: int) -> None:
        if self.fileno() < 0:
            return
        if self.taken != self._taken_before and not self._client_is_gone():
            self._wait_for_quiet(loop, how)
            return
        try:
            super().shutdown(how)
        except OSError:
            # Reset meanwhile: the pump will see it.
            return
