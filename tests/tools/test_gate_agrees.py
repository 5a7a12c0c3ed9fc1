"""
The engine, the running squid with its helper, and the bridge agree on random policies and requests.

Once the bridge lets everything on, so that squid and its helper decide, and once it decides first. What the engine
allows has to arrive, as it was said: squid's own outer bound may not be narrower. What it denies may not.
"""

from __future__ import annotations

import contextlib
import random
import ssl
from typing import TYPE_CHECKING, NamedTuple

import pytest

from aisb.domain.addresses import AddressEntry, covers, is_private
from aisb.domain.entries import parse_entry
from aisb.domain.gather import SourcedHost, SourcedRule, gather
from aisb.domain.hosts import canonical_name, show_authority
from aisb.domain.http_rules import METHODS, Rule
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import MATCHES, EgressPolicy, Engine, HttpRequest, NameEntry, Verdict
from tests.tools.gate_box import GateBox, World
from tests.tools.gate_client import Heard, connected, listen, say, tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NAMES = [
    ".".join(labels) for labels in (("a",), ("b",), ("a", "b"), ("b", "a"), ("x-1", "a"), ("a", "b", "a"), ("xa",))
]
HOSTS = [f"{name}.test" for name in NAMES]
# Those that the servers' certificate is for.
RULE_HOSTS = ("a.test", "b.test", "xa.test")
ZONE = dict.fromkeys(HOSTS, "203.0.113.10") | {
    "a.b.test": "10.0.0.5", "x-1.a.test": "192.168.1.1", "a.b.a.test": "169.254.169.254", "xa.test": "100.64.0.1",
}  # fmt: skip
ADDRESSES = (
    "203.0.113.10",
    "203.0.113.11",
    "10.0.0.5",
    "192.168.1.1",
    "169.254.169.254",
    "2001:db8::10",
    "fd00:ec2::254",
)
ADDRESS_ENTRIES = (
    "203.0.113.10", "203.0.113.0/24:443", "203.0.113.11:80", "10.0.0.0/8:80", "10.0.0.5:443", "10.0.0.0/16", "192.168.1.1",
    "192.168.0.0/16:5432", "169.254.169.254:80", "100.64.0.0/10:443", "[2001:db8::10]:443", "2001:db8::/32", "fd00::/16",
    "[fd00:ec2::254]:22",
)  # fmt: skip
PORT_SETS = ((80, 443), (443,), (80,), (22, 5432), (80, 443, 5432, 8080))
EXPRESSIONS = (
    "/.*", "/.*", "/.*", "/pub/.*", "/pub", "/pub/secret(/.*)?", "/[^/]+", "(?i)/SECRET.*", "/caf%C3%A9", "/x y", "/a'b.*",
)  # fmt: skip
# Paths that one of these is about, and some that a server could take for one.
ABOUT_RULES = (
    "/", "/pub", "/pub/x", "/pub/secret", "/pub/secret/x", "/pub/secret.", "/pub/secret%20/x", "/secret", "/SECRET/x",
    "/caf%C3%A9", "/x%20y", "/x%20y?q", "/a'b", "/a%27b", "/pub/x?/pub/secret", "/pub/%73ecret", "/pub/x/../secret",
)  # fmt: skip
GLOBS = ("/**", "/pub/**", "/pub/*", "/*/secret", "/pub")
# What a server and a rule could read in two ways, and what not. squid itself takes no quotes and brackets of other kinds.
PIECES = (
    "/", "/", "/", "pub", "pub", "secret", "SECRET", "x", ".", "..", "%2e", "%2F", "%20", "%C3%A9", "caf%C3%A9", "a'b", "~",
    ";", "%3b", "%70ub", "+", "@", ":", "?q=1", "%", "%25", "*", "%zz", "[", "!$&()=,", "%00",
)  # fmt: skip
NO_BRIDGE = ("gate/client.py", "        elif verdict.allowed:\n", "        elif True:\n")
UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE
POLICIES = 4
# Those that come after them open everything public besides.
LEARNING = 2
REQUESTS = 120
FEWEST_OF_A_KIND = 15


class Request(NamedTuple):
    """One random request: its kind, where it goes, what its hello and its Host header say, and what it asks for."""

    kind: str
    host: str
    port: int
    sni: str
    named: str
    method: str
    path: str
    upgrade: str


