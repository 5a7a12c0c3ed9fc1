"""
How a gate proves itself: questions to squid, past the bridge's own judgement, and what they must come to.

What is allowed has to arrive at a listener of the bridge's own on loopback, which only the built-in name
leads to, and what is not allowed has to be cut before it arrives. A probe that the bridge answered alone
would pass with squid wedged or wide open.
"""

from __future__ import annotations

import _socket
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.rules import OWN_SUFFIX, PROBE_NAME
from gate import ports
from gate.identity import proxy_header
from gate.listening import listen_on_loopback, take_in
from gate.loop import READ, WRITE, receive
from gate.pump import Farewell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gate.loop import Loop

# No run has this id: run ids are made at random, and this one is never taken.
RUN = "00000000"
REFUSED_NAME = f"refused.{OWN_SUFFIX}"
PROBE_SECONDS = 3.0
_RETRY_SECONDS = 0.01
_LONGEST = 65536
_NONCE_BYTES = 16
_TRIALS = 6

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
# To a TLS hello: a fatal alert, handshake_failure. There is no certificate to go on with.
_ALERT = b"\x15\x03\x01\x00\x02\x02\x28"


class Arrivals:
    """
    Which of the nonces that somebody waits for have arrived.

    A sandbox gets to the place where they arrive as well: of its own words nothing is kept.
    """

    def __init__(self) -> None:
        self._awaited: set[bytes] = set()
        self._arrived: set[bytes] = set()

    def await_all(self, nonces: Iterable[bytes]) -> None:
        """Keep these in mind."""
        self._awaited.update(nonces)

    def note(self, nonce: bytes) -> None:
        """This one has arrived."""
        if nonce in self._awaited:
            self._arrived.add(nonce)

    def take(self, nonces: Iterable[bytes]) -> list[bool]:
        """Which of these have arrived, in their order; nobody waits for them any more."""
        wanted = list(nonces)
        found = [nonce in self._arrived for nonce in wanted]
        self._awaited.difference_update(wanted)
        self._arrived.difference_update(wanted)
        return found


class ProbeListener:
    """What `ok.aisb.internal` leads to: says ok, and remembers the questions that somebody waits for."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.arrivals = Arrivals()
        for port in (ports.PROBE, ports.PROBE_TLS):
            take_in(loop, listen_on_loopback(port), self._on_client)

    def _on_client(self, client: _socket.socket) -> None:
        self._loop.watch(client.fileno(), READ, lambda _: self._on_first(client))

    def _on_first(self, client: _socket.socket) -> None:
        """One read is enough: what squid passes on begins with the line, or the hello, that says it all."""
        data = receive(client, _LONGEST)
        if data is None:
            return
        self._loop.forget(client.fileno())
        if not data:
            client.close()
            return
        self.arrivals.note(nonce_in(data))
        Farewell(self._loop, client, _ALERT if data[:1] == b"\x16" else _OK, lambda: None)


def nonce_in(data: bytes) -> bytes:
    """The nonce of a question of ours: in the path of a request, in the random bytes of a TLS hello."""
    if data[:1] == b"\x16":
        return data[11 : 11 + _NONCE_BYTES]
    path = data.partition(b"\r\n")[0].split(b" ")[1:2]
    try:
        return bytes.fromhex(path[0].rpartition(b"/")[2].decode("ascii")) if path else b""
    except ValueError:
        return b""


def hello(name: str, nonce: bytes) -> bytes:
    """A TLS ClientHello with this server name and no more than it needs."""
    server = name.encode("ascii")
    entry = struct.pack("!BH", 0, len(server)) + server
    extensions = _extension(0, struct.pack("!H", len(entry)) + entry)
    extensions += _extension(10, b"\x00\x02\x00\x17") + _extension(13, b"\x00\x04\x04\x03\x08\x04")
    body = b"\x03\x03" + nonce.ljust(32, b"\0") + b"\0"
    body += b"\x00\x02\xc0\x2b" + b"\x01\x00" + struct.pack("!H", len(extensions)) + extensions
    handshake = b"\x01" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack("!H", len(handshake)) + handshake


def _extension(kind: int, data: bytes) -> bytes:
    return struct.pack("!HH", kind, len(data)) + data


class Trial(NamedTuple):
    """
    One question to squid.

    `first` is said at once, `then` after squid's first words. `arrives` is whether it has to get to the
    listener; `answer` is how squid's whole answer has to begin.
    """

    what: str
    door: int
    first: bytes
    then: bytes
    arrives: bool
    answer: bytes
    run: str = RUN


def trials(nonces: list[bytes]) -> list[Trial]:
    """Two ways that are open and four that are not: another name at each door, and another name in the hello."""
    established = b"HTTP/1.1 200 "
    refused = b"HTTP/1.1 403 "
    ok, no = PROBE_NAME, REFUSED_NAME
    return [
        Trial("an allowed request", ports.EXPLICIT, _get(f"http://{ok}", ok, nonces[0]), b"", True, established),
        Trial("an allowed hello", ports.TLS, _connect(ok, 443), hello(ok, nonces[1]), True, established),
        Trial("a CONNECT to another name", ports.EXPLICIT, _connect(no, 22), b"", False, refused),
        Trial("a request to another name", ports.EXPLICIT, _get(f"http://{no}", no, nonces[3]), b"", False, refused),
        Trial("a Host of another name", ports.PLAIN, _get("", no, nonces[4]), b"", False, refused),
        Trial("a hello of another name", ports.TLS, _connect(ok, 443), hello(no, nonces[5]), False, established),
    ]  # fmt: skip


def _get(origin: str, host: str, nonce: bytes) -> bytes:
    return f"GET {origin}/{nonce.hex()} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("ascii")


def _connect(host: str, port: int) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode("ascii")


def change_trials(run: str, port: int) -> Callable[[list[bytes]], list[Trial]]:
    """The gate's own name at a port that only the newest words of `run` open: it gets through, and nobody else."""

    def make(nonces: list[bytes]) -> list[Trial]:
        asked = [_get(f"http://{PROBE_NAME}:{port}", f"{PROBE_NAME}:{port}", nonce) for nonce in nonces]
        return [
            Trial("what was just said of the run", ports.EXPLICIT, asked[0], b"", True, b"HTTP/1.1 200 ", run),
            Trial("the same of another run", ports.EXPLICIT, asked[1], b"", False, b"HTTP/1.1 403 "),
        ]

    return make


