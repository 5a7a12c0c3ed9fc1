"""
Address entries, in a running gate: what they open, and what they do not.

An address passes unread on the port of its entry; a listed name passes to it when it resolves there.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from aisb.domain.addresses import covers
from tests.tools.gate_box import GateBox, World, allowing, wait_for
from tests.tools.gate_client import connect, connected, get, get_and_close, https, listen, say, through_tunnel, tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator

V4, V6, EVIL, EVIL6 = "203.0.113.10", "2001:db8::10", "203.0.113.11", "2001:db8::11"
# The gate's own network: what slirp4netns would hand to the host.
HOST4 = "203.0.113.2"
ENTRIES = (
    f"{V4}", f"[{V6}]:443", f"[{V6}]:5432", "203.0.113.12:80", "10.0.0.0/8:5432", "10.0.0.0/8:80", "192.168.1.1:22",
    "169.254.169.254:80", "fd00::/16", "100.64.0.0/10",
    "listed.test", "listed.test:5432", "both.test", "metadata.test", "metadata6.test", "guarded.test", "host.test", "turning.test",
    "carried.test",
)  # fmt: skip
POLICY = allowing(*ENTRIES)
ZONE = {
    "listed.test": ["10.0.0.5"],
    "both.test": ["10.0.0.5", "172.16.0.1"],
    "metadata.test": ["169.254.169.254"],
    "metadata6.test": ["fd00:ec2::254"],
    "guarded.test": ["192.168.1.1"],
    "host.test": [HOST4],
    "carried.test": ["64:ff9b::a00:5"],
    "unlisted.test": ["10.0.0.5"],
    "allowed.test": [V4],
}


@pytest.fixture(scope="module")
def world(system: str) -> Iterator[World]:
    """A network in which everything is reachable as long as there is no gate."""
    with World() as world:
        world.answer(ZONE)
        for address in (V4, V6, EVIL, EVIL6, "10.0.0.5", "169.254.169.254", "fd00:ec2::254", "172.16.0.1"):
            assert all(world.reaches(address, port) for port in (22, 80, 443, 5432)), address
        yield world


@pytest.fixture(scope="module")
def gate(world: World, system: str) -> Iterator[GateBox]:
    """A gate in that network."""
    with GateBox(world, POLICY, system=system) as gate:
        assert gate.ready == "ready", gate.log()
        yield gate


@pytest.fixture
def path(gate: GateBox, world: World) -> Iterator[str]:
    """The socket of a run of its own. Ends with an allowed request that passes."""
    run = f"{time.monotonic_ns() & 0xFFFFFFFF:08x}"
    opened = gate.open(run)
    world.forget()
    yield opened
    assert say(opened, get_and_close(f"http://{V4}/still")).status == 200
    gate.ask({"op": "close", "run": run})


def record(gate: GateBox, path: str, *keys: str, lines: int = 1) -> list[tuple[object, ...]]:
    run = path.split("/")[-3]
    wait_for(lambda: len(gate.audit(run)) >= lines, f"{lines} lines in the record")
    return [tuple(line.get(key) for key in keys) for line in gate.audit(run)]


def authority(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# --- an address that was dialled -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "port"),
    [
        (V4, 22), (V4, 80), (V4, 443), (V4, 5432), (V6, 443), (V6, 5432), ("203.0.113.12", 80), ("10.0.0.5", 5432),
        ("192.168.1.1", 22), ("169.254.169.254", 80), ("100.64.0.1", 22), ("100.64.0.1", 8080),
    ],
)  # fmt: skip
def test_an_address_with_an_entry_passes_unread(
    path: str, gate: GateBox, world: World, address: str, port: int
) -> None:
    """Bytes of any kind, 443 and 80 too: an entry for an address does not say what is spoken there (B39)."""
    with connected(path) as client:
        assert tunnel(client, authority(address, port)).status == 200
        client.sendall(b"no TLS\r\n\r\n")
        listen(client, until=b"\n", seconds=1)
    assert {(where, to) for where, to, _ in world.arrived()} == {(address, port)}
    assert record(gate, path, "host", "port", "decision", "method") == [(address, port, "allow", "CONNECT")]


def test_tls_to_an_address_passes_byte_for_byte_whatever_it_names(path: str, world: World) -> None:
    for sni in (None, "whatever.test"):
        assert https(path, f"{V4}:443", sni, host="whatever.test").status == 200
    assert https(path, f"[{V6}]:443", None, host="whatever.test").status == 200
    assert [line["sni"] for line in world.seen() if line["kind"] == "request"] == ["", "whatever.test", ""]


@pytest.mark.parametrize("url", [f"http://{V4}/x", f"http://{V4}:8080/x", "http://10.0.0.5/x"])
def test_a_url_with_an_address(path: str, gate: GateBox, world: World, url: str) -> None:
    assert say(path, get_and_close(url)).status == 200
    (request,) = [line for line in world.seen() if line["kind"] == "request"]
    assert request["line"][1] == "/x"
    assert record(gate, path, "decision", "method", "path") == [("allow", "GET", "/x")]


@pytest.mark.parametrize(
    ("address", "port", "reason"),
    [
        (EVIL, 443, "direct-address"), (EVIL6, 443, "direct-address"), ("203.0.113.12", 443, "port"),
        ("203.0.113.12", 22, "port"), (V6, 22, "port"), (V6, 80, "port"), ("10.0.0.5", 443, "port"),
        ("10.0.0.5", 22, "port"), ("192.168.1.1", 80, "port"), ("169.254.169.254", 443, "port"),
        ("172.16.0.1", 80, "direct-address"), ("fd00:ec2::254", 80, "direct-address"),
        ("64:ff9b::a00:5", 80, "direct-address"), (HOST4, 80, "direct-address"), ("127.0.0.1", 3132, "direct-address"),
        ("::1", 3132, "direct-address"), ("::ffff:10.0.0.5", 5432, "direct-address"),
    ],
)  # fmt: skip
def test_an_address_without_an_entry_for_it_is_refused(
    path: str, gate: GateBox, world: World, address: str, port: int, reason: str
) -> None:
    """A network's entry opens no metadata service and no IPv4 in IPv6 clothes (A37)."""
    heard = say(path, connect(authority(address, port)))
    by_url = say(path, get(f"http://{authority(address, port)}/"))

    assert (heard.status, by_url.status) == (403, 403)
    assert f"\nreason: {reason} (".encode() in heard.data
    assert world.arrived() == []
    assert record(gate, path, "decision", "reason", lines=2) == [("deny", reason)] * 2


