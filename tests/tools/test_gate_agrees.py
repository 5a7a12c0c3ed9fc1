"""
The engine and the running squid agree on random policies and requests.

The bridge lets everything on here, so that squid and its helper decide. What the engine allows has to arrive:
squid's own outer bound may not be narrower. What it denies may not.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from aisb.domain.hosts import canonical_name
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import MATCHES, Engine, HttpRequest, NameEntry, Verdict
from tests.tools.gate_box import GateBox, World
from tests.tools.gate_client import connected, get_and_close, https, listen, say, through_tunnel, tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator

LABELS = ("a", "b", "x-1")
NAMES = [
    ".".join(labels) for labels in (("a",), ("b",), ("a", "b"), ("b", "a"), ("x-1", "a"), ("a", "b", "a"), ("xa",))
]
HOSTS = [f"{name}.test" for name in NAMES]
PORT_SETS = ((80, 443), (443,), (80,), (22, 5432), (80, 443, 5432, 8080))
NO_BRIDGE = ("gate/client.py", "        if verdict.allowed:\n", "        if True:\n")
POLICIES = 4
REQUESTS = 60
FEWEST_OF_A_KIND = 10


class Request(NamedTuple):
    """One random request: its kind, the host and port it goes to, and the name that it says inside."""

    kind: str
    host: str
    port: int
    inside: str


def random_names(chance: random.Random) -> tuple[NameEntry, ...]:
    """The entries of a random policy."""
    entries = [
        NameEntry(chance.choice(HOSTS), chance.choice(MATCHES), chance.choice(PORT_SETS))
        for _ in range(chance.randint(1, 4))
    ]
    return reduce_names(entries)


def random_question(chance: random.Random) -> tuple[tuple[NameEntry, ...], dict[Request, bool]]:
    """A policy, and requests of which it allows some and denies some."""
    while True:
        names = random_names(chance)
        engine = Engine(names)
        answers = {
            request: expected(engine, request).allowed for request in (random_request(chance) for _ in range(REQUESTS))
        }
        if min(list(answers.values()).count(kind) for kind in (True, False)) >= FEWEST_OF_A_KIND:
            return names, answers


def random_request(chance: random.Random) -> Request:
    kind, ports = chance.choice([("url", (80, 8080)), ("redirected", (80,)), ("tls", (443,)), ("raw", (22, 5432))])
    host = chance.choice(HOSTS)
    spelling = chance.choice([host, host, host.upper(), f"{host}."])
    inside = chance.choice([host, host, host, chance.choice(HOSTS)])
    return Request(kind, spelling, chance.choice(ports), inside)


def expected(engine: Engine, request: Request) -> Verdict:
    """What the engine says."""
    if request.kind == "tls":
        return engine.judge_tls(request.host, request.port, request.inside)
    if request.kind == "raw":
        return engine.judge(request.host, request.port)
    port = "" if request.port == 80 else f":{request.port}"
    # squid puts the URL's host in the place of the Host header; the bridge refuses where the two differ.
    named = request.host if request.kind == "url" else request.inside
    return engine.judge_request(
        HttpRequest("GET", "/", request.host, request.port, "http", named, request.port, named + port)
    )


def send(path: str, request: Request) -> None:
    """Put it to the gate."""
    port = "" if request.port == 80 else f":{request.port}"
    if request.kind == "tls":
        https(path, f"{request.host}:443", request.inside)
    elif request.kind == "raw":
        with connected(path) as client:
            if tunnel(client, f"{request.host}:{request.port}").status == 200:
                # The server has written down the connection before it answers.
                client.sendall(b"x\n")
                listen(client, until=b"\n", seconds=2)
    elif request.kind == "url":
        say(path, get_and_close(f"http://{request.host}{port}/", host=request.inside + port), seconds=2)
    else:
        through_tunnel(path, f"{request.host}:80", get_and_close("/", host=request.inside), seconds=2)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A network in which every name of the test leads to one server."""
    with World() as world:
        world.answer({name: ["203.0.113.10"] for name in HOSTS})
        yield world


@pytest.mark.parametrize("seed", range(POLICIES))
def test_what_arrives_is_what_the_engine_allows(world: World, system: str, seed: int) -> None:
    names, answers = random_question(random.Random(seed))
    with GateBox(world, names, system=system, replaced=(NO_BRIDGE,)) as gate:
        assert gate.ready == "ready", gate.log()
        path = gate.open()
        found = {}
        for request in answers:
            world.forget()
            send(path, request)
            found[request] = ("203.0.113.10", request.port) in {(a, p) for a, p, _ in world.arrived()}
            named = {
                canonical_name(line["headers"]["host"].partition(":")[0])
                for line in world.seen()
                if line["kind"] == "request"
            }
            assert named <= {canonical_name(request.host)}

    assert found == answers
