"""
In the relay's place where a sandbox has no gate: answers questions for names from a table, leads
clients of published ports in, and does nothing else.

The names were looked up on the host before the sandbox began. The network rules open their addresses and bring every
question here, whatever resolver it was meant for.
"""

from __future__ import annotations

import _socket
import sys

from gate.loop import Loop
from gate.names import Names
from gate.relay import DNS_PORT, Relay, bind, close_inherited, go_to_background, lead_in, most_clients
from gate.resolver import PinnedResolver, serve_packets

# A name and its addresses a line, separated by blanks.
PINS = "/run/aisb/pins"


def read_table(text: str) -> dict[str, list[bytes]]:
    """The addresses by name, as on the wire. Raises ValueError or OSError for what is no table."""
    table = {}
    for line in text.splitlines():
        name, *addresses = line.split(" ")
        table[name] = [packed(address) for address in addresses]
    return table


def packed(address: str) -> bytes:
    """An address as on the wire."""
    return _socket.inet_pton(_socket.AF_INET6 if ":" in address else _socket.AF_INET, address)


def main() -> None:
    """Bind everything, let the caller go on, and serve until the sandbox ends."""
    close_inherited()
    try:
        with open(PINS, encoding="ascii") as file:
            resolver = PinnedResolver(read_table(file.read()))
        packets = bind(_socket.SOCK_DGRAM, DNS_PORT)
        # Last: the launcher takes this one for the sign that all are bound.
        questions = bind(_socket.SOCK_STREAM, DNS_PORT)
    except (OSError, ValueError) as error:
        sys.exit(f"aisb: pins: {error}")
    limit = most_clients()
    go_to_background()
    loop = Loop()
    relay = Relay(loop, "", Names(), resolver, limit)
    for socket in questions:
        relay.serve_questions(socket)
    for socket in packets:
        serve_packets(loop, socket, resolver)
    lead_in(loop)
    loop.run()
