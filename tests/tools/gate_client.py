"""What a sandbox says to its gate's socket, and what it hears."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 8.0


class Heard(NamedTuple):
    """All that came until the other side closed, or until nothing came for a while."""

    data: bytes
    seconds: float
    is_closed: bool

    @property
    def status(self) -> int:
        """The status of the first HTTP answer, 0 where there was none."""
        words = self.data.split(b" ", 2)
        return int(words[1]) if words[0].startswith(b"HTTP/1.") and words[1:] else 0


@contextlib.contextmanager
def connected(path: str, seconds: float = SECONDS) -> Iterator[socket.socket]:
    """A connection to the socket at `path`."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        client.connect(path)
        yield client


def listen(client: socket.socket, *, until: bytes = b"", seconds: float = SECONDS) -> Heard:
    """What comes until it is closed, until `until` has come, or until it has been silent for so long."""
    begun = time.monotonic()
    client.settimeout(seconds)
    data = b""
    while not until or until not in data:
        try:
            piece = client.recv(65536)
        except TimeoutError:
            return Heard(data, time.monotonic() - begun, is_closed=False)
        except OSError:
            piece = b""
        if not piece:
            return Heard(data, time.monotonic() - begun, is_closed=True)
        data += piece
    return Heard(data, time.monotonic() - begun, is_closed=False)


def say(path: str, words: bytes, **how: object) -> Heard:
    """Say something and listen to all that comes."""
    with connected(path) as client:
        client.sendall(words)
        return listen(client, **how)  # type: ignore[arg-type]  # the keywords of listen


def get(url: str, *headers: str, host: str = "") -> bytes:
    """A GET as one sends it to a proxy."""
    name = host or url.removeprefix("http://").partition("/")[0]
    return "\r\n".join([f"GET {url} HTTP/1.1", f"Host: {name}", *headers, "", ""]).encode()


def get_and_close(url: str, *headers: str, host: str = "") -> bytes:
    """The same, as the last request of its connection."""
    return get(url, "Connection: close", *headers, host=host)


def connect(authority: str) -> bytes:
    """A CONNECT."""
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()


def tunnel(client: socket.socket, authority: str) -> Heard:
    """Ask for a tunnel; the head of the answer."""
    client.sendall(connect(authority))
    return listen(client, until=b"\r\n\r\n")


def through_tunnel(path: str, authority: str, words: bytes, seconds: float = SECONDS) -> Heard:
    """Say something in a tunnel and listen to all that comes back in it."""
    with connected(path) as client:
        answer = tunnel(client, authority)
        assert answer.status == 200, answer
        client.sendall(words)
        return listen(client, seconds=seconds)


UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE


def https(path: str, authority: str, sni: str | None, url: str = "/", host: str = "") -> Heard:
    """A GET over TLS through a tunnel to `authority`, with `sni` in the hello. Cut in the handshake: status 0."""
    begun = time.monotonic()
    with connected(path) as client:
        answer = tunnel(client, authority)
        if answer.status != 200:
            return answer
        try:
            with UNVERIFIED.wrap_socket(client, server_hostname=sni) as secure:
                secure.sendall(get_and_close(url, host=host or authority.partition(":")[0]))
                # The servers here keep a connection: one answer is all.
                return listen(secure, until=b"\n", seconds=SECONDS)
        except (ssl.SSLError, ConnectionError):
            return Heard(b"", time.monotonic() - begun, is_closed=True)


class Flood:
    """Connections on each of which, after `first`, the same request is sent again and again, while answers are read."""

    def __init__(self, path: str, words: bytes, connections: int, first: bytes = b"") -> None:
        self.answered = 0
        self._words = words
        self._first = first
        self._ends = threading.Event()
        self._sent = {self._dial(path): 0 for _ in range(connections)}
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ends.set()
        self._thread.join()
        for client in self._sent:
            client.close()

    def _dial(self, path: str) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(self._first)
        client.setblocking(False)
        return client

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for client in self._sent:
                selector.register(client, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while not self._ends.is_set():
                for key, events in selector.select(0.1):
                    with contextlib.suppress(BlockingIOError):
                        self._serve(key.fileobj, events)  # type: ignore[arg-type]  # the sockets from above

    def _serve(self, client: socket.socket, events: int) -> None:
        if events & selectors.EVENT_READ:
            self.answered += client.recv(65536).count(b"HTTP/1.1 200 ")
        if events & selectors.EVENT_WRITE:
            self._sent[client] += client.send(self._words[self._sent[client] % len(self._words) :])
