"""
Each protection of hosts with rules taken out once: the request that it stops arrives then.

Where two walls stand behind each other, either alone holds.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.tools.gate_box import GateBox, World, allowing
from tests.tools.gate_client import connect, connected, get, get_and_close, https, listen, say, through_tunnel, tunnel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "api.allowed.test"
OTHER = "two.allowed.test"
# One server for both names, as many a large site has.
ZONE = {HOST: ["203.0.113.10"], OTHER: ["203.0.113.10"], "evil.test": ["203.0.113.11"], "inward.test": ["10.0.0.5"]}
POLICY = allowing(f"GET {HOST}/pub/**", f"GET,POST {OTHER}/**", "GET inward.test/**", "evil.test")
Replaced = tuple[tuple[str, str, str], ...]
UNPROVED = ("gate/bridge.py", "        if fault:\n", "        if False:\n")


def conf(*removed: str) -> Replaced:
    return tuple(("squid.conf", line, "") for line in removed)


def without(file: str, check: str, instead: str) -> Replaced:
    return ((file, check, instead),)


BRIDGE = without("gate/client.py", "        elif verdict.allowed:\n", "        elif True:\n")
HELPER_BUMPED = without(
    "gate/judging.py", "        return _judge_bumped(engine, question)\n", "        return Verdict(True)\n"
)
HELPER_PLAIN = without(
    "gate/judging.py", "        return _judge_plain(engine, question)\n", "        return Verdict(True)\n"
)
HELPER_EXPLICIT = without(
    "gate/judging.py", "        return _judge_explicit(engine, question)\n", "        return Verdict(True)\n"
)
# Who reads nothing finds nothing: the engine passes the host on, and squid does not know better.
ENGINE_SPLICES = without(
    "aisb/domain/rules.py", "        if verdict.allowed and self.is_bumped(host):\n", "        if False:\n"
)
SQUID_SPLICES = conf(
    "ssl_bump bump second_look bumped_name bump_agrees\n", "ssl_bump terminate second_look bumped_name\n"
)
NAMES_AGREE = without("aisb/domain/rules.py", "        if not names_agree(request):\n", "        if False:\n")
PATH_FORM = without("aisb/domain/http_rules.py", "        if fault := form_fault(path):\n", "        if False:\n")
UPGRADE = without(
    "aisb/domain/rules.py",
    "        if fault := method_fault(request) or upgrade_fault(request):\n",
    "        if fault := method_fault(request):\n",
)
HELPER_TUNNEL = conf("http_access deny connect inside_tls !bumped_agrees\n")
SQUID_TUNNEL = conf("http_access deny connect inside_tls\n")
HELLO_AGAIN = conf("http_access deny at_tls connect !first_look !hello_agrees\n")
NO_PAGES = conf("http_access deny at_tls !connect !wants_json !bumped_agrees\n")
PRIVATE = conf("http_access deny private\n", "ssl_bump terminate second_look !probe_name private\n")
NFT_PRIVATE = without("gate.nft", "ip daddr @private4 jump refuse", "")
TRUST = without("squid.conf", "sslproxy_cert_error deny all", "sslproxy_cert_error allow all")
SQUID_NAMES = conf(
    *(f"http_access deny at_tls !connect for_{number} !met_{number} over_https\n" for number in (1, 2, 3))
)
HTTP2_SETTINGS = conf("request_header_access HTTP2-Settings deny all\n")
OTHERS = without(
    "squid.conf", "http_upgrade_request_protocols OTHER deny all", "http_upgrade_request_protocols OTHER allow all"
)
TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


def inside(*words: bytes, name: str = HOST) -> Callable[[str], object]:
    """Say this inside TLS that the gate opens, or that it should have opened."""

    def attack(path: str) -> object:
        with connected(path) as client, contextlib.suppress(OSError):
            tunnel(client, f"{name}:443")
            with TRUSTING.wrap_socket(client, server_hostname=name) as secure:
                for part in words:
                    secure.sendall(part)
                    listen(secure, until=b"\n\n", seconds=0.7)
        return None

    return attack


def plain(words: bytes) -> Callable[[str], object]:
    return lambda path: through_tunnel(path, f"{HOST}:80", words, seconds=1)


def by_url(path: str) -> object:
    return say(path, get_and_close(f"http://{HOST}/secret"), seconds=1)


def second_by_url(path: str) -> object:
    with connected(path) as client:
        client.sendall(get(f"http://{HOST}/pub/1"))
        listen(client, until=b"203.0.113.10\n")
        client.sendall(get(f"http://{HOST}/secret"))
        return listen(client, until=b"\n\n", seconds=1)


class Case(NamedTuple):
    """An attack, the walls that stop it, and how the server knows that it arrived."""

    attack: Callable[[str], object]
    walls: tuple[Replaced, ...]
    arrives: tuple[str, str, str]


POST = get("/secret", host=HOST)
UPGRADED = ("Connection: Upgrade", "Upgrade: websocket")
CASES = {
    "another path inside TLS": Case(inside(POST), (HELPER_BUMPED,), ("GET", "/secret", HOST)),
    "another path inside TLS, squid's question": Case(inside(POST), (NO_PAGES,), ("GET", "/secret", HOST)),
    "another path in TLS that nobody opens": Case(
        inside(get_and_close("/secret", host=HOST)), (ENGINE_SPLICES, SQUID_SPLICES), ("GET", "/secret", HOST)
    ),
    "another path in plain HTTP": Case(plain(POST), (HELPER_PLAIN,), ("GET", "/secret", HOST)),
    "another path by its URL": Case(by_url, (BRIDGE, HELPER_EXPLICIT), ("GET", "/secret", HOST)),
    "another path by a later URL": Case(second_by_url, (HELPER_EXPLICIT,), ("GET", "/secret", HOST)),
    "another host by the Host header": Case(
        inside(get("/pub/x", host=OTHER)), (NAMES_AGREE, SQUID_NAMES), ("GET", "/pub/x", OTHER)
    ),
    "another host by the URL": Case(
        inside(get(f"https://{OTHER}/pub/x", host=HOST)), (NAMES_AGREE, SQUID_NAMES), ("GET", "/pub/x", OTHER)
    ),
    "another host in plain HTTP": Case(
        plain(get("/pub/x", host=OTHER)), (NAMES_AGREE,), ("GET", "/pub/x", OTHER)
    ),
    "a path that goes up": Case(
        inside(get("/pub/../secret", host=HOST)), (PATH_FORM,), ("GET", "/pub/../secret", HOST)
    ),
    "an encoded path that goes up": Case(
        plain(get("/pub/%2e%2e/secret", host=HOST)), (PATH_FORM,), ("GET", "/pub/%2e%2e/secret", HOST)
    ),
    "an upgrade of a POST": Case(
        inside(get("/ws", *UPGRADED, host=OTHER).replace(b"GET", b"POST", 1), name=OTHER), (UPGRADE,), ("POST", "/ws", OTHER)
    ),
    "a tunnel in a tunnel": Case(
        inside(connect("evil.test:443"), get("/secret", host="evil.test")),
        (HELPER_TUNNEL, SQUID_TUNNEL, HELLO_AGAIN),
        ("GET", "/secret", "evil.test"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A network for one gate after the other."""
    with World() as world:
        world.answer(ZONE)
        yield world


