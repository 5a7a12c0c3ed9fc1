"""Real packets against the gate's real ruleset: who may go where."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from aisb.render.gate_files import SQUID_UID, Ports, gate_ruleset
from tests.tools.gate_box import HERE, PRIVATE, PRIVATE6, World, allowing, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.domain.addresses import AddressEntry

BRIDGE = 0
SOMEBODY = 1000
AT_ONCE = 1.0
BYSTANDER = 9999
HELPER = 40000
PORTS = Ports()
LISTENERS = (
    *(("127.0.0.1", port) for port in (BYSTANDER, HELPER, PORTS.probe, PORTS.probe_tls, PORTS.log, PORTS.explicit)),
    ("::1", BYSTANDER), ("::1", HELPER), ("203.0.113.2", BYSTANDER), ("2001:db8::2", BYSTANDER), ("127.0.0.2", HELPER),
)  # fmt: skip


class Place:
    """The gate's network with the ruleset in force, and servers on its own addresses."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: tuple[AddressEntry, ...] = ()
        self._listeners: list[socket.socket] = []

    def load(self, *without: tuple[str, str]) -> None:
        """As the entrypoint does, with some texts replaced by others."""
        ruleset = gate_ruleset(self.entries, ("203.0.113.2", "2001:db8::2"))
        for old, new in without:
            assert old in ruleset
            ruleset = ruleset.replace(old, new)
        ruleset += "add element inet aisb nameservers4 { 203.0.113.53, 192.168.1.1 }\n"
        subprocess.run(self.world.in_gate("nft", "-f", "-"), input=ruleset, text=True, check=True)

    def listen(self) -> None:
        """Servers in the gate's network, held by this process."""
        there = threading.Thread(target=self._listen)
        there.start()
        there.join()

    def _listen(self) -> None:
        # A thread may be in a network of its own.
        namespace = os.open(f"/run/netns/{self.world.gate}", os.O_RDONLY)
        _setns(namespace)
        os.close(namespace)
        for address, port in LISTENERS:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self._listeners.append(socket.create_server((address, port), family=family))

    def close(self) -> None:
        """Take the servers back."""
        for listener in self._listeners:
            listener.close()

    def attempts(self, uid: int, *what: tuple[str, str, int], namespace: str = "") -> list[tuple[str, float]]:
        """Outcomes of these attempts by this user."""
        argv = ["ip", "netns", "exec", namespace or self.world.gate, sys.executable, f"{HERE}/attempts.py", str(uid)]
        done = subprocess.run(argv, input=json.dumps(what), text=True, check=True, capture_output=True)
        return [(outcome, seconds) for outcome, seconds in json.loads(done.stdout)]

    def outcomes(self, uid: int, *what: tuple[str, str, int]) -> set[str]:
        """Whatever came of these attempts; refusals have to come at once."""
        found = self.attempts(uid, *what)
        assert all(seconds < AT_ONCE for outcome, seconds in found if outcome not in ("through", "silence")), found
        return {outcome for outcome, _ in found}


def _setns(descriptor: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), "setns")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """The network, once everything in it has been reached without the ruleset."""
    with World() as world:
        place = Place(world)
        place.listen()
        everything = [("tcp", address, 80) for address in (*PRIVATE, *PRIVATE6, "203.0.113.10", "2001:db8::10")]
        everything += [("tcp", *listener) for listener in LISTENERS]
        try:
            assert place.outcomes(SQUID_UID, *everything) == {"through"}
            assert {outcome for outcome, _ in place.attempts(SOMEBODY, *everything)} == {"through"}
            place.load()
            yield place
        finally:
            place.close()


def test_squid_reaches_public_addresses_at_once(place: Place) -> None:
    """TEST-NET counts as public. IPv6 needs neighbour discovery, which belongs to no user."""
    run("ip", "-n", place.world.gate, "neigh", "flush", "dev", "out")
    found = place.attempts(
        SQUID_UID,
        *(("tcp", address, port) for address in ("2001:db8::10", "203.0.113.10") for port in (80, 443, 22, 5432)),
    )

    assert {outcome for outcome, _ in found} == {"through"}
    assert max(seconds for _, seconds in found) < 1


@pytest.mark.parametrize("address", [*PRIVATE, *PRIVATE6])
def test_squid_is_refused_private_addresses_at_once(place: Place, address: str) -> None:
    assert place.outcomes(SQUID_UID, ("tcp", address, 80), ("tcp", address, 443)) == {"ECONNREFUSED"}


