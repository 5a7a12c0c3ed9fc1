"""
The server that the bench asks, quick enough not to be what is measured.

    origin.py AUTHORITY PORT ECHO_PORT

AUTHORITY is a folder with a key and certificates, `NAME.pem` each.

`/secret` is answered where the request holds the bench's secret, and cut elsewhere; `/bulk/N` is N bytes; `/stream/N` is a first piece at once and the rest N seconds later; all else is a short answer. On the
other port everything comes back.
Says a line when it listens, and ends with its standard input.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import sys
import threading
import time
from typing import Any

SHORT = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
SECRET = b"Authorization: Bearer the-secret-of-the-bench\r\n"
PIECE = bytes(1 << 18)


class Server:
    """One thread for short answers; a long one has a thread of its own."""

    def __init__(self, authority: str, port: int) -> None:
        self._authority = authority
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._tls = self._context("ruled.bench.test")
        self._tls.sni_callback = self._choose
        self._listener = socket.create_server(("0.0.0.0", port), backlog=1024)
        self._listener.setblocking(False)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._clients: dict[int, ssl.SSLSocket] = {}

    def _context(self, name: str) -> ssl.SSLContext:
        if name not in self._contexts:
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            made.load_cert_chain(f"{self._authority}/{name}.pem", f"{self._authority}/server.key")
            made.set_alpn_protocols(["http/1.1"])
            self._contexts[name] = made
        return self._contexts[name]

    def _choose(self, secure: Any, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            secure.context = self._context(name)

    def serve(self) -> None:
        """For ever."""
        while True:
            for number, _ in self._poll.poll():
                if number == self._listener.fileno():
                    self._take_in()
                else:
                    self._on_client(number)

    def _take_in(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = self._tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        self._clients[secure.fileno()] = secure
        self._poll.register(secure, select.EPOLLIN)

    def _on_client(self, number: int) -> None:
        client = self._clients[number]
        try:
            while data := client.recv(65536):
                # The requests of the bench come whole.
                path = data.split(b" ", 2)[1]
                if path == b"/secret" and SECRET not in data:
                    break
                if path.startswith((b"/bulk/", b"/stream/")):
                    self._forget(number)
                    threading.Thread(target=send_long, args=(client, path), daemon=True).start()
                    return
                client.send(SHORT * data.count(b"\r\n\r\n"))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except (OSError, IndexError):
            # Whoever ends in the middle of something ends like everybody else.
            pass
        self._forget(number)
        client.close()

    def _forget(self, number: int) -> None:
        self._poll.unregister(number)
        del self._clients[number]


def send_long(client: ssl.SSLSocket, path: bytes) -> None:
    """One long answer, and the end of the connection."""
    try:
        with client:
            client.setblocking(True)
            count = int(path.rpartition(b"/")[2])
            if path.startswith(b"/stream/"):
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nfirst")
                time.sleep(count)
                client.sendall(b"\r\n\r\nok")
                return
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % count)
            for _ in range(count // len(PIECE)):
                client.sendall(PIECE)
    except OSError:
        # The client has heard enough.
        return


def echo(listener: socket.socket) -> None:
    """Everything comes back, on each connection."""

    def one(client: socket.socket) -> None:
        with client:
            while data := client.recv(65536):
                client.sendall(data)

    while True:
        threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()


def end_with_stdin() -> None:
    """Whoever started this is gone."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """See the module."""
    server = Server(sys.argv[1], int(sys.argv[2]))
    threading.Thread(target=end_with_stdin, daemon=True).start()
    threading.Thread(target=echo, args=(socket.create_server(("0.0.0.0", int(sys.argv[3]))),), daemon=True).start()
    print("ready", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
