"""What is said of one run while it lasts: in force for it alone, proved before it is confirmed, at nobody's cost."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from aisb.domain.entries import parse_entry
from aisb.domain.live import live_entry, live_json
from aisb.domain.names import TREE, WEB_PORTS, NameEntry
from tests.tools.gate_box import ZONE, GateBox, World, allowing, wait_for
from tests.tools.gate_client import connected, get, get_and_close, https, listen, say, through_tunnel, tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE, OTHER = "1a2b3c4d", "5e6f7a8b"
POLICY = allowing("allowed.test", "GET api.allowed.test/pub/**")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        world.answer(ZONE | {"api.allowed.test": ["203.0.113.10"], "inward.test": ["10.0.0.5"]})
        yield world


@pytest.fixture
def gate(world: World, system: str) -> Iterator[GateBox]:
    with GateBox(world, POLICY, system=system) as gate:
        assert gate.ready == "ready", gate.log()
        world.forget()
        yield gate
        assert "bridge: " not in gate.log().replace("bridge: ready", ""), gate.log()


def told(gate: GateBox, action: str, *entries: str, run: str = ONE, seconds: int = 0) -> Any:
    """What the gate answers."""
    items = [live_entry(action, parse_entry(entry))._asdict() for entry in entries]  # type: ignore[arg-type]  # no rules here
    return gate.ask({"op": "say", "run": run, "entries": items, "seconds": seconds}, seconds=40)


def url(path: str, host: str, port: int = 80) -> int:
    return say(path, get_and_close(f"http://{host}:{port}/", host=f"{host}:{port}")).status


def test_an_addition_holds_for_its_run_alone(gate: GateBox, world: World) -> None:
    one, other = gate.open(ONE), gate.open(OTHER)
    before = [https(path, "evil.test:443", "evil.test").status for path in (one, other)]

    answer = told(gate, "allow", "evil.test")

    after = [https(path, "evil.test:443", "evil.test").status for path in (one, other)]
    plain = [url(path, "evil.test") for path in (one, other)]
    in_a_tunnel = [through_tunnel(one, "evil.test:80", get_and_close("/", host="evil.test")).status]
    assert (before, answer) == ([403, 403], {"ok": True})
    assert (after, plain, in_a_tunnel) == ([200, 403], [200, 403], [200])
    wait_for(lambda: len(gate.audit(ONE)) == 4, "every decision in the record")
    assert [line["rule"] for line in gate.audit(ONE) if line["decision"] == "allow"] == ["aisb allow evil.test"] * 3
    assert {line["reason"] for line in gate.audit(OTHER)} == {"not-listed"}


def test_an_addition_opens_no_other_port_and_no_private_address(gate: GateBox, world: World) -> None:
    path = gate.open(ONE)

    assert told(gate, "allow", "evil.test:5432", "inward.test") == {"ok": True}

    assert url(path, "evil.test") == url(path, "evil.test", 8080) == 403
    assert through_tunnel(path, "evil.test:5432", b"hello\n").data
    assert url(path, "inward.test") == 403
    assert not [item for item in world.arrived() if item[0] == "10.0.0.5"]


@pytest.mark.parametrize("entry", ["203.0.113.11", "10.0.0.5:5432", "api.allowed.test", "=api.allowed.test"])
def test_what_cannot_be_done_while_a_run_lasts_is_said(gate: GateBox, entry: str) -> None:
    path = gate.open(ONE)

    answer = told(gate, "allow", entry)

    assert answer["refused"]
    assert https(path, f"{entry.partition(':')[0].removeprefix('=')}:443", "api.allowed.test", "/x").status == 403


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"entries": []},
        {"entries": [{"action": "allow"}]},
        {"entries": [{"action": "allow", "host": "ok.aisb.internal", "match": "exact", "ports": [22], "until": 0}]},
        {"entries": [{"action": "allow", "host": "EVIL.test", "match": "tree", "ports": [80], "until": 0}]},
        {"entries": [{"action": "allow", "host": "evil.test", "match": "tree", "ports": [0], "until": 0}]},
        {"entries": [{"action": "open", "host": "evil.test", "match": "tree", "ports": [80], "until": 0}]},
        {"entries": [{"action": "allow", "host": "evil.test", "match": "tree", "ports": [80], "until": 0}], "seconds": -1},
        {"entries": [{"action": "deny", "host": "evil.test", "match": "tree", "ports": [80], "until": 0}], "seconds": 9},
    ],
)  # fmt: skip
def test_nonsense_changes_nothing(gate: GateBox, question: dict[str, object]) -> None:
    path = gate.open(ONE)

    assert gate.ask({"op": "say", "run": ONE} | question)["ok"] is False

    assert url(path, "evil.test") == 403
    assert url(path, "allowed.test") == 200


def test_a_denial_ends_what_it_hits_and_nothing_else(gate: GateBox, world: World) -> None:
    """Spliced tunnels, plain ones, opened TLS, names under a tree: cut; another host, another run: not."""
    one, other = gate.open(ONE), gate.open(OTHER)
    with contextlib.ExitStack() as stack:
        hit = [stack.enter_context(connected(one)) for _ in range(4)]
        kept = [stack.enter_context(connected(path)) for path in (other, one)]
        told(gate, "allow", "evil.test:5432")
        for client, where in zip(
            hit[:3], ("sub.allowed.test:443", "allowed.test:80", "api.allowed.test:443"), strict=True
        ):
            assert tunnel(client, where).status == 200
        hit[3].sendall(get("http://allowed.test/"))
        assert listen(hit[3], until=b"203.0.113.10\n").status == 200
        for client, where in zip(kept, ("allowed.test:80", "evil.test:5432"), strict=True):
            assert tunnel(client, where).status == 200

        answer = told(gate, "deny", "allowed.test")

        assert answer == {"ok": True, "closed": 4}
        assert all(listen(client, seconds=5).is_closed for client in hit)
        world.forget()
        kept[0].sendall(get("/", host="allowed.test"))
        kept[1].sendall(b"still here\n")
        assert [listen(client, until=b"\n", seconds=5).is_closed for client in kept] == [False, False]
        assert [url(one, "allowed.test"), url(one, "sub.allowed.test"), url(other, "allowed.test")] == [403, 403, 200]
        assert https(one, "api.allowed.test:443", "api.allowed.test", "/pub/x").status == 403
    wait_for(lambda: "aisb deny allowed.test" in {line["rule"] for line in gate.audit(ONE)}, "the denial in the record")

    assert told(gate, "allow", "allowed.test") == {"ok": True}
    assert url(one, "allowed.test") == 200
    assert https(one, "api.allowed.test:443", "api.allowed.test", "/other").status == 403


@pytest.mark.parametrize("first", ["/", "/" + "~" * 2900])
def test_a_denied_request_that_lasts_is_cut_whichever_it_is_of_its_connection(gate: GateBox, first: str) -> None:
    """The bridge sees the first request of a connection only; a later one to another host is no way to stay."""
    path = gate.open(ONE)
    told(gate, "allow", "evil.test")
    with connected(path) as client:
        client.sendall(get(f"http://evil.test{first}"))
        assert listen(client, until=b"203.0.113.11\n").status == 200
        client.sendall(get("http://allowed.test/slow/9"))
        assert listen(client, until=b"\r\n\r\n").status == 200

        assert told(gate, "deny", "allowed.test") == {"ok": True, "closed": 1}

        assert listen(client, seconds=5).is_closed


@pytest.mark.parametrize("is_heard", [True, False])
def test_where_squid_has_told_nothing_yet_a_connection_on_which_more_was_said_is_cut(
    world: World, system: str, is_heard: bool
) -> None:
    """squid's word for it that a request is done may come late; without a look at what was said since, it stays."""
    late = ("gate/ledger.py", "        passage.lines += 1\n", "")
    deaf = ("gate/client.py", "bool(self._data or self._socket.taken)", "False")
    with GateBox(world, POLICY, system=system, replaced=(late,) if is_heard else (late, deaf)) as gate:
        assert gate.ready == "ready", gate.log()
        path = gate.open(ONE)
        told(gate, "allow", "evil.test")
        with connected(path) as client:
            client.sendall(get("http://evil.test/"))
            assert listen(client, until=b"203.0.113.11\n").status == 200
            client.sendall(get("http://allowed.test/slow/9"))
            assert listen(client, until=b"\r\n\r\n").status == 200

            assert told(gate, "deny", "allowed.test") == {"ok": True, "closed": int(is_heard)}