def test_a_later_request_to_another_address_is_refused(path: str, world: World) -> None:
    for later in (f"http://{EVIL}/2", "http://172.16.0.1/2", "http://[fd00:ec2::254]/2", "http://203.0.113.12:22/2"):
        with connected(path) as client:
            client.sendall(get(f"http://{V4}/1"))
            assert listen(client, until=b"203.0.113.10\n").status == 200
            client.sendall(get(later))
            assert listen(client, until=b"ask the user.\n").status == 403
    assert {where for where, _, _ in world.arrived()} == {V4}


def test_an_address_with_an_entry_resolves_nothing(path: str, world: World) -> None:
    """No name server hears of it, neither by itself nor by its reverse name."""
    say(path, get_and_close(f"http://{V4}/"))
    https(path, f"[{V6}]:443", None)
    assert world.asked() == set()


# --- a name that leads there -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "port"), [("listed.test", 80), ("listed.test", 5432)])
def test_a_listed_name_that_leads_to_an_address_with_an_entry(
    path: str, gate: GateBox, world: World, name: str, port: int
) -> None:
    if port == 80:
        assert say(path, get_and_close(f"http://{name}/")).status == 200
    else:
        with connected(path) as client:
            tunnel(client, f"{name}:{port}")
            client.sendall(b"x")
            assert client.recv(1) == b"x"
    assert {(where, to) for where, to, _ in world.arrived()} == {("10.0.0.5", port)}


@pytest.mark.parametrize(
    "name",
    [
        # 10.0.0.0/8 is open at 80, not at 443. The rest has an entry for another port, or for a network only.
        "listed.test", "metadata.test", "metadata6.test", "guarded.test", "host.test", "carried.test",
    ],
)  # fmt: skip
def test_a_listed_name_that_leads_to_a_private_address_is_not_followed(
    path: str, gate: GateBox, world: World, name: str
) -> None:
    """Not at this port of it, or not by an entry for this very address (A36, A37)."""
    tls = https(path, f"{name}:443", name)

    assert (tls.status, tls.is_closed) == (0, True)
    assert world.arrived() == []
    assert record(gate, path, "host", "decision", "reason") == [(name, "deny", "private-address")]
    if name not in ("listed.test", "metadata.test"):
        heard = say(path, get_and_close(f"http://{name}/"))
        assert heard.status == 403
        assert b"\nreason: private-address (" in heard.data
        assert world.arrived() == []


def test_a_metadata_service_behind_a_name_is_reached_by_its_own_entry_alone(path: str, world: World) -> None:
    assert say(path, get_and_close("http://metadata.test/")).status == 200
    assert {(where, to) for where, to, _ in world.arrived()} == {("169.254.169.254", 80)}


def test_of_two_addresses_behind_a_name_only_the_open_one_is_dialled(path: str, world: World) -> None:
    for _ in range(4):
        say(path, get_and_close("http://both.test/"))
    assert {where for where, _, _ in world.arrived()} <= {"10.0.0.5"}


def test_a_name_that_turns_to_a_private_address(path: str, world: World) -> None:
    """Allowed and answered at first, then its name server says something else (A36)."""
    for turned in ("10.0.0.5", "169.254.169.254", "127.0.0.1"):
        world.answer(ZONE | {"turning.test": [V4]})
        wait_for(lambda: https(path, "turning.test:443", "turning.test").status == 200, "it leads to a public address")
        world.forget()
        world.answer(ZONE | {"turning.test": [turned]})
        wait_for(lambda: https(path, "turning.test:443", "turning.test").status == 0, f"it leads to {turned}")
        assert {address for address, _, _ in world.arrived()} <= {V4}
    world.answer(ZONE)


