"""
Answers that last: events that come one by one when they are called for, and a WebSocket that repeats what it gets.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import threading
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

# An event that nobody calls for ends its stream.
CALL_SECONDS = 120
_PROTOCOL = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE = 8

_calls: dict[str, threading.Semaphore] = {}


def call(key: str) -> None:
    """
    Let the next event of the stream with this key go.
    """
    _calls.setdefault(key, threading.Semaphore(0)).release()


def events(connection: socket.socket, key: str, count: int) -> None:
    """
    The first event at once, each later one when it is called for.
    """
    called = _calls.setdefault(key, threading.Semaphore(0))
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(head.encode())
    for number in range(count):
        if number and not called.acquire(timeout=CALL_SECONDS):
            return
        event = f"data: {number}\n\n"
        connection.sendall(f"{len(event):x}\r\n{event}\r\n".encode())
    connection.sendall(b"0\r\n\r\n")


def websocket(connection: socket.socket, reader: BinaryIO, headers: Mapping[str, str]) -> None:
    """
    RFC 6455, as far as a client needs that sends whole messages: each one comes back.
    """
    digest = hashlib.sha1(headers.get("sec-websocket-key", "").encode() + _PROTOCOL, usedforsecurity=False).digest()
    accept = base64.b64encode(digest).decode()
    head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    connection.sendall(f"{head}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while len(start := reader.read(2)) == 2:
        length = start[1] & 0x7F
        extended = {126: "!H", 127: "!Q"}.get(length)
        if extended:
            length = struct.unpack(extended, reader.read(struct.calcsize(extended)))[0]
        mask, data = reader.read(4), reader.read(length)
        # The mask, as often as the message is long.
        pad = (mask * (length // 4 + 1))[:length]
        plain = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(length, "big")
        connection.sendall(start[:1] + _length_of(length) + plain)
        if start[0] & 0xF == _CLOSE:
            return


def _length_of(length: int) -> bytes:
    if length < 126:
        return bytes([length])
    return b"\x7e" + struct.pack("!H", length) if length < 1 << 16 else b"\x7f" + struct.pack("!Q", length)
