"""
Address entries: networks of addresses with or without a port, and which addresses are not the internet.

The engine asks whether an entry covers an address; the gate's ruleset is rendered from the same entries and
ranges. The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Network: TypeAlias = IPv4Network | IPv6Network

# The forms of IPv6 that carry an IPv4 address: compatible, mapped, translated (two), Teredo and 6to4.
CARRIERS = ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")
# The clouds' metadata services hand out the machine's own credentials.
METADATA = ("169.254.169.254/32", "fd00:ec2::254/128")
# By being refused these two each start proves that it is closed. They are documentation, and nobody's.
PROBES = ("192.0.2.1/32", "2001:db8:ffff::1/128")

# Not the internet. TEST-NET counts as public.
PRIVATE_V4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
PRIVATE_V6 = (*CARRIERS, "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8")

_CARRIERS = tuple(map(IPv6Network, CARRIERS))
_GUARDED = tuple(map(ip_network, (*METADATA, *PROBES, *CARRIERS)))
_PROBES = tuple(map(ip_network, PROBES))
_PRIVATE = tuple(map(ip_network, (*PRIVATE_V4, *PRIVATE_V6)))


class AddressEntry(NamedTuple):
    """A network of addresses and a TCP port, any port without one."""

    network: Network
    port: int | None

    def text(self) -> str:
        """The entry in canonical form."""
        address = str(self.network.network_address) if self.is_single else str(self.network)
        if self.port is None:
            return address
        return f"[{address}]:{self.port}" if self.network.version == 6 else f"{address}:{self.port}"

    @property
    def is_single(self) -> bool:
        """Whether this is one address alone."""
        return self.network.prefixlen == self.network.max_prefixlen

    @property
    def order(self) -> tuple[int, int, int, int]:
        """What lists of entries are sorted by."""
        network = self.network
        return network.version, int(network.network_address), network.prefixlen, self.port or 0


def is_private(network: Network) -> bool:
    """Whether some of `network` is not the internet: refused as the address of a name unless an entry covers it."""
    return _is_in(network, _PRIVATE)


def is_guarded(network: Network) -> bool:
    """Whether `network` is one address that only an entry for it alone opens, never one for a wider network."""
    return network.prefixlen == network.max_prefixlen and _is_in(network, _GUARDED)


def is_probe(network: Network) -> bool:
    """Whether `network` is one of the addresses that every run is refused, so that its start can be proved by it."""
    return network in _PROBES


def carries_v4(network: Network) -> bool:
    """Whether all of `network` are IPv6 addresses that carry IPv4 ones."""
    return network.version == 6 and any(network.subnet_of(carrier) for carrier in _CARRIERS)


def _is_in(network: Network, others: Iterable[Network]) -> bool:
    # overlaps() of two families is False by itself; its stub wants one family.
    return any(network.version == other.version and network.overlaps(other) for other in others)


class AddressTable:
    """Address entries, found by the address."""

    def __init__(self, entries: Iterable[AddressEntry]) -> None:
        self._by_prefix: dict[tuple[int, int, int], list[AddressEntry]] = {}
        lengths: dict[int, set[int]] = {4: set(), 6: set()}
        for entry in entries:
            length = entry.network.prefixlen
            self._by_prefix.setdefault(_prefix(entry.network, length), []).append(entry)
            lengths[entry.network.version].add(length)
        self._lengths = {version: sorted(found, reverse=True) for version, found in lengths.items()}

    def covering(self, network: Network) -> Iterator[AddressEntry]:
        """The entries that open all of `network` on some port, the narrowest first."""
        guarded = is_guarded(network)
        for length in self._lengths[network.version]:
            if length <= network.prefixlen and not (guarded and length < network.max_prefixlen):
                yield from self._by_prefix.get(_prefix(network, length), ())

    def at(self, address: str) -> list[AddressEntry]:
        """The entries that cover an address on some port. Raises ValueError for what is no address."""
        return list(self.covering(ip_network(address)))


def covers(entries: Iterable[AddressEntry], address: str, port: int) -> bool:
    """Whether an entry opens this port of this address. Raises ValueError for what is no address."""
    return any(entry.port in (None, port) for entry in AddressTable(entries).at(address))


def _prefix(network: Network, length: int) -> tuple[int, int, int]:
    return network.version, length, int(network.network_address) >> (network.max_prefixlen - length)