def test_an_unlisted_name_that_leads_to_an_address_with_an_entry(path: str, gate: GateBox, world: World) -> None:
    for name in ("unlisted.test", "allowed.test"):
        assert say(path, connect(f"{name}:5432")).status == 403
        assert say(path, get(f"http://{name}/")).status == 403
        assert through_tunnel_or_refusal(path, f"{name}:443") == 403
    assert world.seen() == []
    assert {reason for (reason,) in record(gate, path, "reason", lines=6)} == {"not-listed"}


def through_tunnel_or_refusal(path: str, target: str) -> int:
    return say(path, connect(target)).status


def test_a_name_is_held_to_its_own_ports_whatever_its_address_allows(path: str, world: World) -> None:
    """203.0.113.10 is open at every port, and a host of that name is not thereby."""
    assert say(path, connect("listed.test:22")).status == 403
    heard = through_tunnel(path, "listed.test:80", get_and_close("/", host="10.0.0.5"))
    assert heard.status == 403
    assert world.arrived() == []


# --- the walls -------------------------------------------------------------------------------------

BRIDGE = ("gate/client.py", "        elif verdict.allowed:\n", "        elif True:\n")
HELPER = ("gate/judging.py", "    if not verdict.allowed:\n", "    if False:\n")
UNPROVED = ("gate/bridge.py", "        if fault:\n", "        if False:\n")
OUTER = ("squid.conf", "http_access deny address_literal !opened address_literal\n", "")
PRIVATE = ("squid.conf", "http_access deny private !opened private\n", "")
PRIVATE_TLS = ("squid.conf", "ssl_bump terminate second_look !probe_name private !opened\n", "")
SQUID_GUARDED = ("squid.conf", " !guarded\n", "\n")
NFT_GUARDED = ("gate.nft", "ip6 daddr @guarded6 jump refuse", "")
NFT_PRIVATE = ("gate.nft", "ip daddr @private4 jump refuse", "")
NFT_HOST = ("gate.nft", 'oif "lo" jump refuse', "")
CASES = {
    "an address": (connect(f"{EVIL}:22"), ((BRIDGE,), (HELPER,), (OUTER,)), (EVIL, 22)),
    "another port of a private address": (
        connect("10.0.0.5:22"), ((BRIDGE,), (HELPER,), (OUTER, PRIVATE), (NFT_PRIVATE,)), ("10.0.0.5", 22),
    ),
    "a metadata service inside a network": (
        connect("[fd00:ec2::254]:22"), ((BRIDGE,), (HELPER,), (SQUID_GUARDED,), (NFT_GUARDED,)), ("fd00:ec2::254", 22),
    ),
    "a name that leads to another port": (
        get_and_close("http://guarded.test/"), ((PRIVATE,), (NFT_PRIVATE,)), ("192.168.1.1", 80),
    ),
    "a name that leads to a metadata service": (
        get_and_close("http://metadata6.test/"), ((SQUID_GUARDED,), (NFT_GUARDED,)), ("fd00:ec2::254", 80),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Iterator[World]:
    """A network for one gate after the other."""
    with World() as world:
        world.answer(ZONE)
        yield world


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_without_its_walls_it_arrives_and_with_any_one_of_them_it_does_not(
    place: World,
    system: str,
    case: tuple[bytes, tuple[tuple[tuple[str, str, str], ...], ...], tuple[str, int]],
) -> None:
    words, walls, arrives = case
    for kept in (None, *walls):
        replaced = [change for wall in walls if wall is not kept for change in wall]
        with GateBox(place, POLICY, system=system, replaced=(*replaced, UNPROVED)) as gate:
            assert gate.ready == "ready", gate.log()
            path = gate.open()
            place.forget()
            with connected(path) as client:
                client.sendall(words)
                listen(client, until=b"fake\r\n", seconds=1)
            assert (arrives in {(address, port) for address, port, _ in place.arrived()}) is (kept is None), kept


def test_a_raw_tunnel_to_port_443_is_for_addresses_alone(place: World, system: str) -> None:
    """Without the helper's look squid's own line holds: a name has to go where its hello is looked at."""
    helper = ("gate/judging.py", "if question.port in WEB_PORTS and not is_address(question.host):", "if False:")
    own = ("squid.conf", "http_access deny at_explicit !address_literal connect web_port\n", "")
    for replaced, status in (((helper,), 403), ((helper, own), 200)):
        with GateBox(place, allowing("allowed.test", V4), system=system, replaced=replaced) as gate:
            path = gate.open()
            with connected(path) as client:
                client.sendall(get(f"http://{V4}/1"))
                listen(client, until=b"203.0.113.10\n")
                client.sendall(connect("allowed.test:443"))
                assert listen(client, until=b"\r\n\r\n").status == status


def test_the_refusal_says_which_entry_would_open_an_address(path: str) -> None:
    heard = say(path, get(f"http://{EVIL}:8080/x", "Accept: application/json"))

    body = json.loads(heard.data.partition(b"\r\n\r\n")[2])
    assert body["rule_missing"] == f"{EVIL}:8080"
    assert covers(allowing(body["rule_missing"]).addresses, EVIL, 8080)