def test_a_time_ends_by_itself(gate: GateBox) -> None:
    path = gate.open(ONE)
    assert told(gate, "allow", "evil.test", seconds=4) == {"ok": True}
    with connected(path) as client:
        assert tunnel(client, "evil.test:443").status == 200

        heard = listen(client, seconds=10)

    assert heard.is_closed
    assert 1 < heard.seconds < 7
    assert https(path, "evil.test:443", "evil.test").status == 403


def test_squid_forgets_what_no_run_has_any_more(gate: GateBox) -> None:
    """The outer list is as wide as what is open, for the next run of the gate too."""
    gate.open(ONE)
    told(gate, "allow", "evil.test:5432")
    names, ports = (f"{gate.directory}/live/{name}" for name in ("names", "ports"))
    assert ".evil.test" in lines(names)
    assert "5432" in lines(ports)
    gate.ask({"op": "close", "run": ONE})

    path = gate.open(OTHER)

    assert ".evil.test" not in lines(names)
    assert "5432" not in lines(ports)
    assert url(path, "allowed.test") == 200


def lines(path: str) -> list[str]:
    with open(path, encoding="ascii") as file:
        return file.read().split()


def test_changes_cost_other_connections_nothing(gate: GateBox, world: World) -> None:
    """While squid reads its lists again and again, no request is lost, no tunnel is cut, and every one is written down."""
    one, other = gate.open(ONE), gate.open(OTHER)
    ends = threading.Event()
    answers: list[int] = []

    def ask_on() -> None:
        with connected(other) as kept:
            while not ends.is_set():
                answers.append(url(other, "allowed.test"))
                answers.append(https(other, "allowed.test:443", "allowed.test").status)
                answers.append(https(other, "api.allowed.test:443", "api.allowed.test", "/pub/1").status)
                kept.sendall(get("http://allowed.test/"))
                answers.append(listen(kept, until=b"203.0.113.10\n").status)

    with connected(one) as silent:
        assert tunnel(silent, "allowed.test:443").status == 200
        threads = [threading.Thread(target=ask_on) for _ in range(3)]
        for thread in threads:
            thread.start()
        changes = [told(gate, "allow", f"n{number}.test") for number in range(5)]
        ends.set()
        for thread in threads:
            thread.join()
        heard = listen(silent, seconds=0.2)

    assert changes == [{"ok": True}] * 5
    assert set(answers) == {200}
    assert not heard.is_closed
    wait_for(lambda: len(gate.audit(OTHER)) >= len(answers), "every request in the record")


