"""
Run in a network namespace of its own: `packets.py MODE RULESET`. Loads the ruleset, puts servers in the
relay's place, tries to reach all sorts of addresses, and prints as JSON what came of each attempt.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from gate.relay import original_destination  # noqa: E402  # found by the path above

SLOW_SECONDS = 0.5
CLONE_NEWNET = 0x40000000
SET_DEATH_SIGNAL = 1
ICMP, ICMP_V6, SCTP, GRE = 1, 58, 132, 47

V4 = socket.AF_INET
V6 = socket.AF_INET6
STREAM, PACKETS, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW

Attempt = tuple[int, int, int, str, int]


def meant(client: socket.socket) -> str:
    """The address that a redirected client dialled."""
    address, port = original_destination(client)
    return f"{socket.inet_ntop(client.family, address)} {port}"


def serve_streams(family: int, address: str, port: int, answer: Callable[[socket.socket], str]) -> None:
    """Answer each connection with one line."""
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == V6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind((address, port))
    listener.listen(64)

    def serve() -> None:
        while True:
            client, _ = listener.accept()
            with client:
                client.sendall(answer(client).encode())

    threading.Thread(target=serve, daemon=True).start()


def serve_packets(family: int, address: str, port: int, answer: str) -> None:
    """Answer each packet."""
    server = socket.socket(family, PACKETS)
    server.bind((address, port))

    def serve() -> None:
        while True:
            _, client = server.recvfrom(4096)
            server.sendto(answer.encode(), client)

    threading.Thread(target=serve, daemon=True).start()


def attempt(family: int, kind: int, protocol: int, address: str, port: int) -> str:
    """What a client is told: the server's line, or the first error."""
    began = time.monotonic()
    try:
        with socket.socket(family, kind, protocol) as client:
            client.settimeout(2)
            client.connect((address, port))
            if kind != STREAM:
                client.send(b"a message of some length")
            outcome = client.recv(200).decode()
    except OSError as error:
        outcome = errno.errorcode.get(error.errno or 0, str(error))
    return f"slow: {outcome}" if time.monotonic() - began > SLOW_SECONDS else outcome


def load(ruleset: str) -> None:
    """Load a ruleset."""
    subprocess.run(["nft", "-f", ruleset], check=True)


def local_routes() -> None:
    """Lead every address to lo, as the entrypoint does."""
    batch = b"route add local 0.0.0.0/0 dev lo\nroute add local ::/0 dev lo\n"
    subprocess.run(["ip", "-batch", "-"], input=batch, check=True)


def in_mode_allow() -> list[Attempt]:
    """The relay's two ports, and servers of the sandbox's own."""
    local_routes()
    for family, address in ((V4, "127.0.0.1"), (V6, "::1")):
        serve_streams(family, address, 3129, lambda client: f"relay: {meant(client)}")
        serve_streams(family, address, 3130, lambda client: f"resolver: {meant(client)}")
        serve_packets(family, address, 3130, "resolver")
        serve_streams(family, address, 443, lambda _: "own server")
        serve_streams(family, address, 53, lambda _: "own server")
        serve_packets(family, address, 53, "own server")
        serve_packets(family, address, 4433, "own server")
    serve_streams(V4, "0.0.0.0", 80, lambda _: "own server")
    serve_streams(V4, "127.5.5.5", 8080, lambda _: "own server")
    return [
        *[(V4, STREAM, 0, "203.0.113.11", port) for port in (21, 22, 25, 80, 443, 853, 3128, 5432, 8443, 65535)],
        (V4, STREAM, 0, "198.18.0.1", 53),
        (V4, STREAM, 0, "203.0.113.53", 53),
        (V4, STREAM, 0, "198.18.1.0", 53),
        (V4, STREAM, 0, "198.19.255.255", 53),
        (V4, STREAM, 0, "198.20.0.0", 53),
        (V4, STREAM, 0, "169.254.169.254", 80),
        (V4, STREAM, 0, "10.0.2.2", 22),
        (V4, STREAM, 0, "127.0.0.1", 80),
        (V4, STREAM, 0, "127.0.0.1", 443),
        (V4, STREAM, 0, "127.0.0.1", 53),
        (V4, STREAM, 0, "127.0.0.1", 81),
        (V4, STREAM, 0, "127.5.5.5", 8080),
        (V4, STREAM, 0, "0.0.0.0", 80),
        (V4, PACKETS, 0, "8.8.8.8", 53),
        (V4, PACKETS, 0, "127.0.0.1", 53),
        (V4, PACKETS, 0, "127.0.0.1", 4433),
        (V4, PACKETS, 0, "203.0.113.11", 443),
        (V4, PACKETS, 0, "203.0.113.11", 123),
        (V4, PACKETS, 0, "203.0.113.11", 9),
        (V4, RAW, ICMP, "203.0.113.11", 0),
        (V4, RAW, SCTP, "203.0.113.11", 0),
        (V4, RAW, GRE, "203.0.113.11", 0),
        (V6, STREAM, 0, "2001:db8::11", 443),
        (V6, STREAM, 0, "2001:db8::11", 80),
        (V6, STREAM, 0, "2001:db8::53", 53),
        (V6, STREAM, 0, "fd00:ec2::254", 80),
        (V6, STREAM, 0, "::1", 443),
        (V6, STREAM, 0, "::1", 444),
        (V6, STREAM, 0, "::", 443),
        (V6, STREAM, 0, "::ffff:203.0.113.11", 443),
        (V6, STREAM, 0, "fe80::1%lo", 443),
        (V6, PACKETS, 0, "2001:db8::53", 53),
        (V6, PACKETS, 0, "::1", 53),
        (V6, PACKETS, 0, "2001:db8::11", 443),
        (V6, PACKETS, 0, "ff02::1%lo", 443),
        (V6, RAW, ICMP_V6, "2001:db8::11", 0),
    ]


