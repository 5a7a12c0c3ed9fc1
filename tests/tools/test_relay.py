"""The relay on real sockets, before a bridge that does what a test tells it to."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import dnslib
import pytest

from gate import relay as program
from gate import verdicts
from gate.loop import Loop
from gate.names import Names
from gate.relay import Relay, is_own
from gate.resolver import GateResolver, serve_packets
from gate.verdicts import Verdicts
from tests.tools.fake_bridge import DENIED, FakeBridge, fake_bridge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALLOWED = ("allowed.test", 443)
DENIED_TARGET = ("203.0.113.11", 443)


class Rig:
    """A relay in a thread of its own. `meant` is what the next redirected clients dialled."""

    def __init__(self, path: str, most_clients: int = 100) -> None:
        self.meant = (b"\xcb\x00\x71\x0b", 443)
        self.names = Names()
        self.loop = Loop()
        self._verdicts = Verdicts(self.loop, path)
        resolver = GateResolver(self.names, self._verdicts)
        self.relay = Relay(self.loop, path, self.names, resolver, most_clients, lambda _: self.meant)
        self._listeners = [listen() for _ in range(3)]
        self._packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._packets.bind(("127.0.0.1", 0))
        self._packets.setblocking(False)
        explicit, transparent, questions = self._listeners
        self.explicit = explicit.getsockname()
        self.transparent = transparent.getsockname()
        self.questions = questions.getsockname()
        self.packets = self._packets.getsockname()
        self.relay.serve_explicit(explicit)
        self.relay.serve_transparent(transparent)
        self.relay.serve_questions(questions)
        serve_packets(self.loop, self._packets, resolver)
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopped:
            self.loop.run_once(0.02)

    def wait_for(self, clients: int) -> None:
        """Until so many clients are held."""
        deadline = time.monotonic() + 10
        while self.relay.clients != clients:
            assert time.monotonic() < deadline, self.relay.clients
            time.sleep(0.002)

    def dial(self, host: str, port: int) -> socket.socket:
        """A connection as a client makes it that dials `host` by name or address and is redirected."""
        address = self.names.address_of(host) if host[0].isalpha() else socket.inet_aton(host)
        assert address is not None
        self.meant = (address, port)
        return connect(self.transparent)

    def close(self) -> None:
        """Stop the thread and let go of everything."""
        try:
            self.wait_for(clients=0)
        finally:
            self._is_stopped = True
            self._thread.join(5)
        self._verdicts.close()
        self.loop.close()
        for listener in (*self._listeners, self._packets):
            listener.close()


def listen() -> socket.socket:
    """A non-blocking listener."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.setblocking(False)
    return listener


def connect(address: tuple[str, int]) -> socket.socket:
    """A client's connection."""
    return socket.create_connection(address, timeout=5)


@pytest.fixture
def gate(tmp_path: Path) -> str:
    """Where the gate's socket is, or would be."""
    return str(tmp_path / "gate.sock")


@pytest.fixture
def bridge(gate: str) -> Iterator[FakeBridge]:
    """A bridge that allows allowed.test."""
    with fake_bridge(gate, "allowed.test") as bridge:
        yield bridge


@pytest.fixture
def rig(gate: str) -> Iterator[Rig]:
    """The relay."""
    rig = Rig(gate)
    yield rig
    rig.close()


def is_reset(dial: Callable[[], socket.socket]) -> bool:
    """Whether a client that says nothing and waits is reset, while it connects or later."""
    try:
        with dial() as client:
            return client.recv(10) is None
    except ConnectionResetError:
        return True


def read_all(client: socket.socket) -> bytes:
    """Everything up to the end."""
    data = b""
    while part := client.recv(65536):
        data += part
    return data


