"""Listening sockets of the gate's bridge, and the connections that come in on them."""

from __future__ import annotations

import _socket
import os
from typing import TYPE_CHECKING, TypeVar

from gate.loop import READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop

Kind = TypeVar("Kind", bound=_socket.socket)


def listen_on_loopback(port: int) -> _socket.socket:
    """A listener on 127.0.0.1."""
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(1024)
    return listener


def listen_at(path: str, mode: int, backlog: int) -> _socket.socket:
    """A listener at a path, in place of whatever is there. Raises OSError."""
    remove(path)
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    try:
        listener.bind(path)
        os.chmod(path, mode)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


def accept(listener: _socket.socket, kind: type[Kind]) -> Kind:
    """The next connection, non-blocking, as a socket of this kind. Raises BlockingIOError where there is none."""
    descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # in CPython since 3.0, not in the stubs
    socket = kind(listener.family, listener.type, 0, descriptor)
    socket.setblocking(False)
    return socket


def take_in(loop: Loop, listener: _socket.socket, on_socket: Callable[[_socket.socket], None]) -> None:
    """Hand on each connection that comes in. One that is gone again, or for which there is no descriptor, is left."""

    def on_event(_events: int) -> None:
        try:
            socket = accept(listener, _socket.socket)
        except OSError:
            return
        on_socket(socket)

    loop.watch(listener.fileno(), READ, on_event)


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
