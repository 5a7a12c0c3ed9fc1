"""
Where the proxy is that a gate sends everything through: looked up here, once for each run.

The gate has the addresses in its ruleset, and asks no name server at all.
"""

from __future__ import annotations

import socket

from aisb.domain.upstream import need_way_to, parse_upstream
from aisb.errors import Unavailable


def find_upstream(url: str, named: str, network: str = "", own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """
    The addresses of a proxy, none without one.

    Raises Unavailable where its name leads nowhere, or to nothing but addresses of this host (`own`) that a gate on
    this `network` has itself.
    """
    if not url:
        return ()
    upstream = parse_upstream(url, named)
    try:
        found = socket.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except OSError as error:
        raise Unavailable(
            f"{named} {url}: {upstream.host} does not resolve: {error.strerror or error}",
            hint="check its name; without its proxy nothing leaves the sandbox",
        ) from error
    addresses = need_way_to(upstream, tuple(str(entry[4][0]).partition("%")[0] for entry in found), named)
    if network == "pasta" and set(addresses) <= set(own):
        raise Unavailable(
            f"{named} {url} is this host itself, whose addresses a gate on pasta has too: it cannot reach that",
            hint="name a proxy on another machine: this one's can be reached from a gate on slirp4netns only",
        )
    return addresses