def ask(rig: Rig, name: str, kind: str = "A") -> tuple[str, list[str]]:
    """The answer's code and records, over UDP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect(rig.packets)
        client.send(dnslib.DNSRecord.question(name, kind).pack())
        answer = dnslib.DNSRecord.parse(client.recv(4096))
    return dnslib.RCODE[answer.header.rcode], [str(record.rdata) for record in answer.rr]


def test_the_explicit_door_copies_bytes_as_they_are(bridge: FakeBridge, rig: Rig) -> None:
    """What the gate says to a proxy request is what the client gets."""
    with connect(rig.explicit) as client:
        client.sendall(b"GET http://allowed.test/x HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        answer = read_all(client)

    assert answer == b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nallowed.test\n"
    assert bridge.asked == ["GET http://allowed.test/x HTTP/1.1"]


def test_a_redirected_client_reaches_the_name_that_its_address_stands_for(bridge: FakeBridge, rig: Rig) -> None:
    """The name is asked for, so the made-up address leaves the sandbox as little as the question did (B48)."""
    with rig.dial(*ALLOWED) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = read_all(client)

    assert answer.endswith(b"\r\n\r\nallowed.test:443\n")
    assert bridge.asked == ["CONNECT allowed.test:443 HTTP/1.1"]


def test_a_server_that_speaks_first_is_heard(gate: str) -> None:
    """Nothing waits for the client's first word; a banner that came with the gate's answer is kept."""

    def serve(client: socket.socket, _host: str) -> None:
        client.sendall(b"SSH-2.0-stub\r\n")
        client.sendall(client.recv(100))

    with (
        fake_bridge(gate, "allowed.test", serve=serve),
        contextlib.closing(Rig(gate)) as rig,
        rig.dial("allowed.test", 22) as client,
    ):
        assert client.recv(100) == b"SSH-2.0-stub\r\n"
        client.sendall(b"hello")
        assert read_all(client) == b"hello"
        client.close()


def test_a_denied_client_is_reset(bridge: FakeBridge, rig: Rig) -> None:
    """Also one that waits for a banner: it is told no at once."""
    began = time.monotonic()
    assert is_reset(lambda: rig.dial(*DENIED_TARGET))

    assert time.monotonic() - began < program.REFUSAL_SECONDS
    assert bridge.asked == ["CONNECT 203.0.113.11:443 HTTP/1.1"]


def test_a_denied_client_on_port_80_gets_the_gates_words(bridge: FakeBridge, rig: Rig) -> None:
    """A client that is still sending may finish, and then read: a reset would take its chance away."""
    body = b"x" * (16 << 20)
    with rig.dial("203.0.113.11", 80) as client:
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert read_all(client) == DENIED
    assert bridge.asked == ["CONNECT 203.0.113.11:80 HTTP/1.1"]


def test_an_ipv6_address_is_asked_for_in_brackets(bridge: FakeBridge, rig: Rig) -> None:
    """As the gate's grammar wants it."""
    rig.meant = (b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\x11", 443)
    assert is_reset(lambda: connect(rig.transparent))

    assert bridge.asked == ["CONNECT [2001:db8::11]:443 HTTP/1.1"]


def test_the_relays_own_port_leads_nowhere(bridge: FakeBridge, rig: Rig) -> None:
    """Who dials the redirect's port itself is reset, and the gate is not asked."""
    rig.meant = (b"\x7f\0\0\x01", program.TRANSPARENT_PORT)
    assert is_reset(lambda: connect(rig.transparent))

    assert bridge.asked == []


def test_descriptors_that_were_inherited_are_closed() -> None:
    """Whatever the relay was started with, it keeps nothing but its streams."""
    program = "import os; from gate.relay import close_inherited as close; close(); print(os.listdir('/proc/self/fd'))"
    reader, writer = os.pipe()
    done = subprocess.run([sys.executable, "-c", program], pass_fds=(reader, writer), capture_output=True, check=True)
    os.close(reader)
    os.close(writer)

    # The fourth is that of the listing itself.
    assert done.stdout == b"['0', '1', '2', '3']\n"


@pytest.mark.parametrize(
    ("address", "own"),
    [
        pytest.param(b"\x7f\x05\x05\x05", True, id="v4 loopback"),
        pytest.param(b"\0" * 15 + b"\x01", True, id="v6 loopback"),
        pytest.param(b"\0" * 10 + b"\xff\xff\x7f\0\0\x01", True, id="v4 in v6"),
        pytest.param(b"\x0a\0\0\x01", False, id="v4"),
        pytest.param(b"\x7f" + b"\0" * 15, False, id="v6 that begins with 127"),
    ],
)
def test_own_addresses_are_known(address: bytes, own: bool) -> None:
    """In both families."""
    assert is_own(address) is own


def test_without_a_gate_everything_is_refused_at_once(rig: Rig) -> None:
    """In words where the client speaks HTTP, by a reset elsewhere, and a name has no answer."""
    began = time.monotonic()
    with connect(rig.explicit) as client:
        client.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
        explicit = read_all(client)
    with rig.dial("allowed.test", 80) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain = read_all(client)
    assert is_reset(lambda: rig.dial(*ALLOWED))
    answer = ask(rig, "allowed.test")

    assert (explicit, plain, answer) == (program.unreachable(), program.unreachable(), ("SERVFAIL", []))
    assert explicit.startswith(b"HTTP/1.1 502 ")
    # The shortest that anything is waited for.
    assert time.monotonic() - began < verdicts.ANSWER_SECONDS


@contextlib.contextmanager
def silent_gate(path: str, backlog: int = 16) -> Iterator[socket.socket]:
    """A gate that takes connections in and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(backlog)
        yield listener


def test_a_gate_that_does_not_answer_is_waited_for_in_bounds(
    gate: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither connections nor questions wait for ever."""
    monkeypatch.setattr("gate.relay.ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("gate.verdicts.ANSWER_SECONDS", 0.2)
    with silent_gate(gate):
        began = time.monotonic()
        answer = ask(rig, "allowed.test")
        assert is_reset(lambda: rig.dial(*ALLOWED))

    assert answer == ("SERVFAIL", [])
    assert 0.4 <= time.monotonic() - began < 2
    rig.wait_for(clients=0)


def test_a_gate_with_a_full_queue_is_waited_for(gate: str, rig: Rig) -> None:
    """Many connections at once are no reason to refuse one."""
    with silent_gate(gate, backlog=0) as listener:
        clients = [connect(rig.explicit) for _ in range(20)]
        for client in clients:
            client.sendall(b"x")
        taken = []
        listener.settimeout(5)
        for _ in clients:
            taken.append(listener.accept()[0])
            assert taken[-1].recv(1) == b"x"
        for end in (*taken, *clients):
            end.close()
    rig.wait_for(clients=0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 Connection established\r\n", id="half a head"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 2000 x\r\n\r\n", id="a status of four digits"),
        pytest.param(b"HTTP/1.1 200" + b"x" * 9000 + b"\r\n\r\n", id="a head without end"),
    ],
)
def test_an_answer_that_is_none_is_a_refusal(gate: str, rig: Rig, answer: bytes) -> None:
    """Only a clear yes joins a client with what it dialled."""
    with silent_gate(gate) as listener, rig.dial(*ALLOWED) as client:
        end, _ = listener.accept()
        end.recv(1000)
        end.sendall(answer)
        end.close()
        with pytest.raises(ConnectionResetError):
            client.recv(10)
    rig.wait_for(clients=0)


