"""
The sandbox's way to the gate: takes connections inside, and hands them to the socket that leads there.

Two doors. On port 3128 a client speaks to its proxy, which is the gate: bytes are copied as they
are. Connections to any other address were redirected here by the network rules; the relay looks up
which address was meant and asks the gate for it in the client's place. It judges nothing and holds
nothing of worth: the agent may speak to the gate's socket itself, and meets the same answers.
"""

from __future__ import annotations

import _socket
import os
import resource
import sys

from gate.dial import dial
from gate.loop import READ, Loop, receive
from gate.names import Names, target_of
from gate.pump import Farewell, Pump, prepare, refuse
from gate.resolver import GateResolver, ResolverStream, serve_packets
from gate.verdicts import Verdicts

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Timer
    from gate.resolver import Resolver

GATE = "/run/aisb/gate/gate.sock"
# One port a line: what is the host's, and reached on this sandbox's localhost too. Not there where none is.
HOST_PORTS = "/run/aisb/host-ports"
HOST_NAME = "host.aisb.internal"
# Not there where nothing is published.
PUBLISHED = "/run/aisb/p"
EXPLICIT_PORT = 3128
TRANSPARENT_PORT = 3129
DNS_PORT = 3130

BACKLOG = 1024
# The gate stops a run at a thousand and says so; the relay's own bound lies above that.
MOST_CLIENTS = 1200
# Standard streams, listeners, the loop, and the questions to the bridge.
DESCRIPTORS_KEPT_FREE = 32
ACCEPTS_A_TURN = 64
PAUSE_SECONDS = 0.05
# How long a full queue at the gate is waited for.
DIAL_SECONDS = 5.0
# The gate connects before it answers, and gives a server a minute.
ANSWER_SECONDS = 90.0
# A refusal is short, and the gate closes behind it.
REFUSAL_SECONDS = 2.0
LONGEST_HEAD = 8192
LONGEST_REFUSAL = 65536

_SO_ORIGINAL_DST = 80
_V4_LOOPBACK = 127
_V6_LOOPBACK = b"\0" * 15 + b"\x01"
_V4_IN_V6 = b"\0" * 10 + b"\xff\xff"
_HEAD_END = b"\r\n\r\n"
_UNREACHABLE = "aisb: the gate does not answer; this sandbox has no network until it is started again\n"


class Relay:
    """Takes clients in, up to a number, and joins each with a connection of its own to the gate."""

    def __init__(
        self,
        loop: Loop,
        gate: str,
        names: Names,
        resolver: Resolver,
        most_clients: int,
        meant: Callable[[_socket.socket], tuple[bytes, int]] | None = None,
    ) -> None:
        self._loop = loop
        self._meant = meant or original_destination
        self._gate = gate
        self._names = names
        self._resolver = resolver
        self._most_clients = most_clients
        self.clients = 0

    def serve_explicit(self, listener: _socket.socket) -> None:
        """Take in clients that speak to their proxy."""
        self._listen(listener, self._on_explicit)

    def serve_transparent(self, listener: _socket.socket) -> None:
        """Take in clients that dialled some address and were redirected."""
        self._listen(listener, self._on_transparent)

    def serve_host_port(self, listener: _socket.socket, port: int) -> None:
        """Take in clients that dialled a port of the host on this sandbox's own localhost."""
        self._listen(listener, lambda client: self._ask(client, f"{HOST_NAME}:{port}", port))

    def serve_questions(self, listener: _socket.socket) -> None:
        """Take in clients that ask for names over TCP."""

        def on_client(client: _socket.socket) -> None:
            ResolverStream(self._loop, client, self._resolver, self._left)

        self._listen(listener, on_client)

    def _listen(self, listener: _socket.socket, on_client: Callable[[_socket.socket], None]) -> None:
        def on_event(_events: int) -> None:
            for _ in range(ACCEPTS_A_TURN):
                try:
                    client = accept(listener)
                except BlockingIOError:
                    return
                except OSError:
                    # Out of descriptors or memory: the queue stays as it is, and is looked at again soon.
                    self._loop.watch(listener.fileno(), 0, on_event)
                    self._loop.after(PAUSE_SECONDS, lambda: self._loop.watch(listener.fileno(), READ, on_event))
                    return
                if self.clients >= self._most_clients:
                    refuse(client)
                    continue
                self.clients += 1
                on_client(client)

        self._loop.watch(listener.fileno(), READ, on_event)

    def _left(self) -> None:
        self.clients -= 1

    def _on_explicit(self, client: _socket.socket) -> None:
        def on_dialled(gate: _socket.socket | None) -> None:
            if gate is None:
                self._say_farewell(client, unreachable())
            else:
                Pump(self._loop, client, gate, self._left, inner=gate)

        dial(self._loop, self._gate, DIAL_SECONDS, on_dialled)

    def _on_transparent(self, client: _socket.socket) -> None:
        try:
            address, port = self._meant(client)
        except OSError:
            self._refuse(client)
            return
        if is_own(address):
            # Somebody dialled the relay's port itself. The gate would say no too.
            self._refuse(client)
            return
        self._ask(client, f"{target_of(self._names, address)}:{port}", port)

    def _ask(self, client: _socket.socket, target: str, port: int) -> None:
        """Ask the gate for what a client dialled."""

        def on_dialled(gate: _socket.socket | None) -> None:
            if gate is None:
                self.deny(client, port, unreachable())
            else:
                Passage(self, self._loop, client, gate, target, port)

        dial(self._loop, self._gate, DIAL_SECONDS, on_dialled)

    def deny(self, client: _socket.socket, port: int, answer: bytes) -> None:
        """Tell a client no: in words where it speaks plain HTTP, by a reset elsewhere."""
        if port == 80 and answer:
            self._say_farewell(client, answer)
        else:
            self._refuse(client)

    def _say_farewell(self, client: _socket.socket, answer: bytes) -> None:
        Farewell(self._loop, client, answer, self._left)

    def _refuse(self, client: _socket.socket) -> None:
        refuse(client)
        self._left()

    def join(self, client: _socket.socket, gate: _socket.socket, first: bytes) -> None:
        """The gate said yes: from here on bytes are copied."""
        Pump(self._loop, client, gate, self._left, first_to_one=first, inner=gate)


