"""
The sandbox's resolver: answers every question here, over UDP and TCP, and passes none on.

Before a gate an allowed name gets an address that was made up for it; a denied one does not exist. Only IPv4
addresses are given out: a client that prefers IPv6 goes on with IPv4 at once. Without a gate a name
has the addresses of a table, or does not exist.
"""

from __future__ import annotations

from gate import dns
from gate.loop import READ, receive

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gate.loop import Loop, Timer
    from gate.names import Names
    from gate.verdicts import Verdicts

LONGEST_MESSAGE = 4096
PACKETS_A_TURN = 64
IDLE_SECONDS = 10.0

_LOOPBACK = {dns.TYPE_A: (b"\x7f\0\0\x01",), dns.TYPE_AAAA: (b"\0" * 15 + b"\x01",)}
_SIZES = {dns.TYPE_A: 4, dns.TYPE_AAAA: 16}


class Resolver:
    """Answers questions; what becomes of a host's name is for the classes below to say."""

    def respond(self, packet: bytes, reply: Callable[[bytes], None]) -> bool:
        """Call `reply`, now or later, with the answer to `packet`. False when there is no answer to it."""
        query = dns.parse_query(packet)
        if query is None:
            return False
        if query.fault:
            reply(dns.answer(query, query.fault))
        elif not query.name:
            reply(dns.answer(query, dns.NO_SUCH_NAME))
        elif query.name == "localhost" or query.name.endswith(".localhost"):
            reply(dns.answer(query, dns.NO_ERROR, *_LOOPBACK.get(query.kind, ())))
        else:
            self.look_up(query, reply)
        return True

    def look_up(self, query: dns.Query, reply: Callable[[bytes], None]) -> None:
        """Call `reply`, now or later, with the answer to a question for a host's name."""
        raise NotImplementedError


class PinnedResolver(Resolver):
    """Answers by a table of names and addresses, 4 or 16 bytes each, and nothing else exists."""

    def __init__(self, table: Mapping[str, Sequence[bytes]]) -> None:
        self._table = table

    def look_up(self, query: dns.Query, reply: Callable[[bytes], None]) -> None:
        """See `Resolver.look_up`."""
        addresses = self._table.get(query.name)
        if addresses is None:
            reply(dns.answer(query, dns.NO_SUCH_NAME))
            return
        wanted = (address for address in addresses if len(address) == _SIZES.get(query.kind))
        reply(dns.answer(query, dns.NO_ERROR, *wanted))


class GateResolver(Resolver):
    """Answers by the bridge's verdict."""

    def __init__(self, names: Names, verdicts: Verdicts) -> None:
        self._names = names
        self._verdicts = verdicts

    def look_up(self, query: dns.Query, reply: Callable[[bytes], None]) -> None:
        """See `Resolver.look_up`."""
        self._verdicts.ask(query.name, lambda verdict: reply(self._answer(query, verdict)))

    def _answer(self, query: dns.Query, verdict: bool | None) -> bytes:
        if verdict is None:
            return dns.answer(query, dns.SERVER_FAILURE)
        if not verdict:
            return dns.answer(query, dns.NO_SUCH_NAME)
        if query.kind != dns.TYPE_A:
            return dns.answer(query, dns.NO_ERROR)
        address = self._names.address_of(query.name)
        return dns.answer(query, dns.NO_ERROR, address) if address else dns.answer(query, dns.SERVER_FAILURE)


def serve_packets(loop: Loop, socket: _socket.socket, resolver: Resolver) -> None:
    """Answer what arrives at a bound UDP socket."""

    def on_event(_events: int) -> None:
        for _ in range(PACKETS_A_TURN):
            try:
                packet, client = socket.recvfrom(LONGEST_MESSAGE)
            except OSError:
                # Nothing more to read, or the ICMP error of a client that went away.
                return
            resolver.respond(packet, _reply_to(socket, client))

    loop.watch(socket.fileno(), READ, on_event)


def _reply_to(socket: _socket.socket, client: Any) -> Callable[[bytes], None]:  # noqa: ANN401 - an address, opaque
    def reply(message: bytes) -> None:
        try:
            socket.sendto(message, client)
        except OSError:
            # As on any network: an answer may be lost.
            return

    return reply


class ResolverStream:
    """Answers the questions of one TCP connection in their order, and owns the socket."""

    def __init__(self, loop: Loop, socket: _socket.socket, resolver: Resolver, on_done: Callable[[], None]) -> None:
        self._loop = loop
        self._socket = socket
        self._resolver = resolver
        self._on_done = on_done
        self._received = b""
        self._is_asking = False
        self._is_responding = False
        self._is_closed = False
        self._timer: Timer = loop.after(IDLE_SECONDS, self._close)
        loop.watch(socket.fileno(), READ, self._on_event)

    def _on_event(self, _events: int) -> None:
        data = receive(self._socket, LONGEST_MESSAGE)
        if data is None:
            return
        self._received += data
        if not data:
            self._close()
            return
        self._timer.cancel()
        self._timer = self._loop.after(IDLE_SECONDS, self._close)
        self._respond()

    def _respond(self) -> None:
        self._is_responding = True
        while not self._is_asking and not self._is_closed and len(self._received) >= 2:
            length = int.from_bytes(self._received[:2], "big")
            if length > LONGEST_MESSAGE:
                self._close()
                break
            if len(self._received) < 2 + length:
                break
            packet, self._received = self._received[2 : 2 + length], self._received[2 + length :]
            self._is_asking = True
            if not self._resolver.respond(packet, self._reply):
                self._close()
        self._is_responding = False
        # Questions that come faster than they are answered wait in the kernel.
        if not self._is_closed:
            is_full = self._is_asking and len(self._received) >= LONGEST_MESSAGE
            self._loop.watch(self._socket.fileno(), 0 if is_full else READ, self._on_event)

    def _reply(self, message: bytes) -> None:
        if self._is_closed:
            return
        self._is_asking = False
        framed = len(message).to_bytes(2, "big") + message
        try:
            is_sent = self._socket.send(framed) == len(framed)
        except OSError:
            is_sent = False
        if not is_sent:
            self._close()
        elif not self._is_responding:
            self._respond()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._timer.cancel()
        self._loop.forget(self._socket.fileno())
        self._socket.close()
        self._on_done()