@contextlib.contextmanager
def gate_without(world: World, system: str, *walls: Replaced) -> Iterator[str]:
    """The socket of a run, in a gate without these walls."""
    replaced = tuple(change for wall in walls for change in wall)
    with GateBox(world, POLICY, system=system, replaced=(*replaced, UNPROVED)) as gate:
        assert gate.ready == "ready", gate.log()
        path = gate.open()
        world.forget()
        yield path


def requests(world: World) -> list[tuple[str, str, str]]:
    return [
        (line["line"][0], line["line"][1], line["headers"].get("host", ""))
        for line in world.seen()
        if line["kind"] == "request"
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_without_its_walls_it_arrives_and_with_any_one_of_them_it_does_not(
    world: World, system: str, case: Case
) -> None:
    for kept in (None, *case.walls):
        with gate_without(world, system, *(wall for wall in case.walls if wall is not kept)) as path:
            case.attack(path)
            assert (case.arrives in requests(world)) is (kept is None), (kept, world.seen())


def test_a_host_with_rules_that_leads_inward(world: World, system: str) -> None:
    for walls, arrives in (((PRIVATE, NFT_PRIVATE), True), ((PRIVATE,), False), ((NFT_PRIVATE,), False)):
        with gate_without(world, system, *walls) as path:
            https(path, "inward.test:443", "inward.test")
            assert ("10.0.0.5" in {address for address, _, _ in world.arrived()}) is arrives


def test_a_server_that_nobody_vouches_for(world: World, system: str) -> None:
    """Its certificate is for other names: only the gate can see that."""
    world.answer(ZONE | {"inward.test": ["203.0.113.11"], "deep.wrong.test": ["203.0.113.11"]})
    policy = allowing("GET deep.wrong.test/**")
    for replaced, arrives in (((), False), (TRUST, True)):
        with GateBox(world, policy, system=system, replaced=replaced) as gate:
            path = gate.open()
            world.forget()
            inside(get("/x", host="deep.wrong.test"), name="deep.wrong.test")(path)
            assert (("GET", "/x", "deep.wrong.test") in requests(world)) is arrives
    world.answer(ZONE)


@pytest.mark.parametrize("way", [inside, plain], ids=["https", "plain"])
def test_what_squid_would_tell_a_server_about_http2(
    world: World, system: str, way: Callable[[bytes], Callable[[str], object]]
) -> None:
    # HTTP2-Settings not named by Connection, so that it is no matter of the hop alone.
    words = get("/pub/x", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Upgrade", host=HOST)
    for walls, expected in ((HTTP2_SETTINGS + OTHERS, True), ((), False)):
        with gate_without(world, system, walls) as path:
            way(words)(path)
            (request,) = [line for line in world.seen() if line["kind"] == "request"]
        assert ("h2c" in request["headers"].get("upgrade", "")) is expected
        assert ("http2-settings" in request["headers"]) is expected
