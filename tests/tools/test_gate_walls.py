"""
Each protection of a gate taken out once: the attack that it stops arrives then, and with it, it does not.

Where two walls stand behind each other, either alone holds, and only without both does anything arrive.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from aisb.domain.rules import TREE, EgressPolicy, NameEntry
from tests.tools.gate_box import SYSTEMS, ZONE, GateBox, World, allowing
from tests.tools.gate_client import connect, connected, get, get_and_close, https, listen, say, through_tunnel, tunnel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = (
    NameEntry("allowed.test", TREE, (22, 80, 443, 5432)),
    NameEntry("cdn.test", TREE, (80, 443)),
    NameEntry("inward.test", TREE, (22, 80, 443)),
)
Replaced = tuple[tuple[str, str, str], ...]

# A gate without one of its walls may not be able to prove itself.
UNPROVED = ("gate/bridge.py", "        if fault:\n", "        if False:\n")


def conf(*removed: str) -> Replaced:
    """squid's configuration without these lines."""
    return tuple(("squid.conf", line, "") for line in removed)


def ssl_bump(old: str, new: str) -> Replaced:
    return (("squid.conf", f"ssl_bump {old}\n", f"ssl_bump {new}\n"),)


BRIDGE = (("gate/client.py", "        elif verdict.allowed:\n", "        elif True:\n"),)
HELPER = (("gate/judging.py", "    if not verdict.allowed:\n", "    if False:\n"),)
HELPER_FOR_HELLOS = (
    (
        "gate/judging.py",
        "return engine.judge_tls(question.host, question.port, question.sni)",
        "return engine.judge(question.host, question.port)",
    ),
)
# squid asks once more, with the hello, where it passes one on.
HELLO_AGAIN = conf("http_access deny at_tls !first_look !hello_agrees\n")
HELPER_FOR_WEB_PORTS = (
    ("gate/judging.py", "if question.port in WEB_PORTS and not is_address(question.host):", "if False:"),
)
LISTED_NAME = conf("http_access deny !listed_name !live_name\n")
LISTED_PORT = conf("http_access deny !listed_port !live_port\n")
NO_WEB_TUNNEL = conf("http_access deny at_explicit connect web_port\n")
EXPLICIT = conf("http_access deny at_explicit !wants_json !explicit_agrees\n")
PLAIN = conf("http_access deny at_plain !wants_json !plain_agrees\n")
PRIVATE = conf("http_access deny private\n", "ssl_bump terminate second_look !probe_name private\n")
NFT_PRIVATE = (("gate.nft", "ip daddr @private4 jump refuse", ""),)


def fronting(sni: str | None) -> Callable[[str], object]:
    return lambda path: https(path, "cdn.test:443", sni, host="evil.test")


def raw_bytes_to_443(path: str) -> object:
    return through_tunnel(path, "cdn.test:443", b"SSH-2.0-x\r\n", seconds=1)


def another_host_by_plain_http(path: str) -> object:
    return through_tunnel(path, "inward.test:80", get_and_close("/", host="cdn.test"))


def second_request(words: bytes, more: bytes = b"") -> Callable[[str], object]:
    """Something that comes on a connection whose first request was allowed: the bridge does not see it."""

    def attack(path: str) -> object:
        with connected(path) as client:
            client.sendall(get("http://allowed.test/1"))
            listen(client, until=b"203.0.113.10\n")
            client.sendall(words)
            listen(client, until=b"\r\n\r\n", seconds=1)
            client.sendall(more)
            return listen(client, until=b"\n", seconds=1)

    return attack


def first_request(words: bytes) -> Callable[[str], object]:
    return lambda path: say(path, words, seconds=1)


def inward(path: str) -> object:
    say(path, get_and_close("http://inward.test/"), seconds=1)
    say(path, connect("inward.test:22"), seconds=1)
    return https(path, "inward.test:443", "inward.test")


class Case(NamedTuple):
    """An attack, the walls that stop it, and the address at which it arrives without them."""

    attack: Callable[[str], object]
    walls: tuple[Replaced, ...]
    arrives: tuple[str, int]