def random_policy(chance: random.Random) -> EgressPolicy:
    names = [
        NameEntry(chance.choice(HOSTS), chance.choice(MATCHES), chance.choice(PORT_SETS))
        for _ in range(chance.randint(1, 4))
    ]
    entries = [*(parse_entry(text) for text in chance.sample(ADDRESS_ENTRIES, chance.randint(0, 4)))]
    for _ in range(chance.randint(0, 2)):
        methods = ",".join(chance.sample(METHODS, chance.randint(1, 3)))
        entries.append(parse_entry(f"{methods} {chance.choice(RULE_HOSTS)}{chance.choice(GLOBS)}"))
    hosts = [SourcedHost(host, random_rules(chance), "") for host in chance.sample(RULE_HOSTS, chance.randint(1, 2))]
    gathered = gather(((entry, "") for entry in entries), hosts).policy
    return gathered._replace(names=reduce_names(names))


def random_rules(chance: random.Random) -> tuple[SourcedRule, ...]:
    return tuple(
        SourcedRule(
            Rule(
                chance.choice(("ALLOW", "DENY")),
                chance.choice(("GET", "POST", *("*",) * 8)),
                chance.choice(EXPRESSIONS),
            ),
            "",
        )
        for _ in range(chance.randint(2, 5))
    )


def random_request(chance: random.Random) -> Request:
    kind, ports = chance.choice([
        ("url", (80, 8080)), ("redirected", (80,)), ("redirected", (80,)), ("tls", (443,)), ("tls", (443,)), ("tls", (443,)),
        ("raw", (22, 5432)), ("address", (22, 80, 443, 5432)), ("address url", (80, 8080)),
    ])  # fmt: skip
    if kind.startswith("address"):
        host = spelling = chance.choice(ADDRESSES)
    else:
        host = chance.choice(HOSTS if kind == "raw" else (*HOSTS, *RULE_HOSTS * 5))
        spelling = chance.choice([host, host, host.upper(), f"{host}."])
    return Request(
        kind=kind,
        host=spelling,
        port=chance.choice(ports),
        sni=chance.choice([host] * 9 + [chance.choice(HOSTS)]),
        named=chance.choice([host] * 11 + [chance.choice(HOSTS)]),
        method=chance.choice(("GET", "GET", "GET", *METHODS, "TRACE", "FOO")),
        path=random_path(chance),
        upgrade=chance.choice(("",) * 20 + ("h2c",) * 2 + ("websocket",)),
    )


