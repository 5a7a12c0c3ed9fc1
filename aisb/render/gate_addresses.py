"""
Address entries in the words of squid and nft: which addresses are open at which port.

An entry for one address opens that address, whatever it is. One for a network opens what is in it, but for what is
guarded: the metadata services, what a start is proved by, and the forms of IPv6 that carry an IPv4 address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import CARRIERS, METADATA, PROBES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.addresses import AddressEntry


def by_family(addresses: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of IPv4 and those of IPv6, each in their order."""
    listed = tuple(addresses)
    return tuple(one for one in listed if ":" not in one), tuple(one for one in listed if ":" in one)


GUARDED_V4, _GUARDED_ALONE_V6 = by_family((*METADATA, *PROBES))
GUARDED_V6 = (*_GUARDED_ALONE_V6, *CARRIERS)

_MAPPED_V6 = "::ffff:0:0/96"
_MULTICAST_V6 = "ff00::/8"
# squid holds IPv4 addresses in the mapped form, and "no address", which a name that does not resolve has, as all ones.
NOT_FOR_SQUID = (_MAPPED_V6, _MULTICAST_V6)
GUARDED_FOR_SQUID = tuple(network for network in (*GUARDED_V4, *GUARDED_V6) if network not in NOT_FOR_SQUID)


class Opened(NamedTuple):
    """Networks that are open at one port, or at any (None). `alone`: each is one address, with an entry of its own."""

    port: int | None
    alone: bool
    networks: tuple[str, ...]

    @property
    def name(self) -> str:
        """What squid calls it."""
        return f"opened_{'address' if self.alone else 'network'}_{self.port or 'any'}"


def opened_of(entries: Iterable[AddressEntry]) -> tuple[Opened, ...]:
    """The entries by port, single addresses apart: squid warns of an address inside a network of the same list."""
    found: dict[tuple[bool, int], list[str]] = {}
    for entry in entries:
        found.setdefault((entry.is_single, entry.port or 0), []).append(str(entry.network))
    return tuple(Opened(port or None, alone, tuple(found[alone, port])) for alone, port in sorted(found))


def accepted(entries: Iterable[AddressEntry]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What nft is to accept: the lines for single addresses, and those for networks."""
    alone: list[str] = []
    networks: list[str] = []
    for entry in entries:
        (alone if entry.is_single else networks).append(_accept_line(entry))
    return tuple(alone), tuple(networks)


def _accept_line(entry: AddressEntry) -> str:
    family = "ip6" if entry.network.version == 6 else "ip"
    address = entry.network.network_address if entry.is_single else entry.network
    port = "meta l4proto tcp" if entry.port is None else f"tcp dport {entry.port}"
    return f"{family} daddr {address} {port} accept"