CDN = "203.0.113.12"
EVIL = "203.0.113.11"
CASES = {
    "another name in the hello": Case(
        fronting("evil.test"), (ssl_bump("terminate all", "splice all"), HELLO_AGAIN), (CDN, 443)
    ),
    "no name in the hello": Case(
        fronting(None), (ssl_bump("terminate all", "splice all"), HELLO_AGAIN), (CDN, 443)
    ),
    "a star in the hello": Case(fronting("*.test"), (HELPER_FOR_HELLOS,), (CDN, 443)),
    "another allowed name in the hello": Case(fronting("allowed.test"), (HELPER_FOR_HELLOS,), (CDN, 443)),
    "no TLS": Case(raw_bytes_to_443, (ssl_bump("peek first_look", "splice all"),), (CDN, 443)),
    "another host in plain HTTP": Case(another_host_by_plain_http, (PLAIN,), (CDN, 80)),
    "a second request to another host": Case(
        second_request(get("http://evil.test/2")), (EXPLICIT, LISTED_NAME), (EVIL, 80)
    ),
    "a second request to another port": Case(
        second_request(get("http://allowed.test:8443/2")), (EXPLICIT, LISTED_PORT), ("203.0.113.10", 8443)
    ),
    "a tunnel past the look into TLS": Case(
        second_request(connect("cdn.test:443"), b"SSH-2.0-x\r\n"), (HELPER_FOR_WEB_PORTS, NO_WEB_TUNNEL), (CDN, 443)
    ),
    "a first request to another host": Case(
        first_request(get_and_close("http://evil.test/")), (BRIDGE, HELPER, LISTED_NAME), (EVIL, 80)
    ),
    "a tunnel to another host": Case(
        first_request(connect("evil.test:22")), (BRIDGE, HELPER, LISTED_NAME), (EVIL, 22)
    ),
    "an address": Case(first_request(connect(f"{EVIL}:22")), (BRIDGE, HELPER, LISTED_NAME), (EVIL, 22)),
    "a name that leads inward": Case(inward, (PRIVATE, NFT_PRIVATE), ("10.0.0.5", 80)),
}  # fmt: skip