def join_network(attempts: list[Attempt]) -> None:
    """
    Give this namespace a device that leads to another one, where servers answer at the addresses of these attempts.

    The other end belongs to a child in a network namespace of its own.
    """
    readable, writable = os.pipe()
    mine = os.open("/proc/self/ns/net", os.O_RDONLY)
    if os.fork() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) == 0
        assert libc.unshare(CLONE_NEWNET) == 0
        _be_the_network(mine, attempts)
        os.write(writable, b".")
        threading.Event().wait()
    os.close(writable)
    assert os.read(readable, 1) == b"."
    ip(
        "link set inner up",
        "address add 203.0.113.2/24 dev inner",
        "-6 address add 2001:db8::2/64 dev inner nodad",
        "route add default via 203.0.113.1 dev inner",
        "-6 route add default via 2001:db8::1 dev inner",
    )


def _be_the_network(inner: int, attempts: list[Attempt]) -> None:
    ip(
        "link set lo up",
        f"link add outer type veth peer name inner netns /proc/{os.getpid()}/fd/{inner}",
        "link set outer up",
        "address add 203.0.113.1/24 dev outer",
        "-6 address add 2001:db8::1/64 dev outer nodad",
    )
    for address in sorted({address for _, _, _, address, _ in attempts} - {"127.0.0.1", "203.0.113.2"}):
        family = V6 if ":" in address else V4
        ip(f"address add {address} dev lo" + (" nodad" if family == V6 else ""))
        for port in (22, 53, 80):
            serve_streams(family, address, port, lambda _: "reached")
            serve_packets(family, address, port, "reached")


def ip(*lines: str) -> None:
    """Run ip for each line."""
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


OUTSIDE: list[Attempt] = [
    (V4, STREAM, 0, "203.0.113.11", 80),
    (V4, STREAM, 0, "10.0.2.2", 22),
    (V4, STREAM, 0, "10.0.2.2", 53),
    (V4, STREAM, 0, "10.0.2.3", 53),
    (V4, STREAM, 0, "10.0.2.3", 80),
    (V4, STREAM, 0, "169.254.1.1", 53),
    (V4, STREAM, 0, "169.254.1.2", 80),
    (V4, STREAM, 0, "127.0.0.1", 22),
    (V4, PACKETS, 0, "203.0.113.11", 80),
    (V4, PACKETS, 0, "169.254.1.1", 53),
    (V4, PACKETS, 0, "169.254.1.2", 53),
    (V4, PACKETS, 0, "10.0.2.2", 80),
    (V6, STREAM, 0, "2001:db8:1::11", 80),
    (V6, STREAM, 0, "fd00::2", 22),
    (V6, STREAM, 0, "fd00::3", 53),
]
# For mode pinned, beside those.
FOR_PINNED: list[Attempt] = [
    (V4, STREAM, 0, "203.0.113.10", 80),
    (V4, STREAM, 0, "203.0.113.10", 22),
    (V4, PACKETS, 0, "203.0.113.10", 80),
    (V4, STREAM, 0, "203.0.113.12", 80),
    (V4, STREAM, 0, "10.0.0.5", 22),
    (V4, STREAM, 0, "10.0.0.5", 80),
    (V4, STREAM, 0, "10.20.3.4", 80),
    (V4, STREAM, 0, "10.21.0.1", 80),
    (V4, STREAM, 0, "169.254.169.254", 80),
    (V4, STREAM, 0, "8.8.8.8", 53),
    (V4, PACKETS, 0, "8.8.8.8", 53),
    (V4, STREAM, 0, "203.0.113.2", 81),
    (V6, STREAM, 0, "2001:db8:1::10", 80),
    (V6, STREAM, 0, "2001:db8:1::10", 22),
    (V6, PACKETS, 0, "2001:db8:1::10", 80),
    (V6, STREAM, 0, "fd00:ec2::254", 80),
    (V6, STREAM, 0, "fd00:5::1", 80),
    (V6, PACKETS, 0, "2001:db8:1::53", 53),
    (V6, STREAM, 0, "2001:db8:1::53", 53),
]


def main() -> None:
    """See the module."""
    mode, ruleset = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if mode == "allow":
        attempts = in_mode_allow()
    else:
        attempts = OUTSIDE + (FOR_PINNED if mode == "pinned" else [])
        join_network(attempts)
        serve_streams(V4, "127.0.0.1", 22, lambda _: "own server")
    if mode == "pinned":
        for family, address in ((V4, "127.0.0.1"), (V6, "::1")):
            serve_streams(family, address, 3130, lambda client: f"resolver: {meant(client)}")
            serve_packets(family, address, 3130, "resolver")
    if ruleset != "-":
        load(ruleset)
    kinds = {STREAM: "tcp", PACKETS: "udp", RAW: "raw"}
    found = {
        f"{kinds[kind]}{protocol or ''} {address} {port}": attempt(family, kind, protocol, address, port)
        for family, kind, protocol, address, port in attempts
    }
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