def random_path(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(ABOUT_RULES)
    return "/" + "".join(chance.choices(PIECES, k=chance.choice((0, 1, 2, 3, 6))))


def random_question(chance: random.Random, *, bridged: bool, learn: bool) -> tuple[EgressPolicy, dict[Request, bool]]:
    """A policy, and requests of which it allows some and denies some."""
    while True:
        policy = random_policy(chance)._replace(learn=learn)
        engine = Engine(*policy)
        answers = {
            request: expected(engine, policy, request, bridged=bridged)
            for request in (random_request(chance) for _ in range(REQUESTS))
        }
        if min(list(answers.values()).count(kind) for kind in (True, False)) >= FEWEST_OF_A_KIND:
            return policy, answers


def expected(engine: Engine, policy: EgressPolicy, request: Request, *, bridged: bool) -> bool:
    """Whether it arrives: the engine allows it, and so is the address behind its name."""
    return judged(engine, request, bridged=bridged).allowed and is_open(policy.addresses, request)


def is_open(entries: tuple[AddressEntry, ...], request: Request) -> bool:
    if request.kind.startswith("address"):
        return True
    address = ZONE[canonical_name(request.host)]
    (network,) = parse_networks(address)
    return not is_private(network) or covers(entries, address, request.port)


def parse_networks(*addresses: str) -> list[Any]:
    entries = map(parse_entry, addresses)
    return [entry.network for entry in entries if isinstance(entry, AddressEntry)]


def judged(engine: Engine, request: Request, *, bridged: bool) -> Verdict:
    """What the engine says of all that the gate gets to know of the request."""
    if request.kind in ("raw", "address"):
        return engine.judge(request.host, request.port)
    if request.kind == "tls":
        if not engine.is_bumped(request.host):
            return engine.judge_tls(request.host, 443, request.sni)
        verdict = engine.judge_bump(request.host, 443, request.sni)
        return engine.judge_request(inside(request, "https")) if verdict.allowed else verdict
    # squid puts the URL's host in the place of the Host header; the bridge refuses where the two differ.
    is_url = "url" in request.kind
    plain = inside(request, "http")
    if is_url:
        plain = plain._replace(url_host=request.host)
        plain = plain if bridged else plain._replace(host_header=show_authority(request.host, request.port))
    return engine.judge_request(plain)


def inside(request: Request, scheme: str) -> HttpRequest:
    return HttpRequest(
        method=request.method,
        path=request.path,
        host=request.host,
        port=request.port,
        scheme=scheme,
        url_host=request.named,
        url_port=request.port,
        host_header=header_of(request),
        sni=request.sni if scheme == "https" else "",
        upgrade=request.upgrade,
    )


def header_of(request: Request) -> str:
    named = f"[{request.named}]" if ":" in request.named else request.named
    return named if request.port in (80, 443) else f"{named}:{request.port}"


def words_of(request: Request) -> bytes:
    origin = ""
    if "url" in request.kind:
        origin = f"http://{show_authority(request.host, request.port)}".removesuffix(":80")
    lines = [f"{request.method} {origin}{request.path} HTTP/1.1", f"Host: {header_of(request)}"]
    lines += [f"Upgrade: {request.upgrade}", "Connection: Upgrade"] if request.upgrade else ["Connection: close"]
    lines += ["Content-Length: 0"] if request.method in ("POST", "PUT", "PATCH") else []
    return "\r\n".join([*lines, "", ""]).encode()


def send(path: str, request: Request) -> Heard:
    """Put it to the gate. The servers have written down what has arrived before they answer."""
    words = words_of(request)
    if "url" in request.kind:
        return say(path, words, until=b"\n\0", seconds=0.7 if request.upgrade else 2)
    with connected(path) as client:
        answer = tunnel(client, show_authority(request.host, request.port))
        if answer.status != 200:
            return answer
        with contextlib.suppress(OSError):
            if request.kind == "tls":
                with UNVERIFIED.wrap_socket(client, server_hostname=request.sni) as secure:
                    secure.sendall(words)
                    listen(secure, until=b"\n", seconds=2)
            else:
                client.sendall(words)
                listen(client, until=b"\n", seconds=2)
        return answer


def has_arrived(world: World, engine: Engine, request: Request) -> bool:
    """Whether a server has seen it: what the gate reads with its method and path, anything of the rest."""
    seen = [line for line in world.seen() if line["kind"] != "dns" and line["port"] == request.port]
    if request.kind in ("raw", "address") or (request.kind == "tls" and not engine.is_bumped(request.host)):
        return bool(seen)
    requests = [line for line in seen if line["kind"] == "request"]
    for line in requests:
        assert line["line"][:2] == [request.method, request.path]
        host = line["headers"]["host"]
        assert request.kind == "address url" or canonical_name(host.partition(":")[0]) == canonical_name(request.host)
        assert line["headers"].get("upgrade", "") in ("", "websocket")
    return bool(requests)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A network in which some names of the test lead to private addresses."""
    with World() as world:
        world.answer({name: [address] for name, address in ZONE.items()})
        yield world


@pytest.mark.parametrize("bridged", [False, True], ids=["squid and helper", "with the bridge"])
@pytest.mark.parametrize("seed", range(POLICIES + LEARNING))
def test_what_arrives_is_what_the_engine_allows(world: World, system: str, seed: int, bridged: bool) -> None:
    policy, answers = random_question(random.Random(seed), bridged=bridged, learn=seed >= POLICIES)
    engine = Engine(*policy)
    found = {}
    with GateBox(world, policy, system=system, replaced=() if bridged else (NO_BRIDGE,)) as gate:
        assert gate.ready == "ready", gate.log()
        path = gate.open()
        for request in answers:
            world.forget()
            heard = send(path, request)
            found[request] = has_arrived(world, engine, request)
            at_the_door = judged(engine, request, bridged=True)
            if bridged and request.kind != "redirected" and request.kind != "tls" and not at_the_door.allowed:
                assert f": {at_the_door.reason}".encode() in heard.data.partition(b"\r\n")[0], (request, heard)

    assert [(request, allowed) for request, allowed in answers.items() if found[request] != allowed] == []
