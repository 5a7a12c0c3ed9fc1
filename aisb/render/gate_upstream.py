"""
The proxy that a gate sends everything through, in the words of squid and nft.

What squid is told of it lies in a file of its own, one line an address: the gate's entrypoint adds user and password to
each in its memory, so that they are in no file of the host's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.render.environment import render
from aisb.render.gate import GATE_TARGET, SCRATCH_TARGET

if TYPE_CHECKING:
    from aisb.domain.upstream import Upstream

# In a gate's `conf`: a line for each address, and whether something is to be added to each.
PEERS = "peers"
LOGIN = "login"
# As squid reads them, made by the entrypoint.
PEERS_READ = f"{SCRATCH_TARGET}/{PEERS}"
# In a gate's `conf`: certificates of the user's own, for the servers to which the gate itself speaks TLS.
ROOTS = "roots.pem"
ROOTS_READ = f"{GATE_TARGET}/conf/{ROOTS}"


class WayOut(NamedTuple):
    """A proxy, where it is, whether it is told a password, and whether the user has roots for its certificate."""

    upstream: Upstream
    addresses: tuple[str, ...]
    has_login: bool = False
    own_roots: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What squid calls each of its addresses."""
        return tuple(f"upstream_{number}" for number in range(1, len(self.addresses) + 1))

    @property
    def nft(self) -> tuple[str, ...]:
        """What nft is to accept."""
        return tuple(
            f"{'ip6' if ':' in address else 'ip'} daddr {address} tcp dport {self.upstream.port} accept"
            for address in self.addresses
        )


class PeersView(NamedTuple):
    """What peers.j2 sees."""

    peers: tuple[tuple[str, str], ...]
    host: str
    port: int
    tls: bool
    roots: str


def peer_lines(way_out: WayOut) -> str:
    """A line of squid's configuration for each address of the proxy."""
    upstream = way_out.upstream
    roots = ROOTS_READ if way_out.own_roots else ""
    peers = tuple(zip(way_out.names, way_out.addresses, strict=True))
    return render("peers.j2", PeersView(peers, upstream.host, upstream.port, upstream.is_tls, roots))


def unreached_through(authority: str) -> dict[str, str]:
    """squid's name of what went wrong -> what the client is told, where everything goes through a proxy."""
    silent = f"the proxy {authority}, which everything goes through, does not take the connection"
    return {
        "ERR_CANNOT_FORWARD": silent,
        "ERR_CONNECT_FAIL": f"{silent}: %E",
        "ERR_DNS_FAIL": silent,
        # What squid says of a proxy that did not answer when squid started, too.
        "ERR_READ_ERROR": f"{silent}, or broke it off",
        "ERR_SECURE_CONNECT_FAIL": (
            f"the gate does not trust the certificate of this host, or of the proxy {authority}, "
            "which everything goes through"
        ),
    }
