"""
The sockets of the fake internet: a thread for each listener and for each connection.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from laboratory.internet import web
from laboratory.internet.record import Log, plain, sink_of

if TYPE_CHECKING:
    from pathlib import Path

    from laboratory.internet.authority import Authority
    from laboratory.internet.dns import NameServer

IDLE_SECONDS = 300
MAX_SHOWN = 1024
_IP_PKTINFO = 8  # socket.IP_PKTINFO exists since Python 3.12


class Internet(NamedTuple):
    """
    What the handlers share.
    """

    log: Log
    authority: Authority
    names: NameServer
    files: Path


Fields = dict[str, Any]
Handler = Callable[[Internet, socket.socket, Fields], None]


def http(internet: Internet, connection: socket.socket, fields: Fields) -> None:
    web.serve(connection, internet.log, fields, internet.files)


def https(internet: Internet, connection: socket.socket, fields: Fields) -> None:
    """
    TLS with a certificate for whatever name is asked for, then HTTP.
    """
    sni: str | None = None

    def choose(tls: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        nonlocal sni
        sni = name
        if name:
            try:
                tls.context = internet.authority.context(name)
            except ValueError:
                return int(ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)
        return None

    context = internet.authority.context(fields["sink"])
    context.sni_callback = choose
    try:
        tls = context.wrap_socket(connection, server_side=True)
    except OSError as error:
        internet.log.add("hello", **fields, sni=sni, error=str(error))
        raise
    internet.log.add("hello", **fields, sni=sni)
    with tls:
        web.serve(tls, internet.log, fields | {"sni": sni}, internet.files)


def speaks_first(banner: bytes, answer: bytes | None) -> Handler:
    """
    A server that greets with `banner` and says `answer` to whatever comes; None repeats what came.
    """

    def handle(internet: Internet, connection: socket.socket, fields: Fields) -> None:
        connection.sendall(banner)
        while data := connection.recv(65536):
            shown = data[:MAX_SHOWN].decode("latin-1")
            internet.log.add("data", **fields, bytes=len(data), data=shown)
            connection.sendall(data if answer is None else answer)

    return handle


def dns(internet: Internet, connection: socket.socket, fields: Fields) -> None:
    with connection.makefile("rb") as reader:
        while len(head := reader.read(2)) == 2:
            reply = internet.names.answer(reader.read(struct.unpack("!H", head)[0]), fields["source"], "tcp")
            if reply is not None:
                connection.sendall(struct.pack("!H", len(reply)) + reply)


class Listener:
    """
    A listening TCP socket: records each connection, then hands it to its handler.
    """

    def __init__(self, internet: Internet, address: str, port: int, handler: Handler, sink: str | None = None) -> None:
        self._internet = internet
        self._handler = handler
        self._sink = sink
        self._drains: dict[int, threading.Event] = {}
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        both = address == "::"
        self._socket = socket.create_server((address, port), family=family, backlog=512, dualstack_ipv6=both)
        self._near = ("127.0.0.1" if both else address, port)
        threading.Thread(target=self._accept, daemon=True).start()

    def drain(self) -> None:
        """
        Return once every connection that has been made before is recorded: a connection of our own is after them.
        """
        family = socket.AF_INET6 if ":" in self._near[0] else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((self._near[0], 0))
            seen = self._drains[probe.getsockname()[1]] = threading.Event()
            probe.connect(self._near)
            seen.wait(10)

    def _accept(self) -> None:
        while True:
            connection, peer = self._socket.accept()
            local = plain(connection.getsockname()[0])
            if plain(peer[0]) == self._near[0] and (drain := self._drains.pop(peer[1], None)):
                connection.close()
                drain.set()
                continue
            fields = {
                "sink": self._sink or sink_of(local),
                "proto": "tcp",
                "address": local,
                "port": self._near[1],
                "source": f"{plain(peer[0])} {peer[1]}",
            }
            self._internet.log.add("connect", **fields)
            threading.Thread(target=self._handle, args=(connection, fields), daemon=True).start()

    def _handle(self, connection: socket.socket, fields: Fields) -> None:
        # A client that goes away or talks nonsense ends its own connection only.
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(IDLE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._handler(self._internet, connection, fields)


class Datagrams:
    """
    A UDP socket that records what arrives; port 53 of the name server's address is answered.
    """

    def __init__(self, internet: Internet, address: str, port: int, sink: str | None = None) -> None:
        self._internet = internet
        self._sink = sink
        self._near = ({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address), port)
        self._drains: dict[int, threading.Event] = {}
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        if ":" in address:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._socket.bind((address, port))
        threading.Thread(target=self._receive, daemon=True).start()

    def drain(self) -> None:
        """
        Return once every datagram that has arrived before is recorded.
        """
        with socket.socket(self._socket.family, socket.SOCK_DGRAM) as probe:
            probe.bind((self._near[0], 0))
            seen = self._drains[probe.getsockname()[1]] = threading.Event()
            probe.sendto(b"", self._near)
            seen.wait(10)

    def _receive(self) -> None:
        while True:
            data, ancillary, _, peer = self._socket.recvmsg(65536, 256)
            if plain(peer[0]) == self._near[0] and (drain := self._drains.pop(peer[1], None)):
                drain.set()
                continue
            local = _destination(ancillary)
            sink = self._sink or sink_of(local)
            source = f"{plain(peer[0])} {peer[1]}"
            if sink == "dns":
                if reply := self._internet.names.answer(data, source, "udp"):
                    self._socket.sendmsg([reply], _same_address(ancillary), 0, peer)
            else:
                self._internet.log.add(
                    "datagram", sink=sink, proto="udp", address=local, port=self._near[1], source=source,
                    bytes=len(data), data=data[:MAX_SHOWN].decode("latin-1"),
                )  # fmt: skip


Ancillary = list[tuple[int, int, bytes]]


def _destination(ancillary: Ancillary) -> str:
    """
    To which of our addresses a datagram was sent.
    """
    level, _, data = ancillary[0]
    if level == socket.IPPROTO_IPV6:
        return plain(socket.inet_ntop(socket.AF_INET6, data[:16]))
    return socket.inet_ntop(socket.AF_INET, data[8:12])


def _same_address(ancillary: Ancillary) -> Ancillary:
    """
    What makes the answer come from the address that the question was sent to.
    """
    level, kind, data = ancillary[0]
    if level == socket.IPPROTO_IPV6:
        return [(level, kind, data[:16] + bytes(4))]
    return [(level, kind, bytes(4) + data[8:12] + bytes(4))]