# Where everything public is open to learn what a command needs, what is not is closed as often.
WEB_ALONE = conf("http_access deny !address_literal !listed_name !web_port !live_name\n")
PUBLIC_ALONE = conf("http_access deny address_literal !learnt address_literal\n")
LEARNING = {
    "another port": Case(first_request(connect("evil.test:22")), (BRIDGE, HELPER, WEB_ALONE), (EVIL, 22)),
    "an address at another port": Case(first_request(connect(f"{EVIL}:22")), (BRIDGE, HELPER, PUBLIC_ALONE), (EVIL, 22)),
    "a private address": Case(
        first_request(get_and_close("http://10.0.0.5/")), (BRIDGE, HELPER, PUBLIC_ALONE, PRIVATE, NFT_PRIVATE), ("10.0.0.5", 80)
    ),
    "a name that leads inward": Case(inward, (PRIVATE, NFT_PRIVATE), ("10.0.0.5", 80)),
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A network for one gate after the other."""
    with World() as world:
        world.answer(ZONE | {"inward.test": ["10.0.0.5"]})
        yield world


@contextlib.contextmanager
def gate_without(world: World, system: str, *walls: Replaced, learn: bool = False) -> Iterator[tuple[GateBox, str]]:
    """A gate without these walls, and the socket of a run."""
    replaced = tuple(change for wall in walls for change in wall)
    with GateBox(world, EgressPolicy(NAMES, learn=learn), system=system, replaced=(*replaced, UNPROVED)) as gate:
        assert gate.ready == "ready", gate.log()
        path = gate.open()
        world.forget()
        yield gate, path


def arrivals(world: World) -> set[tuple[str, int]]:
    return {(address, port) for address, port, _ in world.arrived()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_without_its_walls_the_attack_arrives_and_with_any_one_of_them_it_does_not(
    world: World, system: str, case: Case
) -> None:
    with gate_without(world, system, *case.walls) as (_, path):
        case.attack(path)
        assert case.arrives in arrivals(world)
    for wall in case.walls:
        others = tuple(other for other in case.walls if other is not wall)
        with gate_without(world, system, *others) as (_, path):
            case.attack(path)
            assert case.arrives not in arrivals(world)


NO_ANSWER_ABOUT_HELLOS = (
    (
        "gate/judging.py",
        "    if not verdict.allowed:\n        return channel",
        "    if question.door in (HELLO, BUMP):\n        return channel + b' BH\\n'\n    if not verdict.allowed:\n        return channel",
    ),
)


@pytest.mark.parametrize(
    ("policy", "again"),
    [
        (allowing("cdn.test"), HELLO_AGAIN),
        (allowing("GET cdn.test/ok/**"), conf("http_access deny at_tls connect !first_look !hello_agrees\n")),
    ],
    ids=["passed on", "with rules"],
)
def test_a_hello_about_which_there_is_no_answer_is_not_passed_on(
    world: World, system: str, policy: EgressPolicy, again: Replaced
) -> None:
    """squid passes it on where its judge dies meanwhile: one without a name then met nobody else, and no rule."""
    for walls, statuses in ((again, {200, 0}), ((), {0})):
        replaced = (*NO_ANSWER_ABOUT_HELLOS, *walls, UNPROVED)
        with GateBox(world, policy, system=system, replaced=replaced) as gate:
            assert gate.ready == "ready", gate.log()
            path = gate.open()
            world.forget()
            found = {https(path, "cdn.test:443", sni, url="/secret").status for sni in (None, "evil.test", "*.test")}
            assert found <= statuses
            assert arrivals(world) == ({(CDN, 443)} if walls else set())


@pytest.mark.parametrize("case", LEARNING.values(), ids=LEARNING.keys())
def test_while_a_gate_learns_any_one_wall_keeps_closed_what_is_not_public(
    world: World, system: str, case: Case
) -> None:
    with gate_without(world, system, *case.walls, learn=True) as (_, path):
        case.attack(path)
        assert case.arrives in arrivals(world)
    for wall in case.walls:
        others = tuple(other for other in case.walls if other is not wall)
        with gate_without(world, system, *others, learn=True) as (_, path):
            case.attack(path)
            assert case.arrives not in arrivals(world)


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("request_header_access Via deny all\n", "via"),
        ("forwarded_for delete\n", "x-forwarded-for"),
        ("request_header_access Surrogate-Capability deny all\n", "surrogate-capability"),
        ("request_header_access Cache-Control deny !says_cache_control\n", "cache-control"),
    ],
)
def test_what_squid_would_tell_a_server(world: World, system: str, line: str, header: str) -> None:
    words = get_and_close("/", host="allowed.test")
    with gate_without(world, system, conf(line)) as (_, path):
        through_tunnel(path, "allowed.test:80", words)
        (request,) = [seen for seen in world.seen() if seen["kind"] == "request"]

    assert set(request["headers"]) == {"host", "connection", header}


def test_what_squid_would_ask_the_name_servers_about_a_run(world: World, system: str) -> None:
    """squid 5 asks for the client's name because of two defaults that nothing here uses; squid 6 does not."""
    with gate_without(world, system, conf("url_rewrite_extras none\nstore_id_extras none\n")) as (_, path):
        say(path, get_and_close("http://allowed.test/"))
        asks = "PTR" in {kind for _, kind in world.asked()}

    assert asks == (system == SYSTEMS["debian12"])


def test_what_squid_would_ask_the_name_servers_about_an_address(world: World, system: str) -> None:
    by_reverse_name = (("squid.conf", "dstdomain -n", "dstdomain"),)
    with gate_without(world, system, BRIDGE, HELPER, by_reverse_name) as (_, path):
        say(path, connect(f"{EVIL}:443"), seconds=1)
        assert "PTR" in {kind for _, kind in world.asked()}


def test_what_a_client_would_hear_inside_its_tunnel(world: World, system: str) -> None:
    """squid answers a failed dial in plain HTTP, after it has said yes to the tunnel."""
    deaf = (("gate/ends.py", "if self.must_be_tls and", "if False and"),)
    from gate.proof import hello

    with gate_without(world, system, deaf) as (_, path):
        heard = through_tunnel(path, "nowhere.allowed.test:443", hello("nowhere.allowed.test", b"x"), seconds=2)
        assert heard.data.startswith(b"HTTP/1.1 5")
    with gate_without(world, system) as (_, path):
        heard = through_tunnel(path, "nowhere.allowed.test:443", hello("nowhere.allowed.test", b"x"), seconds=2)
        assert (heard.data, heard.is_closed) == (b"", True)


def test_what_squid_would_do_to_a_client_that_has_said_its_last_word(world: World, system: str) -> None:
    hasty = (("gate/ends.py", "if self._loop is None or self._client_is_gone():", "if True:"),)

    def ask(path: str) -> bytes:
        with connected(path) as client:
            client.sendall(get("http://allowed.test/slow/1"))
            client.shutdown(1)
            return listen(client).data

    with gate_without(world, system, hasty) as (_, path):
        assert not ask(path).endswith(b"hello from 203.0.113.10\n")
    with gate_without(world, system) as (_, path):
        assert ask(path).endswith(b"hello from 203.0.113.10\n")


def capabilities(gate: GateBox, name: str) -> set[str]:
    with open(f"/proc/{gate.processes()[name]}/status", encoding="ascii") as file:
        return {line.split()[1] for line in file if line.startswith("Cap")}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("squid", "--clear-groups --inh-caps=-all --bounding-set=-all"),
        ("bridge", "setpriv --inh-caps=-all --bounding-set=-all"),
    ],
)
def test_what_a_program_would_keep(world: World, system: str, name: str, command: str) -> None:
    kept = (("entrypoint", command, command.replace(" --bounding-set=-all", "")),)
    with gate_without(world, system, kept) as (gate, _):
        assert capabilities(gate, name) != {"0" * 16}
    with gate_without(world, system) as (gate, _):
        assert capabilities(gate, name) == {"0" * 16}


def test_a_silent_tunnel_that_time_would_cut(world: World, system: str) -> None:
    """Which of squid's times is the one that an idle tunnel lives by."""
    short: Any = (("squid.conf", "read_timeout 2 hours", "read_timeout 1 seconds"),)
    with gate_without(world, system, short) as (_, path), connected(path) as client:
        tunnel(client, "allowed.test:5432")
        assert listen(client, seconds=30).is_closed