def test_squid_is_refused_all_other_private_ranges(place: Place) -> None:
    inside = (
        "0.0.0.1", "10.255.255.255", "100.127.255.255", "169.254.0.1", "172.31.255.255", "192.0.0.1", "192.168.255.255",
        "198.19.255.255", "255.255.255.254", "240.0.0.1", "::a00:5", "64:ff9b::a00:5", "64:ff9b:1::1", "2001::1",
        "2002:a00:5::1", "fc00::1", "fdff::1", "fec0::1",
    )  # fmt: skip
    found = place.attempts(SQUID_UID, *(("tcp", address, 80) for address in inside))

    # Some of them the kernel itself will not send to.
    assert {outcome for outcome, _ in found} <= {"ECONNREFUSED", "EINVAL", "ENETUNREACH", "EACCES", "EADDRNOTAVAIL"}
    assert max(seconds for _, seconds in found) < AT_ONCE


def test_squid_asks_its_name_servers_and_only_on_port_53(place: Place) -> None:
    assert place.outcomes(SQUID_UID, ("udp", "203.0.113.53", 53), ("tcp", "192.168.1.1", 53)) == {"through"}
    assert place.outcomes(SQUID_UID, ("tcp", "192.168.1.1", 80), ("tcp", "192.168.1.1", 853)) == {"ECONNREFUSED"}
    # No other server's port 53, private or public, by UDP.
    assert "through" not in place.outcomes(SQUID_UID, ("udp", "203.0.113.11", 53), ("udp", "10.0.0.5", 53))


def test_squid_sends_no_datagrams(place: Place) -> None:
    where = [("udp", address, port) for address in ("203.0.113.11", "2001:db8::11") for port in (443, 123, 9)]

    assert place.outcomes(SQUID_UID, *where) <= {"ECONNREFUSED", "EPERM", "EHOSTUNREACH", "EACCES"}


def test_squid_finds_only_its_own_partners_on_loopback(place: Place) -> None:
    partners = [("tcp", "127.0.0.1", port) for port in (PORTS.probe, PORTS.probe_tls, PORTS.log, HELPER)]
    others = [("tcp", address, port) for address, port in LISTENERS if (address, port) not in
              {("127.0.0.1", port) for port in (PORTS.probe, PORTS.probe_tls, PORTS.log, HELPER)}]  # fmt: skip

    assert place.outcomes(SQUID_UID, *partners) == {"through"}
    assert place.outcomes(SQUID_UID, *others) == {"ECONNREFUSED"}


def test_the_bridge_stays_on_loopback(place: Place) -> None:
    here = [("tcp", "127.0.0.1", PORTS.explicit), ("tcp", "127.0.0.1", BYSTANDER)]
    away = [("tcp", address, 80) for address in ("203.0.113.10", "2001:db8::10", "10.0.0.5", "fd00:ec2::254")]
    asking = [("udp", "203.0.113.53", 53), ("tcp", "192.168.1.1", 53)]

    assert place.outcomes(BRIDGE, *here) == {"through"}
    assert place.outcomes(BRIDGE, *away, *asking) <= {"ECONNREFUSED", "EPERM", "EHOSTUNREACH"}


def test_nobody_else_goes_anywhere(place: Place) -> None:
    anywhere = [("tcp", "127.0.0.1", PORTS.explicit), ("tcp", "203.0.113.10", 80), ("tcp", "192.168.1.1", 53)]

    assert place.outcomes(SOMEBODY, *anywhere) == {"ECONNREFUSED"}


def test_nothing_comes_in(place: Place) -> None:
    for address in ("203.0.113.2", "2001:db8::2"):
        ((outcome, _),) = place.attempts(BRIDGE, ("tcp", address, BYSTANDER), namespace=place.world.internet)
        assert outcome == "silence"