# What the user says is in force only where each of these is.
WALLS = {
    "the helper tells runs apart": (
        ("gate/judging.py", "r/{run}/live.json", f"r/{ONE}/live.json"),
        "squid let the same of another run through",
    ),
    "squid reads its lists": (
        ("entrypoint", "kill -s HUP", ":"),
        "squid did not answer what was just said of the run as it should",
    ),
}


@pytest.mark.parametrize(("replaced", "fault"), WALLS.values(), ids=WALLS.keys())
def test_no_yes_without_proof(world: World, system: str, replaced: tuple[str, str, str], fault: str) -> None:
    """Where the change is not in force, or for others too, the answer is no, and it is taken back."""
    with GateBox(world, POLICY, system=system, replaced=(replaced,)) as gate:
        path = gate.open(ONE)

        answer = told(gate, "allow", "evil.test")

        assert answer["ok"] is False
        assert fault in answer["error"]
        assert url(path, "evil.test") == 403
        assert url(path, "allowed.test") == 200


def test_a_run_that_begins_knows_nothing_of_an_earlier_one_of_its_id(gate: GateBox) -> None:
    """What a gate that died has left of a run's words is nobody's."""
    words = [live_entry("allow", NameEntry("evil.test", TREE, WEB_PORTS)), live_entry("deny", POLICY.names[0])]
    os.makedirs(f"{gate.directory}/r/{ONE}")
    with open(f"{gate.directory}/r/{ONE}/live.json", "w", encoding="ascii") as file:
        file.write(live_json(words))

    path = gate.open(ONE)

    assert not os.path.exists(f"{gate.directory}/r/{ONE}/live.json")
    assert [url(path, "evil.test"), url(path, "allowed.test")] == [403, 200]