def test_an_answer_without_end_is_cut_off(gate: str, rig: Rig) -> None:
    """The gate's head is bounded: what goes on is not waited for."""
    with silent_gate(gate) as listener, rig.dial(*ALLOWED) as client:
        end, _ = listener.accept()
        end.recv(1000)
        end.sendall(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 2000)
        with pytest.raises(ConnectionResetError):
            client.recv(10)
        end.close()


def test_more_clients_than_the_relay_holds_are_reset(gate: str) -> None:
    """The bound holds, and is free again when clients leave."""
    with contextlib.closing(Rig(gate, most_clients=3)) as rig, silent_gate(gate):
        held = [connect(rig.explicit) for _ in range(3)]
        rig.wait_for(clients=3)
        assert is_reset(lambda: connect(rig.explicit))
        for client in held:
            client.close()


def test_an_allowed_name_has_an_address_and_no_other_records(bridge: FakeBridge, rig: Rig) -> None:
    """IPv6 is withheld and not denied, so that a client goes on with IPv4 at once (B42)."""
    answers = {kind: ask(rig, "Allowed.test", kind) for kind in ("A", "AAAA", "HTTPS", "TXT", "ANY")}

    assert answers == {
        "A": ("NOERROR", ["198.18.1.0"]),
        "AAAA": ("NOERROR", []),
        "HTTPS": ("NOERROR", []),
        "TXT": ("NOERROR", []),
        "ANY": ("NOERROR", []),
    }
    assert bridge.asked == ["RESOLVE allowed.test AISB/1"]


def test_a_denied_name_does_not_exist_and_is_asked_for_each_time(bridge: FakeBridge, rig: Rig) -> None:
    """What the user allows meanwhile works with the next question (A33)."""
    first = ask(rig, "c2VjcmV0.x.evil.test", "TXT")
    bridge.names |= {"evil.test"}

    assert (first, ask(rig, "evil.test")) == (("NXDOMAIN", []), ("NOERROR", ["198.18.1.0"]))


def test_localhost_is_known_without_the_gate(rig: Rig) -> None:
    """And everything below it, as RFC 6761 has it."""
    answers = [ask(rig, "localhost"), ask(rig, "app.localhost", "AAAA"), ask(rig, "localhost", "TXT")]

    assert answers == [("NOERROR", ["127.0.0.1"]), ("NOERROR", ["::1"]), ("NOERROR", [])]


def test_a_bridge_that_closed_the_kept_connection_is_asked_anew(gate: str, rig: Rig) -> None:
    """A restarted bridge is not noticed."""
    with fake_bridge(gate, "allowed.test"):
        assert ask(rig, "one.test") == ("NXDOMAIN", [])
    with silent_gate(gate) as listener:
        thread = threading.Thread(target=_answer_and_close, args=(listener,))
        thread.start()
        assert [ask(rig, f"{index}.test") for index in range(3)] == [("NXDOMAIN", [])] * 3
        thread.join(5)


