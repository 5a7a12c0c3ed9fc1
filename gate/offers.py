"""
Inside a sandbox: leads who comes to a published port of the host to the server here.

aisb listens in a directory that is read-only here, at a socket for each port. A few connections to each are kept with
it; a byte on one of them says that somebody has come. The port is dialled then, whoever listens there, and the
connection is that client's from there on. The relay does this beside its own work; where there is no relay, this is a
program of its own.
"""

from __future__ import annotations

import os
import resource

from gate.dial import dial
from gate.loop import READ, Loop, receive
from gate.loopback import Caller

# As `typing` has it, whose import would take 15 ms of a start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

# As aisb's side knows them.
COME = b"!"
AT_HAND = 8
# Two for each client that is led in at once, and those that are kept for later ones.
DESCRIPTORS = 1200
DIAL_SECONDS = 5.0
AGAIN_SECONDS = 0.5


class Offers:
    """Keeps connections with aisb for one published port."""

    def __init__(self, loop: Loop, path: str, port: int) -> None:
        self._loop = loop
        self._path = path
        self._port = port

    def begin(self) -> None:
        """Have all of them at hand."""
        for _ in range(AT_HAND):
            self._offer()

    def _offer(self) -> None:
        dial(self._loop, self._path, DIAL_SECONDS, self._on_dialled)

    def _on_dialled(self, offer: _socket.socket | None) -> None:
        if offer is None:
            self._loop.after(AGAIN_SECONDS, self._offer)
        else:
            self._loop.watch(offer.fileno(), READ, lambda _: self._on_word(offer))

    def _on_word(self, offer: _socket.socket) -> None:
        word = receive(offer, len(COME))
        if word is None:
            return
        self._loop.forget(offer.fileno())
        if word != COME:
            offer.close()
            self._loop.after(AGAIN_SECONDS, self._offer)
            return
        # For the next one.
        self._offer()
        Caller(self._loop, offer, self._port).dial()


def serve(loop: Loop, directory: str) -> None:
    """Lead clients in at each port that has a socket there, by its number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + DESCRIPTORS, hard), hard))
    for name in os.listdir(directory):
        Offers(loop, f"{directory}/{name}", int(name)).begin()


def main() -> None:
    """Serve until the sandbox ends, where no relay does."""
    from gate.relay import close_inherited, go_to_background, lead_in

    close_inherited()
    go_to_background()
    loop = Loop()
    lead_in(loop)
    loop.run()
