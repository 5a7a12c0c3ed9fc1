"""
A small internet for one test: a name server and servers on TEST-NET addresses, each of which records what reached it.

Run as a program inside a network namespace that holds the addresses:

    python internet.py DIRECTORY

DIRECTORY holds `zone.json` (name -> addresses; read at each question, so a test may change it),
`cert.pem` and `key.pem`. What arrives is appended to `sink.jsonl`, one object a line; `ready` appears
when everything listens.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import time
from typing import TYPE_CHECKING

from dnslib import AAAA, QTYPE, RCODE, RR, A, DNSError, DNSRecord

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

NAME_SERVER = "203.0.113.53"
ADDRESSES = (
    "203.0.113.10", "203.0.113.11", "203.0.113.12", "2001:db8::10", "2001:db8::11", "2001:db8::12",
    "10.0.0.5", "169.254.169.254", "192.168.1.1", "100.64.0.1", "172.16.0.1", "198.18.0.9", "fd00:ec2::254",
    "64:ff9b::a00:5",
)  # fmt: skip
_lock = threading.Lock()


class Internet:
    """All servers, and the one file in which they record."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(f"{directory}/cert.pem", f"{directory}/key.pem")
        self._tls.set_alpn_protocols(["http/1.1"])
        self._tls.sni_callback = _remember_sni

    def record(self, **fields: object) -> None:
        """Append one line; whole lines only, from whatever thread."""
        line = json.dumps(fields, sort_keys=True) + "\n"
        with _lock, open(f"{self._directory}/sink.jsonl", "a", encoding="utf-8") as sink:
            sink.write(line)

    def serve(self) -> None:
        """Listen on everything, say so, and never come back."""
        for address in ADDRESSES:
            self._listen(address, 80, self._http)
            self._listen(address, 8080, self._http)
            self._listen(address, 443, self._https)
            self._listen(address, 22, self._banner)
            self._listen(address, 5432, self._echo)
            self._listen(address, 8443, self._https)
        for address, port in ((NAME_SERVER, 853), ("192.168.1.1", 53), ("192.168.1.1", 853)):
            self._listen(address, port, self._echo)
        threading.Thread(target=self._packets, args=("203.0.113.11", 443), daemon=True).start()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind((NAME_SERVER, 53))
        with open(f"{self._directory}/ready", "w", encoding="utf-8"):
            pass
        while True:
            question, source = datagrams.recvfrom(4096)
            try:
                datagrams.sendto(self._answer(question, source[0]), source)
            except (OSError, ValueError, DNSError) as error:
                self.record(address=NAME_SERVER, port=53, kind="error", error=repr(error))

    def _listen(self, address: str, port: int, handle: Callable[[socket.socket, str, int], None]) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, port), family=family, backlog=1024)
        threading.Thread(target=self._accept, args=(listener, address, port, handle), daemon=True).start()

    def _packets(self, address: str, port: int) -> None:
        packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        packets.bind((address, port))
        while True:
            packet, source = packets.recvfrom(4096)
            self.record(address=address, port=port, kind="packet")
            packets.sendto(packet, source)

    def _accept(
        self, listener: socket.socket, address: str, port: int, handle: Callable[[socket.socket, str, int], None]
    ) -> None:
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._one, args=(client, address, port, handle), daemon=True).start()

    def _one(
        self, client: socket.socket, address: str, port: int, handle: Callable[[socket.socket, str, int], None]
    ) -> None:
        with client:
            try:
                handle(client, address, port)
            except OSError as error:
                self.record(address=address, port=port, kind="error", error=type(error).__name__)

    def _banner(self, client: socket.socket, address: str, port: int) -> None:
        self.record(address=address, port=port, kind="banner", source=client.getpeername()[0])
        client.sendall(b"SSH-2.0-fake\r\n")
        client.recv(4096)

    def _echo(self, client: socket.socket, address: str, port: int) -> None:
        self.record(address=address, port=port, kind="echo", source=client.getpeername()[0])
        while data := client.recv(65536):
            client.sendall(data)

    def _https(self, client: socket.socket, address: str, port: int) -> None:
        first = client.recv(1, socket.MSG_PEEK)
        if first != b"\x16":
            self.record(address=address, port=port, kind="bytes", bytes=client.recv(200).decode("latin-1"))
            return
        self.record(address=address, port=port, kind="client-hello", source=client.getpeername()[0])
        with self._tls.wrap_socket(client, server_side=True) as secure:
            self._http(secure, address, port, sni=getattr(secure, "requested_name", ""))

    def _http(self, client: socket.socket, address: str, port: int, sni: str = "") -> None:
        reader = client.makefile("rb")
        while line := reader.readline(65536):
            headers = {}
            while (header := reader.readline(65536)) not in (b"\r\n", b"\n", b""):
                name, _, value = header.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
            body = reader.read(int(headers.get("content-length", "0")))
            words = line.decode("latin-1").split()
            self.record(
                address=address,
                port=port,
                kind="request",
                source=client.getpeername()[0],
                sni=sni,
                line=words,
                headers=headers,
                body=len(body),
            )
            if headers.get("upgrade", "").lower() == "websocket":
                _upgrade(client, reader)
                return
            try:
                _respond(client, words[1] if len(words) > 1 else "/", address)
            except ConnectionError:
                # Whoever asked has gone; that it came is on record.
                return

    def _answer(self, question: bytes, source: str) -> bytes:
        asked = DNSRecord.parse(question)
        name = str(asked.q.qname).rstrip(".").lower()
        kind = QTYPE[asked.q.qtype]
        self.record(address=NAME_SERVER, port=53, kind="dns", name=name, type=kind, source=source)
        with open(f"{self._directory}/zone.json", encoding="utf-8") as file:
            zone: dict[str, list[str]] = json.load(file)
        reply = asked.reply()
        if name not in zone:
            reply.header.rcode = RCODE.NXDOMAIN
        for address in zone.get(name, ()):
            if kind == ("AAAA" if ":" in address else "A"):
                data = AAAA(address) if ":" in address else A(address)
                reply.add_answer(RR(asked.q.qname, asked.q.qtype, rdata=data, ttl=1))
        return bytes(reply.pack())


def _remember_sni(secure: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
    secure.requested_name = name or ""  # type: ignore[union-attr]  # the handler asks for it after the handshake


def _upgrade(client: socket.socket, reader: io.BufferedReader) -> None:
    """Change to the other protocol, and send back what comes."""
    client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    while data := reader.read1(65536):
        client.sendall(data)


def _respond(client: socket.socket, path: str, address: str) -> None:
    """
    Says which server this is.

    `/alt-svc` at the end of a path names another way to it; `/size/N` sends N bytes instead, `/slow/N` waits so many seconds after its head, `/status/N` has this status.
    """
    kind, _, count = path.removeprefix("/").partition("/")
    body = b"x" * int(count) if kind == "size" else f"hello from {address}\n".encode()
    status = int(count) if kind == "status" else 200
    other = b'Alt-Svc: h3=":443"\r\n' if path.endswith("/alt-svc") else b""
    head = b"HTTP/1.1 %d X\r\nContent-Type: text/plain\r\n%bContent-Length: %d\r\n\r\n"
    client.sendall(head % (status, other, len(body)))
    if kind == "slow":
        time.sleep(float(count))
    client.sendall(body)


if __name__ == "__main__":
    directory = sys.argv[1]
    os.chdir(directory)
    Internet(directory).serve()
