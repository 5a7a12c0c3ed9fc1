"""A bridge for tests: speaks the wire on a unix socket, allows what it was told to, and remembers all it was asked."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROBE = "ok.aisb.internal"
DENIED = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 8\r\nConnection: close\r\n\r\nnot you\n"
)


class FakeBridge:
    """Allows `names` on every port; each allowed connection is handed to `serve`."""

    def __init__(
        self,
        path: str,
        names: frozenset[str] = frozenset(),
        serve: Callable[[socket.socket, str], None] | None = None,
    ) -> None:
        self.path = path
        self.names = names | {PROBE}
        self.serve = serve or answer_http
        self.asked: list[str] = []
        self._clients: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        os.chmod(path, 0o666)
        self._listener.listen(1024)

    def run(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if error.errno != errno.EMFILE:
                    return
                # A test takes every descriptor of the process that both ends of it live in.
                continue
            self._clients.add(client)
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Stop listening, hang up on everybody, and take the socket away."""
        for end in (self._listener, *self._clients):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def _talk(self, client: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), client:
                self._answer(client)
        finally:
            self._clients.discard(client)

    def _answer(self, client: socket.socket) -> None:
        while True:
            head = read_head(client)
            if not head:
                return
            line = head.split(b"\r\n", 1)[0].decode()
            self.asked.append(line)
            method, target, _ = line.split(" ")
            if method == "RESOLVE":
                is_allowed = target in self.names
                client.sendall(b"AISB/1 200 allowed\r\n\r\n" if is_allowed else b"AISB/1 403 dns\r\n\r\n")
                continue
            host = target.removeprefix("http://").partition("/")[0]
            if host.rpartition(":")[0] not in self.names and host not in self.names:
                client.sendall(DENIED)
                return
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self.serve(client, host)
            else:
                send_page(client, host)
            return


def read_head(client: socket.socket) -> bytes:
    """A request's head, up to its empty line; nothing when the client went away."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            return b""
        head += byte
    return head


def answer_http(client: socket.socket, host: str) -> None:
    """One page, by the name that was meant."""
    if read_head(client):
        send_page(client, host)


def send_page(client: socket.socket, host: str) -> None:
    """An HTTP answer whose body is the name that was meant."""
    body = f"{host}\n".encode()
    client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@contextlib.contextmanager
def fake_bridge(
    path: str, *names: str, serve: Callable[[socket.socket, str], None] | None = None
) -> Iterator[FakeBridge]:
    """A bridge that listens at `path` while the block runs."""
    bridge = FakeBridge(path, frozenset(names), serve)
    thread = threading.Thread(target=bridge.run, daemon=True)
    thread.start()
    try:
        yield bridge
    finally:
        bridge.close()
        thread.join(5)
