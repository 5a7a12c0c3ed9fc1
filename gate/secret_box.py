"""
Secrets on their way through a gate: from aisb to the bridge by a descriptor, and from there to squid's helper, in
memory alone.

The helper is squid's child and is started again whenever squid reads its configuration, so it asks each time. Only a
process of squid's own user gets an answer, over a socket that nothing outside of this container can see.
"""

from __future__ import annotations

import _socket
import os
import struct
from typing import TYPE_CHECKING

from gate.listening import listen_at, take_in

if TYPE_CHECKING:
    from gate.loop import Loop

DESCRIPTOR = 5
PATH = "/run/squid/secrets"
# Debian's and Ubuntu's number of the user `proxy`; the entrypoint checks it.
SQUID_UID = 13
LARGEST = 64 * 1024
_CREDENTIALS = struct.Struct("3i")


def take_secrets() -> bytes:
    """What aisb handed over; nobody who is started later has it. Raises OSError where there is nothing."""
    try:
        return os.pread(DESCRIPTOR, LARGEST, 0)
    finally:
        os.close(DESCRIPTOR)


def offer(loop: Loop, secrets: bytes) -> None:
    """Give the secrets to whoever asks as squid's user."""

    def on_socket(socket: _socket.socket) -> None:
        try:
            peer = socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(peer)[1] == SQUID_UID:
                # Fits into the socket's buffer whole.
                socket.send(secrets)
        except OSError:
            # The helper that asked is gone; the next one asks again.
            pass
        finally:
            socket.close()

    take_in(loop, listen_at(PATH, 0o666, 8), on_socket)


def fetch() -> bytes:
    """The secrets, from the bridge. Raises OSError where it cannot be asked."""
    data = b""
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        socket.connect(PATH)
        while piece := socket.recv(LARGEST):
            data += piece
    finally:
        socket.close()
    return data
