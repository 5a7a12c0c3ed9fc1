"""
Addresses made up for names: a client that resolves a name gets one, and dialling it says which name was meant.

They come from 198.18.0.0/15, which is set aside for laboratories and belongs to nobody. An address
is never used for a second name: a client may remember it for as long as the sandbox lives.
"""

from __future__ import annotations

import _socket

# The first 256 are left out: the resolver itself is 198.18.0.1.
FIRST = (198 << 24) | (18 << 16) | (1 << 8)
COUNT = (1 << 17) - 256


class Names:
    """The names of this sandbox and their addresses. Addresses are four bytes, as on the wire."""

    def __init__(self, count: int = COUNT) -> None:
        self._count = count
        self._names: list[str] = []
        self._indexes: dict[str, int] = {}

    def address_of(self, name: str) -> bytes | None:
        """The address of `name`, made up if it is new; None when there are no more."""
        index = self._indexes.get(name)
        if index is None:
            index = len(self._names)
            if index >= self._count:
                return None
            self._names.append(name)
            self._indexes[name] = index
        return (FIRST + index).to_bytes(4, "big")

    def name_of(self, address: bytes) -> str | None:
        """The name for which `address` was made up, None for any other address."""
        index = int.from_bytes(address, "big") - FIRST
        return self._names[index] if 0 <= index < len(self._names) else None


def target_of(names: Names, address: bytes) -> str:
    """The host to ask the gate for when a client dialled `address`: its name, or the address itself."""
    if len(address) == 4:
        return names.name_of(address) or _socket.inet_ntoa(address)
    return f"[{_socket.inet_ntop(_socket.AF_INET6, address)}]"
