"""
The entry that would allow what was refused, where there is one.

The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from aisb.domain.addresses import METADATA, PROBES, is_private
from aisb.domain.hosts import is_address, show_authority
from aisb.domain.names import HOST_NAME, PROBED, WEB_PORTS, is_own

# An IPv4 address in IPv6 clothes, and the addresses that a sandbox makes up for names. A metadata service hands out the
# machine's credentials: an entry for it is for who knows that, not for who pastes what an agent met. What a start is
# proved by no entry opens.
_NOT_PROPOSED = tuple(map(ip_network, ("::ffff:0:0/96", "198.18.0.0/15", *METADATA, *PROBES)))


def entry_for(host: str, port: int) -> str:
    """The `--allow` entry that would let a canonical name or an address be reached at a port; "" where none would."""
    if is_address(host):
        return _address_entry_for(host, port)
    if host == HOST_NAME:
        return f"host:{port}"
    # Below a top-level name are many owners: the parser takes no such entry.
    if is_own(host) or "." not in host or host.endswith(".localhost"):
        return ""
    return host if port in WEB_PORTS else f"{host}:{port}"


def is_public(host: str, port: int) -> bool:
    """
    Whether this is the public web, for all that a canonical name or an address tells: what may be learnt of.

    What is not: whatever no entry could open, and what each start tries, to prove that it is closed.
    """
    if port not in WEB_PORTS or host in PROBED or not entry_for(host, port) or host == HOST_NAME:
        return False
    return not is_address(host) or not is_private(ip_network(host))


def _address_entry_for(text: str, port: int) -> str:
    address = ip_address(text)
    is_nowhere = address.is_loopback or address.is_multicast or address.is_unspecified
    is_never = any(address in network for network in _NOT_PROPOSED if network.version == address.version)
    return "" if is_nowhere or is_never else show_authority(str(address), port)
