"""
What a gate reads: squid's configuration with its outer allowlist, the ruleset, and its entrypoint.

All of it follows from the policy and from what this host is; nothing is looked up here.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import PRIVATE_V4, PRIVATE_V6
from aisb.domain.egress import policy_json
from aisb.domain.injection import headers_read, injected_headers
from aisb.domain.names import covering_lines
from aisb.domain.rules import EXACT, OWN_SUFFIX, PROBE_NAME, WEB_PORTS, NameEntry
from aisb.render.argv import mount_targets
from aisb.render.environment import render
from aisb.render.gate import (
    FIRST_EPHEMERAL_PORT,
    GATE_TARGET,
    LAST_EPHEMERAL_PORT,
    OWN_NAME,
    SCRATCH_TARGET,
)
from aisb.render.gate_addresses import (
    GUARDED_FOR_SQUID,
    GUARDED_V4,
    GUARDED_V6,
    NOT_FOR_SQUID,
    Opened,
    accepted,
    by_family,
    opened_of,
)
from aisb.render.gate_upstream import (
    LOGIN,
    PEERS,
    PEERS_READ,
    ROOTS,
    ROOTS_READ,
    WayOut,
    peer_lines,
    unreached_through,
)
from aisb.render.sandbox import CAPABILITY_MASK, KNOWN_MOUNTS, KNOWN_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.addresses import AddressEntry
    from aisb.domain.egress import EgressPolicy

# Debian's and Ubuntu's number of the user `proxy`; the entrypoint checks it.
SQUID_UID = 13
# Two for each of the connections that the bridge takes (gate/bridge.py), and some for squid itself.
DESCRIPTORS = 16640
SILENCE_HOURS = 2

# As a file: squid splits this at blanks, knows no quotes, and takes a parenthesis for a function of its own.
# Without a folder for it to keep them in, the certificates that it makes are nowhere on a disk.
CERTGEN = "/usr/lib/squid/security_file_certgen"
HELPER = "/usr/bin/python3 -I -S /usr/libexec/aisb/gate/helper.py"


# squid's name of what went wrong with an allowed host -> what the client is told; squid fills in what follows a %.
# squid 5 says ERR_READ_ERROR or ERR_CANNOT_FORWARD where it means ERR_DNS_FAIL.
UNREACHED = {
    "ERR_CANNOT_FORWARD": "its name does not resolve, or no address of it can be reached",
    "ERR_CONNECT_FAIL": "%I does not take the connection: %E",
    "ERR_DNS_FAIL": "its name does not resolve: %z",
    "ERR_INVALID_RESP": "its answer is not HTTP",
    "ERR_READ_ERROR": "its name does not resolve, or it broke the connection off",
    "ERR_SECURE_CONNECT_FAIL": "the gate does not trust its certificate",
    "ERR_READ_TIMEOUT": "it said nothing for too long",
    "ERR_WRITE_ERROR": "it broke the connection off: %E",
    "ERR_ZERO_SIZE_OBJECT": "it ended the connection without an answer",
}
# Where squid finds its pages, made by the entrypoint.
PAGES = f"{SCRATCH_TARGET}/pages"
# The helper's annotation, which says whose request it is.
RUN_NOTE = "run_"
# Written by the bridge (gate/squid.py; a test compares them): what was allowed in some run since it began.
LIVE_NAMES = f"{GATE_TARGET}/live/names"
LIVE_PORTS = f"{GATE_TARGET}/live/ports"


class Ports(NamedTuple):
    """Numbers on the gate's loopback; gate/ports.py holds the same ones, and a test compares them."""

    explicit: int = 3128
    plain: int = 3129
    tls: int = 3130
    probe: int = 3131
    probe_tls: int = 443
    log: int = 3132


class LogWidths(NamedTuple):
    """
    The most that squid's log line holds of what a client may make long, as it stands there.

    All of it and the rest of a line have to fit in squid's 8191 bytes. gate/squid_log.py holds the same width of a
    path, and a test compares them.
    """

    host: int = 800
    path: int = 5600
    sni: int = 800


