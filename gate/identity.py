"""
Which run a connection belongs to, as squid sees it: the source address of a PROXY header.

The address is made of the run's id, the port is the number of the connection. squid gives both to the
helper and writes both into its log. Nothing but the bridge can reach squid's ports.
"""

from __future__ import annotations

import _socket
import struct

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_VERSION_2_PROXY = 0x21
_TCP_OVER_IPV6 = 0x21
_AUTHORITY = 2
# fd00::/96, and the run's id in the last 32 bits.
_PREFIX = b"\xfd" + bytes(11)
_DESTINATION = bytes(15) + b"\x01"


def proxy_header(run: str, connection: int, port: int, meant: str = "") -> bytes:
    """
    The PROXY protocol (version 2) header for connection number `connection` of the run.

    `meant` is the `host:port` that a plain connection is for; squid hands it to the helper with each request.
    """
    body = _PREFIX + bytes.fromhex(run) + _DESTINATION + struct.pack("!HH", connection, port)
    if meant:
        value = meant.encode("ascii")
        body += struct.pack("!BH", _AUTHORITY, len(value)) + value
    return _SIGNATURE + struct.pack("!BBH", _VERSION_2_PROXY, _TCP_OVER_IPV6, len(body)) + body


def run_of(address: str) -> str:
    """The run whose id made this source address. Raises ValueError for any other address."""
    try:
        packed = _socket.inet_pton(_socket.AF_INET6, address)
    except OSError as error:
        raise ValueError(f"{address[:60]!r} is no IPv6 address") from error
    if packed[:12] != _PREFIX:
        raise ValueError(f"{address[:60]!r} is not a run's address")
    return packed[12:].hex()