class Passage:
    """A redirected client while the gate is asked for what it dialled. Nothing is read from the client meanwhile."""

    __slots__ = ("_client", "_gate", "_head", "_is_refused", "_loop", "_port", "_relay", "_timer")

    def __init__(
        self, relay: Relay, loop: Loop, client: _socket.socket, gate: _socket.socket, target: str, port: int
    ) -> None:
        self._relay = relay
        self._loop = loop
        self._client = client
        self._gate = gate
        self._port = port
        self._head = b""
        self._is_refused = False
        self._timer: Timer = loop.after(ANSWER_SECONDS, lambda: self._end(b""))
        request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("ascii")
        try:
            is_sent = gate.send(request) == len(request)
        except OSError:
            is_sent = False
        if is_sent:
            loop.watch(gate.fileno(), READ, self._on_event)
        else:
            self._end(b"")

    def _on_event(self, _events: int) -> None:
        data = receive(self._gate, LONGEST_HEAD)
        if data is None:
            return
        self._head += data
        if self._is_refused:
            # The words of a refusal end when the gate closes.
            if not data or len(self._head) > LONGEST_REFUSAL:
                self._end(self._head[:LONGEST_REFUSAL])
        elif _HEAD_END in self._head[: LONGEST_HEAD + len(_HEAD_END)]:
            self._on_head()
        elif not data or len(self._head) > LONGEST_HEAD:
            self._end(b"")

    def _on_head(self) -> None:
        status = self._head.split(b" ", 2)[1:2]
        if status == [b"200"]:
            first = self._head.partition(_HEAD_END)[2]
            self._stop()
            self._relay.join(self._client, self._gate, first)
        elif self._port == 80:
            self._is_refused = True
            self._timer.cancel()
            self._timer = self._loop.after(REFUSAL_SECONDS, lambda: self._end(self._head))
        else:
            self._end(b"")

    def _stop(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._gate.fileno())

    def _end(self, answer: bytes) -> None:
        self._stop()
        self._gate.close()
        self._relay.deny(self._client, self._port, answer)


def accept(listener: _socket.socket) -> _socket.socket:
    """The next client, non-blocking, its small packets sent at once."""
    descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # in CPython since 3.0, not in the stubs
    client = _socket.socket(listener.family, listener.type, 0, descriptor)
    client.setblocking(False)
    client.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    return client