class SquidView(NamedTuple):
    """What squid.conf.j2 sees."""

    listed_ports: tuple[int, ...]
    private_networks: tuple[str, ...]
    opened: tuple[Opened, ...]
    bumped: tuple[str, ...]
    roots: str
    learn: bool
    injected: tuple[str, ...]
    headers_read: tuple[str, ...]
    guarded_networks: tuple[str, ...]
    # Whether everything goes through a proxy, and what squid calls its addresses.
    proxied: bool
    upstream: tuple[str, ...]
    peers: str = PEERS_READ
    certgen: str = CERTGEN
    ports: Ports = Ports()
    pages: str = PAGES
    live_names: str = LIVE_NAMES
    live_ports: str = LIVE_PORTS
    unreached: tuple[str, ...] = tuple(UNREACHED)
    own_name: str = OWN_NAME
    own_suffix: str = OWN_SUFFIX
    probe_name: str = PROBE_NAME
    helper: str = HELPER
    descriptors: int = DESCRIPTORS
    silence_hours: int = SILENCE_HOURS
    log_widths: LogWidths = LogWidths()


class UnreachedView(NamedTuple):
    """What unreached.j2 sees."""

    run: str
    host: str
    reason: str
    next: str


class AllowlistView(NamedTuple):
    """What allowlist.j2 sees."""

    lines: tuple[str, ...]


class RulesetView(NamedTuple):
    """What gate.nft.j2 sees."""

    host_addresses4: tuple[str, ...]
    host_addresses6: tuple[str, ...]
    proxied: bool
    upstream: tuple[str, ...]
    accepted_alone: tuple[str, ...]
    accepted_networks: tuple[str, ...]
    guarded4: tuple[str, ...] = GUARDED_V4
    guarded6: tuple[str, ...] = GUARDED_V6
    private4: tuple[str, ...] = PRIVATE_V4
    private6: tuple[str, ...] = PRIVATE_V6
    ports: Ports = Ports()
    squid_uid: int = SQUID_UID
    first_ephemeral_port: int = FIRST_EPHEMERAL_PORT
    last_ephemeral_port: int = LAST_EPHEMERAL_PORT


class EntrypointView(NamedTuple):
    """What gate-entrypoint.sh.j2 sees: nothing of a policy, so that the image stays the same for all."""

    capability_mask: str = CAPABILITY_MASK
    known_mounts: tuple[str, ...] = KNOWN_MOUNTS
    known_variables: tuple[str, ...] = KNOWN_VARIABLES
    squid_uid: int = SQUID_UID
    own_name: str = OWN_NAME
    pages: str = PAGES
    peers: str = PEERS
    login: str = LOGIN
    peers_read: str = PEERS_READ


def squid_conf(
    egress: EgressPolicy, host_addresses: Iterable[str], *, own_roots: bool = False, way_out: WayOut | None = None
) -> str:
    """
    squid's configuration, which sends everything through `way_out` where there is one.

    `own_roots`: the user's own certificates are in the gate's directory too.
    """
    ports = {port for entry in egress.names for port in entry.ports} | set(WEB_PORTS)
    view = SquidView(
        listed_ports=tuple(sorted(ports)),
        private_networks=_with_host((*PRIVATE_V4, *PRIVATE_V6), host_addresses),
        opened=opened_of(egress.addresses),
        bumped=egress.bumped,
        roots=ROOTS_READ if own_roots else "",
        learn=egress.learn,
        injected=injected_headers(egress.injections),
        headers_read=headers_read(egress.injections),
        guarded_networks=_with_host(GUARDED_FOR_SQUID, host_addresses),
        proxied=way_out is not None,
        upstream=way_out.names if way_out else (),
    )
    return render("squid.conf.j2", view)