def test_squid_reaches_the_addresses_that_have_an_entry(place: Place) -> None:
    """At the port of the entry. A wide one opens no metadata service, and nothing opens the gate's own loopback."""
    place.entries = allowing(
        "10.0.0.0/8:80", "192.168.1.1:22", "fd00::/16", "100.64.0.1", "203.0.113.2", "[64:ff9b::a00:5]:443",
        "198.18.0.0/16:443", "169.254.169.254:80",
    ).addresses  # fmt: skip
    opened = [("10.0.0.5", 80), ("192.168.1.1", 22), ("100.64.0.1", 22), ("100.64.0.1", 443), ("64:ff9b::a00:5", 443),
              ("198.18.0.9", 443), ("169.254.169.254", 80)]  # fmt: skip
    closed = [("10.0.0.5", 443), ("192.168.1.1", 80), ("fd00:ec2::254", 80), ("fd00:ec2::254", 443), ("172.16.0.1", 80),
              ("64:ff9b::a00:5", 80), ("198.18.0.9", 80), ("169.254.169.254", 443), ("203.0.113.2", BYSTANDER),
              ("127.0.0.1", BYSTANDER)]  # fmt: skip
    place.load()
    try:
        assert place.outcomes(SQUID_UID, *(("tcp", *where) for where in opened)) == {"through"}
        assert place.outcomes(SQUID_UID, *(("tcp", *where) for where in closed)) == {"ECONNREFUSED"}
        assert "through" not in place.outcomes(SQUID_UID, ("udp", "100.64.0.1", 443))
        assert place.outcomes(SOMEBODY, ("tcp", "100.64.0.1", 443)) == {"ECONNREFUSED"}
    finally:
        place.entries = ()
        place.load()


LO_REFUSED = 'oif "lo" jump refuse'


LO = ('oif "lo" jump refuse', "")
V4 = ("ip daddr @private4 jump refuse", "")
V6 = ("ip6 daddr @private6 jump refuse", "")
HOST4 = ("ip daddr @host4 jump refuse", "")
HOST6 = ("ip6 daddr @host6 jump refuse", "")
RULES = {
    "private v4": ([V4], SQUID_UID, ("tcp", "10.0.0.5", 80), "through"),
    "private v6": ([V6], SQUID_UID, ("tcp", "fd00:ec2::254", 80), "through"),
    "the host's own v4": ([LO, HOST4], SQUID_UID, ("tcp", "203.0.113.2", BYSTANDER), "through"),
    "the host's own v6": ([LO, HOST6], SQUID_UID, ("tcp", "2001:db8::2", BYSTANDER), "through"),
    "loopback": ([LO, V4], SQUID_UID, ("tcp", "127.0.0.1", BYSTANDER), "through"),
    "port 53": ([("th dport 53 accept", "accept")], SQUID_UID, ("tcp", "192.168.1.1", 80), "through"),
    "tcp alone": ([("meta l4proto tcp accept", "accept")], SQUID_UID, ("udp", "203.0.113.11", 443), "through"),
    "the bridge": ([('skuid 0 oif "lo" accept', "skuid 0 accept")], BRIDGE, ("tcp", "203.0.113.10", 80), "through"),
    "other users": ([("meta skuid 13 jump squid", "jump squid")], SOMEBODY, ("tcp", "203.0.113.10", 80), "through"),
    "own words": ([('iif "lo" accept', "")], SQUID_UID, ("tcp", "127.0.0.1", PORTS.probe), "silence"),
}


@pytest.mark.parametrize(("without", "uid", "what", "outcome"), RULES.values(), ids=RULES.keys())
def test_each_rule_is_what_holds(
    place: Place, without: list[tuple[str, str]], uid: int, what: tuple[str, str, int], outcome: str
) -> None:
    """Taken out, the rule's own case goes another way: no other rule was what stopped it."""
    ((before, _),) = place.attempts(uid, what)
    place.load(*without)
    try:
        ((after, _),) = place.attempts(uid, what)
    finally:
        place.load()

    assert after == outcome
    assert before != outcome


def test_without_neighbour_discovery_ipv6_is_gone(place: Place) -> None:
    place.load(("icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept", ""))
    run("ip", "-n", place.world.gate, "neigh", "flush", "dev", "out")
    try:
        ((outcome, _),) = place.attempts(SQUID_UID, ("tcp", "2001:db8::10", 80))
    finally:
        place.load()

    assert outcome == "silence"


def test_without_the_policy_for_what_comes_in_something_does(place: Place) -> None:
    place.load(("priority filter; policy drop;", "priority filter; policy accept;"))
    try:
        ((outcome, _),) = place.attempts(BRIDGE, ("tcp", "203.0.113.2", BYSTANDER), namespace=place.world.internet)
    finally:
        place.load()

    assert outcome == "through"
