"""The gate's ruleset and the engine agree on every address."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.addresses import METADATA, PRIVATE_V4, PRIVATE_V6, AddressEntry, covers, is_private
from aisb.domain.reduce import reduce_addresses
from aisb.domain.upstream import Upstream
from aisb.render.gate_files import gate_ruleset
from aisb.render.gate_upstream import WayOut

HOST = ("203.0.113.2", "2001:db8::2", "10.1.2.3")
NEAR = (
    "10.0.0.5", "10.0.1.5", "10.1.2.3", "203.0.113.2", "203.0.113.10", "169.254.169.254", "169.254.1.1", "100.64.0.1",
    "2001:db8::2", "2001:db8::10", "fd00:ec2::254", "fd00:ec2::1", "64:ff9b::a00:5", "2002:a00:5::1", "fe80::1",
)  # fmt: skip
PORTS = (22, 443)
# What decides about all that has come so far.
ENDS = {"meta l4proto tcp accept": True, "jump refuse": False}
addresses = st.sampled_from(NEAR)


@st.composite
def entries(draw: st.DrawFn) -> AddressEntry:
    address = ip_address(draw(addresses))
    shortest = 8 if address.version == 4 else 16
    length = draw(st.sampled_from([address.max_prefixlen, address.max_prefixlen, *range(shortest, 33, 8)]))
    port = draw(st.sampled_from([None, *PORTS]))
    return AddressEntry(ip_network(f"{address}/{length}", strict=False), port)


def walk(ruleset: str, address: str, port: int) -> bool:
    """Whether a TCP connection of squid's is accepted: its chain, from top to bottom."""
    sets = {
        name: [ip_network(text) for text in re.split(r"[ ,]+", elements.strip())]
        for name, elements in re.findall(r"set (\w+) \{[^}]*?elements = \{([^}]*)\}", ruleset)
    }
    (chain,) = re.findall(r"chain squid \{(.*?)\n\t\}", ruleset, re.DOTALL)
    for line in chain.strip().splitlines():
        if line.strip() in ENDS:
            return ENDS[line.strip()]
        match = re.fullmatch(r"(ip6?) daddr (@?[0-9a-f:./\w]+) (.*)", line.strip())
        if match is None or "nameservers" in line or "127.0.0.1" in line:
            continue
        family, where, rest = match.groups()
        here = ip_address(address)
        if (family == "ip6") != (here.version == 6):
            continue
        networks = sets.get(where[1:], []) if where.startswith("@") else [ip_network(where)]
        if not any(here in network for network in networks):
            continue
        if rest == "jump refuse":
            return False
        if rest == "meta l4proto tcp accept" or rest == f"tcp dport {port} accept":
            return True
        assert re.fullmatch(r"tcp dport \d+ accept", rest)
    raise AssertionError("the chain has no end")


@given(st.lists(entries(), max_size=5), addresses, st.sampled_from(PORTS))
def test_nft_accepts_what_is_public_and_what_an_entry_covers(
    written: list[AddressEntry], address: str, port: int
) -> None:
    """And the entries that were left out as held by others are not missed. The host's own address has one of its own."""
    reduced = reduce_addresses(written)
    is_public = not is_private(ip_network(address)) and address not in HOST
    counting = [entry for entry in written if entry.is_single or address not in HOST]

    allowed = walk(gate_ruleset(reduced, HOST), address, port)

    assert allowed is (is_public or covers(counting, address, port))
    assert covers(reduced, address, port) is covers(written, address, port)


@given(st.lists(entries(), max_size=5), st.sets(addresses, max_size=3), addresses, st.sampled_from(PORTS))
def test_behind_a_proxy_nothing_is_accepted_but_the_proxy(
    written: list[AddressEntry], proxy: set[str], address: str, port: int
) -> None:
    """Whatever has an entry, and wherever the proxy is; of a proxy that is nowhere nothing is."""
    way_out = WayOut(Upstream("http", "proxy.test", 443), tuple(sorted(proxy)))

    ruleset = gate_ruleset(reduce_addresses(written), HOST, way_out)

    assert walk(ruleset, address, port) is (address in proxy and port == 443)
    assert "ip daddr @nameservers" not in ruleset


def test_the_walk_sees_the_walls() -> None:
    ruleset = gate_ruleset((), HOST)

    for network in (*PRIVATE_V4, *PRIVATE_V6, *METADATA):
        assert not walk(ruleset, str(ip_network(network).network_address), 443)
    assert not any(walk(ruleset, address, 443) for address in HOST)
    assert walk(ruleset, "203.0.113.10", 443)