class Proof:
    """
    Asks squid all questions at once; `then(sentence)` when they are answered or the time is up.

    The sentence is empty where everything came out right. A squid that does not listen yet is tried again.
    """

    def __init__(
        self,
        loop: Loop,
        listener: ProbeListener,
        seconds: float,
        then: Callable[[str], None],
        make: Callable[[list[bytes]], list[Trial]] = trials,
    ) -> None:
        self._loop = loop
        self._arrivals = listener.arrivals
        self._then = then
        nonces = [os.urandom(_NONCE_BYTES) for _ in range(_TRIALS)]
        self._questions = [_Question(loop, trial, self._on_answer) for trial in make(nonces)]
        self._nonces = nonces[: len(self._questions)]
        self._arrivals.await_all(self._nonces)
        self._timer = loop.after(seconds, self._finish)

    def _on_answer(self) -> None:
        if all(question.is_over for question in self._questions):
            self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        for question in self._questions:
            question.close()
        wrong = (
            _fault(question, has_arrived)
            for question, has_arrived in zip(self._questions, self._arrivals.take(self._nonces), strict=True)
        )
        self._then(next((sentence for sentence in wrong if sentence), ""))


def _fault(question: _Question, has_arrived: bool) -> str:
    """What is wrong with the way one question came out."""
    trial = question.trial
    if has_arrived and not trial.arrives:
        return f"squid let {trial.what} through"
    if not question.is_over:
        return f"squid did not answer {trial.what} in time"
    if not question.answer.startswith(trial.answer) or has_arrived != trial.arrives:
        return f"squid did not answer {trial.what} as it should"
    return ""


class _Question:
    """One trial under way."""

    def __init__(self, loop: Loop, trial: Trial, on_answer: Callable[[], None]) -> None:
        self._loop = loop
        self._on_answer = on_answer
        self._socket: _socket.socket | None = None
        self.trial = trial
        self.answer = b""
        self.is_over = False
        self._is_closed = False
        self._dial()

    def close(self) -> None:
        """Ask no more."""
        self._is_closed = True
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _dial(self) -> None:
        if self._is_closed:
            return
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        try:
            self._socket.connect(("127.0.0.1", self.trial.door))
        except BlockingIOError:
            pass
        except OSError:
            self._dial_again()
            return
        self._loop.watch(self._socket.fileno(), WRITE, self._on_connected)

    def _dial_again(self) -> None:
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._loop.after(_RETRY_SECONDS, self._dial)

    def _on_connected(self, _events: int) -> None:
        socket = self._socket
        if socket is None:
            return
        meant = f"{PROBE_NAME}:80" if self.trial.door == ports.PLAIN else ""
        try:
            # No connection of a run has this number.
            socket.send(proxy_header(self.trial.run, 0, self.trial.door, meant) + self.trial.first)
        except OSError:
            self._dial_again()
            return
        self._loop.watch(socket.fileno(), READ, self._on_words)

    def _on_words(self, _events: int) -> None:
        socket = self._socket
        if socket is None:
            return
        try:
            data = socket.recv(_LONGEST)
            if data and not self.answer and self.trial.then:
                socket.send(self.trial.then)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.answer += data
        if not data or len(self.answer) > _LONGEST:
            self.is_over = True
            self.close()
            self._on_answer()