def _with_host(closed: Iterable[str], host_addresses: Iterable[str]) -> tuple[str, ...]:
    """These networks and the host's own addresses, for squid."""
    # It warns about an address that one of the networks covers already.
    networks = [ip_network(text) for text in closed if text not in NOT_FOR_SQUID]
    own = {ip_address(text) for text in host_addresses}
    uncovered = (address for address in own if not any(address in network for network in networks))
    return (*map(str, networks), *sorted(map(str, uncovered)))


def allowlist(names: Iterable[NameEntry]) -> str:
    """The names that squid may hear of at most, one a line. The helper decides ports, and what is below only."""
    return render("allowlist.j2", AllowlistView(covering_lines((*names, NameEntry(PROBE_NAME, EXACT, WEB_PORTS)))))


def bumped_names(egress: EgressPolicy) -> str:
    """The hosts whose TLS is opened, one a line: no bug of the helper can have squid pass on unread what goes there."""
    return render("allowlist.j2", AllowlistView(egress.bumped))


def gate_ruleset(entries: Iterable[AddressEntry], host_addresses: Iterable[str], way_out: WayOut | None = None) -> str:
    """The gate's nft ruleset, in which squid reaches nothing but `way_out` where there is one."""
    addresses4, addresses6 = by_family(sorted(set(host_addresses)))
    # What an entry opens is the proxy's to reach.
    alone, networks = accepted(() if way_out else entries)
    return render(
        "gate.nft.j2",
        RulesetView(
            host_addresses4=addresses4,
            host_addresses6=addresses6,
            proxied=way_out is not None,
            upstream=way_out.nft if way_out else (),
            accepted_alone=alone,
            accepted_networks=networks,
        ),
    )


def gate_entrypoint() -> str:
    """The gate image's entrypoint."""
    return render("gate-entrypoint.sh.j2", EntrypointView())


def unreached_page(reason: str, *, proxied: bool = False) -> str:
    """What squid answers where an allowed host cannot be reached; `proxied`: because of what lies in between."""
    # Behind a proxy %H is what squid calls that.
    host = "@Squid{%>rd}" if proxied else "%H"
    cure = "tell the user, whose proxy that is" if proxied else "check the name, or ask whoever runs that host"
    return render("unreached.j2", UnreachedView(f"@Squid{{%{{{RUN_NOTE}}}note}}", host, reason, cure))


def gate_files(
    *,
    egress: EgressPolicy,
    host_addresses: tuple[str, ...],
    seccomp: str,
    idle_seconds: int,
    roots: str = "",
    way_out: WayOut | None = None,
) -> dict[str, str]:
    """
    Everything in a gate's `conf` directory, by name.

    `roots` are certificates of the user's own, in PEM; `way_out` is the proxy that everything goes through.
    """
    bumped = {"bumped": bumped_names(egress)} if egress.bumped else {}
    opens_tls = bool(egress.bumped) or (way_out is not None and way_out.upstream.is_tls)
    own_roots = {ROOTS: roots} if opens_tls and roots else {}
    peers = {PEERS: peer_lines(way_out)} if way_out else {}
    login = {LOGIN: "on descriptor 4\n"} if way_out and way_out.has_login else {}
    unreached = UNREACHED | (unreached_through(way_out.upstream.authority) if way_out else {})
    pages = {name: unreached_page(reason, proxied=way_out is not None) for name, reason in unreached.items()}
    return {
        **bumped,
        **own_roots,
        **peers,
        **login,
        **pages,
        "allowlist": allowlist(egress.listed_names),
        # squid fills in what the helper said.
        "denied": "403 Access denied by egress policy\n%O",
        "denied.json": "%O",
        "gate.nft": gate_ruleset(egress.addresses, host_addresses, way_out),
        "hosts": f"127.0.0.1 {PROBE_NAME}\n",
        "idle": f"{idle_seconds}\n",
        "mounts": mount_targets((GATE_TARGET, SCRATCH_TARGET)),
        "policy.json": policy_json(egress),
        "seccomp.json": seccomp,
        "squid.conf": squid_conf(egress, host_addresses, own_roots=bool(own_roots), way_out=way_out),
    }