def original_destination(client: _socket.socket) -> tuple[bytes, int]:
    """The address (4 or 16 bytes) and port that a redirected client dialled."""
    if client.family == _socket.AF_INET:
        raw = client.getsockopt(_socket.IPPROTO_IP, _SO_ORIGINAL_DST, 16)
        return raw[4:8], int.from_bytes(raw[2:4], "big")
    raw = client.getsockopt(_socket.IPPROTO_IPV6, _SO_ORIGINAL_DST, 28)
    return raw[8:24], int.from_bytes(raw[2:4], "big")


def is_own(address: bytes) -> bool:
    """Whether the address is this sandbox's own loopback."""
    if len(address) == 16 and address.startswith(_V4_IN_V6):
        address = address[12:]
    return address[0] == _V4_LOOPBACK if len(address) == 4 else address == _V6_LOOPBACK


def unreachable() -> bytes:
    """What a client is told when there is no gate."""
    body = _UNREACHABLE.encode("ascii")
    head = (
        "HTTP/1.1 502 Bad Gateway\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def bind(kind: int, port: int) -> list[_socket.socket]:
    """Sockets at `port` of 127.0.0.1 and ::1; of the first alone where the kernel has no IPv6."""
    sockets = []
    for family, host in ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1")):
        if family == _socket.AF_INET6 and not has_v6():
            continue
        socket = _socket.socket(family, kind | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        if family == _socket.AF_INET6:
            socket.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
        if kind == _socket.SOCK_STREAM:
            socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        socket.bind((host, port))
        if kind == _socket.SOCK_STREAM:
            socket.listen(BACKLOG)
        sockets.append(socket)
    return sockets


def host_ports() -> list[int]:
    """The ports of the host that are to be reached on localhost. The relay's own are left out: they are taken."""
    try:
        with open(HOST_PORTS, "rb", buffering=0) as file:
            ports = [int(line) for line in file.read().split()]
    except FileNotFoundError:
        return []
    return [port for port in ports if port not in (EXPLICIT_PORT, TRANSPARENT_PORT, DNS_PORT)]


def lead_in(loop: Loop) -> None:
    """Lead clients of the host's published ports to the servers of this sandbox, in the few that have such ports."""
    if os.path.isdir(PUBLISHED):
        from gate.offers import serve

        serve(loop, PUBLISHED)


def has_v6() -> bool:
    """Whether this network namespace has an IPv6 address at all."""
    try:
        with open("/proc/net/if_inet6", "rb", buffering=0) as addresses:
            return bool(addresses.read(1))
    except OSError:
        return False


def most_clients() -> int:
    """How many clients there are descriptors for: each takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CLIENTS + DESCRIPTORS_KEPT_FREE
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(MOST_CLIENTS, (soft - DESCRIPTORS_KEPT_FREE) // 2)


def close_inherited() -> None:
    """Close every descriptor but the standard streams."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                # The listing's own descriptor is gone by now.
                continue


def go_to_background() -> None:
    """Go on in a child without terminal and streams, which the sandbox's init takes in."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)


def main() -> None:
    """Bind everything, let the caller go on, and serve until the sandbox ends."""
    close_inherited()
    try:
        explicit = bind(_socket.SOCK_STREAM, EXPLICIT_PORT)
        transparent = bind(_socket.SOCK_STREAM, TRANSPARENT_PORT)
        packets = bind(_socket.SOCK_DGRAM, DNS_PORT)
        of_host = [(socket, port) for port in host_ports() for socket in bind(_socket.SOCK_STREAM, port)]
        # Last: the launcher takes this one for the sign that all are bound.
        questions = bind(_socket.SOCK_STREAM, DNS_PORT)
    except OSError as error:
        sys.exit(f"aisb: relay: {error.strerror}")
    limit = most_clients()
    go_to_background()
    prepare()
    loop = Loop()
    names = Names()
    resolver = GateResolver(names, Verdicts(loop, GATE))
    relay = Relay(loop, GATE, names, resolver, limit)
    for socket in explicit:
        relay.serve_explicit(socket)
    for socket in transparent:
        relay.serve_transparent(socket)
    for socket, port in of_host:
        relay.serve_host_port(socket, port)
    for socket in questions:
        relay.serve_questions(socket)
    for socket in packets:
        serve_packets(loop, socket, resolver)
    lead_in(loop)
    loop.run()