def _answer_and_close(listener: socket.socket) -> None:
    for _ in range(3):
        end, _ = listener.accept()
        with end:
            end.recv(1000)
            end.sendall(b"AISB/1 403 dns\r\n\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"AISB/1 500 trouble\r\n\r\n", id="another code"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="another protocol"),
        pytest.param(b"AISB/1 200 allowed\r\n\r\nAISB/1 200 allowed\r\n\r\n", id="two answers"),
        pytest.param(b"AISB/1 200 allowed\r\n", id="half an answer"),
        pytest.param(b"x" * 2000, id="no end"),
    ],
)
def test_a_verdict_that_is_none_is_a_failure_and_not_an_answer(gate: str, rig: Rig, answer: bytes) -> None:
    """SERVFAIL: neither yes nor no, and nothing is remembered."""
    with silent_gate(gate) as listener:
        thread = threading.Thread(target=_answer_once, args=(listener, answer))
        thread.start()
        assert ask(rig, "allowed.test") == ("SERVFAIL", [])
        thread.join(5)


def _answer_once(listener: socket.socket, answer: bytes) -> None:
    end, _ = listener.accept()
    with end:
        end.recv(1000)
        end.sendall(answer)


def test_many_who_ask_for_one_name_are_one_question(bridge: FakeBridge, rig: Rig) -> None:
    """A and AAAA are asked at once by every resolver."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect(rig.packets)
        for _ in range(50):
            client.send(dnslib.DNSRecord.question("denied.test").pack())
        for _ in range(50):
            client.recv(4096)

    assert set(bridge.asked) == {"RESOLVE denied.test AISB/1"}
    assert len(bridge.asked) < 50


def framed(name: str, kind: str = "A") -> bytes:
    """A question as it goes over TCP."""
    packet: bytes = dnslib.DNSRecord.question(name, kind).pack()
    return len(packet).to_bytes(2, "big") + packet


def read_framed(client: socket.socket, count: int) -> list[str]:
    """The codes of `count` answers."""
    data = b""
    codes: list[str] = []
    while len(codes) < count:
        while len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2], "big"):
            part = client.recv(65536)
            assert part
            data += part
        length = int.from_bytes(data[:2], "big")
        codes.append(dnslib.RCODE[dnslib.DNSRecord.parse(data[2 : 2 + length]).header.rcode])
        data = data[2 + length :]
    return codes


def test_questions_over_tcp_are_answered_in_their_order(bridge: FakeBridge, rig: Rig) -> None:
    """Also when they come in one piece, or byte by byte."""
    questions = b"".join(framed(name) for name in ("allowed.test", "denied.test", "localhost") * 100)
    with connect(rig.questions) as client:
        client.sendall(questions)
        together = read_framed(client, 300)
        for byte in framed("allowed.test"):
            client.sendall(bytes((byte,)))
        alone = read_framed(client, 1)

    assert together == ["NOERROR", "NXDOMAIN", "NOERROR"] * 100
    assert alone == ["NOERROR"]
    rig.wait_for(clients=0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff" + b"x" * 100, id="a message that is too long"),
        pytest.param(b"\x00\x0c" + b"\x12\x34\x81\x80" + b"\0" * 8, id="an answer"),
        pytest.param(b"\x00\x00", id="nothing"),
    ],
)
def test_junk_over_tcp_ends_the_connection(rig: Rig, data: bytes) -> None:
    """And leaves nothing behind."""
    with connect(rig.questions) as client:
        client.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""
    rig.wait_for(clients=0)


def test_a_silent_tcp_client_is_put_out(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection for questions is not kept for nothing."""
    monkeypatch.setattr("gate.resolver.IDLE_SECONDS", 0.05)
    with contextlib.closing(Rig(gate)) as rig, connect(rig.questions) as client:
        assert client.recv(10) == b""


def test_a_relay_without_descriptors_goes_on_when_there_are_some(bridge: FakeBridge, rig: Rig) -> None:
    """Clients wait in the queue meanwhile; the relay neither ends nor spins."""
    spare: list[int] = []
    with connect(rig.explicit) as client:
        with contextlib.suppress(OSError):
            while True:
                spare.append(os.dup(0))
        client.close()
        os.close(spare.pop())
        waiting = socket.socket()
        waiting.settimeout(5)
        waiting.connect(rig.explicit)
        time.sleep(0.2)
        for descriptor in spare:
            os.close(descriptor)
    with waiting:
        waiting.sendall(b"GET http://allowed.test/ HTTP/1.1\r\n\r\n")
        answer = read_all(waiting)

    assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 502 "))
    with connect(rig.explicit) as client:
        client.sendall(b"GET http://allowed.test/ HTTP/1.1\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")
