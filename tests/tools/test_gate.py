"""
The real squid, helper, bridge and ruleset of a gate, spoken to over its socket as the agent may.

Whether something was refused is judged at the servers: nothing may have arrived there. Every server that is
refused here was reached from the same network before the gate was there, and the same gate lets an allowed
request pass.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from aisb.domain.rules import BELOW, EXACT, TREE, WEB_PORTS, NameEntry
from gate.proof import hello
from gate.turns import AT_A_TIME, UNSEEN_A_SECOND
from tests.tools.gate_box import ZONE, GateBox, World, wait_for
from tests.tools.gate_client import (
    Flood,
    Heard,
    connect,
    connected,
    get,
    get_and_close,
    https,
    listen,
    say,
    through_tunnel,
    tunnel,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

INWARD = {
    "loopback.test": ["127.0.0.1"],
    "ten.test": ["10.0.0.5"],
    "metadata.test": ["169.254.169.254"],
    "shared.test": ["100.64.0.1"],
    "lan.test": ["192.168.1.1"],
    "docker.test": ["172.16.0.1"],
    "bench.test": ["198.18.0.9"],
    "gate.test": ["203.0.113.2"],
    "zero.test": ["0.0.0.0"],
    "loopback6.test": ["::1"],
    "mapped.test": ["::ffff:a00:5"],
    "metadata6.test": ["fd00:ec2::254"],
    "nat64.test": ["64:ff9b::a00:5"],
    "gate6.test": ["2001:db8::2"],
}
NAMES = (
    NameEntry("allowed.test", TREE, (22, 80, 443, 5432)),
    NameEntry("below.test", BELOW, WEB_PORTS),
    NameEntry("cdn.test", TREE, WEB_PORTS),
    # Nothing listens there.
    NameEntry("closed.test", EXACT, (22, 80, 443)),
    NameEntry("v6.test", EXACT, WEB_PORTS),
    *(NameEntry(name, EXACT, (22, 80, 443)) for name in sorted(INWARD)),
)
AT_ONCE = 1.0
EVIL = ("203.0.113.11", "2001:db8::11", "203.0.113.12")


@pytest.fixture(scope="module")
def world(system: str) -> Iterator[World]:
    """A network in which everything is reachable as long as there is no gate."""
    with World() as world:
        world.answer(ZONE | INWARD | {"closed.test": ["203.0.113.1"]})
        for address in (*EVIL, "203.0.113.10", "10.0.0.5", "169.254.169.254", "fd00:ec2::254", "64:ff9b::a00:5"):
            for port in (22, 80, 443, 5432, 8443):
                assert world.reaches(address, port), (address, port)
        yield world


@pytest.fixture(scope="module")
def gate(world: World, system: str) -> Iterator[GateBox]:
    """A gate in that network."""
    with GateBox(world, NAMES, system=system) as gate:
        assert gate.ready == "ready", gate.log()
        yield gate


@pytest.fixture
def path(gate: GateBox, world: World) -> Iterator[str]:
    """The socket of a run of its own, with nothing at the servers yet. Ends with an allowed request that passes."""
    run = f"{time.monotonic_ns() & 0xFFFFFFFF:08x}"
    opened = gate.open(run)
    world.forget()
    yield opened
    assert say(opened, get_and_close("http://allowed.test/still")).status == 200
    assert gate.ask({"op": "close", "run": run})["ok"] is True


def run_of(path: str) -> str:
    return path.split("/")[-3]


def record(gate: GateBox, path: str, *keys: str, lines: int = 1) -> list[tuple[Any, ...]]:
    """These keys of the run's record, once it has so many lines."""
    wait_for(lambda: len(gate.audit(run_of(path))) >= lines, f"{lines} lines in the record")
    return [tuple(line.get(key) for key in keys) for line in gate.audit(run_of(path))]


# --- what is allowed passes ------------------------------------------------------------------------


def test_plain_http_by_its_url(path: str, world: World) -> None:
    heard = say(path, get_and_close("http://allowed.test/x?y=1", "X-Own: kept"))

    assert (heard.status, heard.data.rpartition(b"\r\n\r\n")[2]) == (200, b"hello from 203.0.113.10\n")
    (request,) = [line for line in world.seen() if line["kind"] == "request"]
    assert request["line"] == ["GET", "/x?y=1", "HTTP/1.1"]
    # Nothing of the run, of squid or of its rules has been added.
    assert request["headers"] == {"host": "allowed.test", "x-own": "kept", "connection": "keep-alive"}


def test_plain_http_by_a_tunnel_to_port_80(path: str, world: World) -> None:
    """How the relay brings a connection that a program made without knowing of proxies."""
    heard = through_tunnel(
        path, "sub.allowed.test:80", b"GET /x HTTP/1.1\r\nHost: sub.allowed.test\r\nConnection: close\r\n\r\n"
    )

    assert heard.status == 200
    (request,) = [line for line in world.seen() if line["kind"] == "request"]
    assert (request["headers"], request["line"]) == (
        {"host": "sub.allowed.test", "connection": "keep-alive"},
        ["GET", "/x", "HTTP/1.1"],
    )


def test_https_byte_for_byte(path: str, world: World) -> None:
    heard = https(path, "allowed.test:443", "allowed.test")

    assert heard.status == 200
    (request,) = [line for line in world.seen() if line["kind"] == "request"]
    assert (request["sni"], request["headers"]) == ("allowed.test", {"host": "allowed.test", "connection": "close"})


@pytest.mark.parametrize("name", ["ALLOWED.test", "allowed.test.", "Sub.Allowed.TEST"])
def test_a_name_in_another_spelling(path: str, name: str) -> None:
    assert https(path, f"{name}:443", name.rstrip(".").lower()).status == 200
    assert say(path, get_and_close(f"http://{name}/")).status == 200


def test_a_name_that_has_an_ipv6_address_alone(path: str, world: World) -> None:
    assert https(path, "v6.test:443", "v6.test").status == 200
    assert say(path, get_and_close("http://v6.test/")).status == 200
    assert {address for address, _, _ in world.arrived()} == {"2001:db8::10"}


def test_a_server_that_speaks_first_on_a_port_of_its_own(path: str) -> None:
    with connected(path) as client:
        client.sendall(connect("allowed.test:22"))
        heard = listen(client, until=b"fake\r\n")
    assert heard.data == b"HTTP/1.1 200 Connection established\r\n\r\nSSH-2.0-fake\r\n"


def test_bytes_of_any_protocol_both_ways(path: str) -> None:
    sent = bytes(range(256)) * 4096
    with connected(path) as client:
        tunnel(client, "allowed.test:5432")
        writer = threading.Thread(target=client.sendall, args=(sent,))
        writer.start()
        received = b""
        while len(received) < len(sent):
            received += client.recv(65536)
        writer.join()
    assert received == sent


def test_the_answer_to_a_client_that_has_said_its_last_word(path: str) -> None:
    """squid alone would drop it."""
    with connected(path) as client:
        client.sendall(get("http://allowed.test/size/3000000"))
        client.shutdown(1)
        heard = listen(client)
    assert len(heard.data.partition(b"\r\n\r\n")[2]) == 3_000_000
    with connected(path) as client:
        tunnel(client, "allowed.test:5432")
        client.sendall(b"hello")
        client.shutdown(1)
        assert client.recv(100) == b"hello"


def test_a_slow_reader_gets_all_of_a_large_answer(path: str) -> None:
    with connected(path) as client:
        client.sendall(get_and_close("http://allowed.test/size/20000000"))
        time.sleep(0.5)
        heard = listen(client)
    assert len(heard.data.partition(b"\r\n\r\n")[2]) == 20_000_000


def test_a_stream_is_passed_on_as_it_comes(path: str) -> None:
    """The head is there long before the server has sent the rest, three seconds later."""
    with connected(path) as client:
        client.sendall(get_and_close("http://allowed.test/slow/3"))
        listen(client, until=b"\r\n\r\n")
        body = listen(client)
    assert body.data == b"hello from 203.0.113.10\n"
    assert body.seconds > 1


def test_an_upgrade_to_websocket_and_to_nothing_else(path: str, world: World) -> None:
    """Which methods and paths may be upgraded is for rules to say; h2c would be requests that nobody judges."""
    with connected(path) as client:
        tunnel(client, "allowed.test:80")
        client.sendall(get("/ws", "Connection: Upgrade", "Upgrade: websocket", host="allowed.test"))
        assert listen(client, until=b"\r\n\r\n").status == 101
        client.sendall(b"\x81\x02hi")
        assert listen(client, until=b"hi").data == b"\x81\x02hi"
    h2c = get_and_close("/h2c", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", host="allowed.test")
    assert through_tunnel(path, "allowed.test:80", h2c).status == 200
    _, request = [line for line in world.seen() if line["kind"] == "request"]
    assert "upgrade" not in request["headers"]


def test_resolving(path: str, world: World) -> None:
    """The relay asks whether a name may be resolved; nobody resolves it for that."""
    with connected(path) as client:
        answers = []
        for name in (
            "allowed.test",
            "x.allowed.test.",
            "evil.test",
            "below.test",
            "x.below.test",
            "ok.aisb.internal",
            "a b",
        ):
            client.sendall(f"RESOLVE {name.replace(' ', '%20')} AISB/1\r\n\r\n".encode())
            answers.append(listen(client, until=b"\r\n\r\n").data)
    yes, no = b"AISB/1 200 allowed\r\n\r\n", b"AISB/1 403 dns\r\n\r\n"
    assert answers == [yes, yes, no, no, yes, yes, no]
    assert world.seen() == []


# --- what is not allowed is refused at once, in words ----------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (connect("evil.test:443"), 403, "not-listed"),
        (connect("evil.test:22"), 403, "not-listed"),
        (connect("evil.test:80"), 403, "not-listed"),
        (connect("notallowed.test:443"), 403, "not-listed"),
        (connect("allowed.test.evil.test:443"), 403, "not-listed"),
        (connect("evil-allowed.test:443"), 403, "not-listed"),
        (connect("test:443"), 403, "not-listed"),
        (connect("below.test:443"), 403, "not-listed"),
        (connect("localhost:22"), 403, "not-listed"),
        (connect("metadata.google.internal:80"), 403, "not-listed"),
        (connect("allowed.test:25"), 403, "port"),
        (connect("allowed.test:8443"), 403, "port"),
        (connect("203.0.113.10:443"), 403, "direct-address"),
        (connect("203.0.113.11:443"), 403, "direct-address"),
        (connect("[2001:db8::11]:443"), 403, "direct-address"),
        (connect("127.0.0.1:3132"), 403, "direct-address"),
        (connect("169.254.169.254:80"), 403, "direct-address"),
        (get("http://203.0.113.11/"), 403, "direct-address"),
        (get("http://[::1]:3132/"), 403, "direct-address"),
        (get("http://evil.test/"), 403, "not-listed"),
        (get("http://allowed.test:8443/"), 403, "port"),
        (get("http://allowed.test:443/", host="allowed.test:443"), 403, "not-tls"),
        (get("http://allowed.test/", host="evil.test"), 403, "name-mismatch"),
        (get("http://allowed.test/", host="allowed.test:5432"), 403, "name-mismatch"),
        (get("http://127.1/"), 400, "bad-request"),
        (get("http://2130706433/"), 400, "bad-request"),
        (get("https://allowed.test/"), 400, "bad-request"),
        (get("cache_object://allowed.test/info"), 400, "bad-request"),
        (get("/squid-internal-mgr/info", host="allowed.test"), 400, "bad-request"),
        (connect("[evil.test]:443"), 400, "bad-request"),
        (connect("[[allowed.test]]:443"), 400, "bad-request"),
        (connect("allowed.test :443"), 400, "bad-request"),
        (connect("allowed.test:443:443"), 400, "bad-request"),
        (connect("allowed.test:0443"), 400, "bad-request"),
        (connect(":443"), 400, "bad-request"),
        (connect("allowed.test"), 400, "bad-request"),
        (connect("allowed.test:-1"), 400, "bad-request"),
        (connect("allowed.test:65536"), 400, "bad-request"),
        (connect("allowed.test..:443"), 400, "bad-request"),
        (b"\x16\x03\x01\x02\x00\x01", 400, "bad-request"),
        (b"SSH-2.0-x\r\n\r\n", 400, "bad-request"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n\r\n", 400, "bad-request"),
        (b"GET http://allowed.test/ HTTP/1.1\r\nX: " + b"x" * 40000, 400, "bad-request"),
    ],
    ids=lambda value: value[:48].decode("latin-1").strip() if isinstance(value, bytes) else str(value),
)
def test_refused_at_the_door(
    path: str, gate: GateBox, world: World, words: bytes, status: int, reason: str
) -> None:  # fmt: skip
    heard = say(path, words)

    assert (heard.status, heard.is_closed) == (status, True)
    assert heard.seconds < AT_ONCE
    assert f": {reason}".encode() in heard.data.partition(b"\r\n")[0]
    assert f"\nreason: {reason} (".encode() in heard.data
    assert heard.data.endswith(b"\nDo not work around it: ask the user.\n")
    assert world.seen() == []
    assert record(gate, path, "decision", "reason") == [("deny", reason)]


def test_the_refusal_tells_an_agent_what_to_ask_for(path: str) -> None:
    heard = say(path, get("http://evil.test:8443/x?secret=1", "Accept: application/json"))

    body = json.loads(heard.data.partition(b"\r\n\r\n")[2])
    assert (body["reason"], body["host"], body["port"], body["path"], body["rule_missing"]) == (
        "not-listed", "evil.test", 8443, "/x", "evil.test:8443",
    )  # fmt: skip


def test_plain_text_does_not_go_to_port_443_on_a_kept_connection_either(path: str, world: World) -> None:
    with connected(path) as client:
        client.sendall(get("http://allowed.test/1"))
        listen(client, until=b"203.0.113.10\n")
        client.sendall(get("http://allowed.test:443/2", host="allowed.test:443"))
        assert listen(client, until=b"ask the user.\n").status == 403
    assert world.arrived() == [("203.0.113.10", 80, "request")]


# --- a run that asks without end -------------------------------------------------------------------


def _seconds_of_starts(path: str, number: int) -> list[float]:
    """How long a start of that run would wait for the gate's own name, so many times."""
    heard = [say(path, get_and_close("http://ok.aisb.internal/"), until=b"ok\n") for _ in range(number)]
    assert {answer.status for answer in heard} == {200}
    return [answer.seconds for answer in heard]


def test_a_run_that_pipelines_without_end_leaves_squid_to_the_others(path: str, gate: GateBox) -> None:
    """Its requests for the gate's own name are in no record; squid is one thread, and all runs' starts ask it. (A58)"""
    other = gate.open("000000ff")
    quiet = _seconds_of_starts(other, 5)
    words = get("http://ok.aisb.internal/", *(f"X-{number}: {'a' * 300}" for number in range(90)))
    with Flood(path, words, connections=200) as flood:
        wait_for(lambda: flood.answered > AT_A_TIME, "the flood is under way")
        seconds = _seconds_of_starts(other, 5)
        assert gate.ask({"op": "status"})["ok"] is True
    assert gate.ask({"op": "close", "run": "000000ff"})["ok"] is True

    # As long as a start waits for its own, where the machine itself is not that slow.
    assert statistics.median(seconds) < max(2, 20 * statistics.median(quiet))


@pytest.mark.parametrize(
    "words",
    [
        get("http://ok.aisb.internal/squid-internal-mgr/info"),
        connect("ok.aisb.internal:443"),
    ],
    ids=["squid-manager", "tunnels"],
)
def test_what_is_always_refused_on_a_kept_connection_waits_for_its_turn_too(
    path: str, gate: GateBox, words: bytes
) -> None:
    other = gate.open("000000fd")
    quiet = _seconds_of_starts(other, 5)
    with Flood(path, words, connections=300, first=get("http://ok.aisb.internal/")):
        seconds = _seconds_of_starts(other, 12)
    assert gate.ask({"op": "close", "run": "000000fd"})["ok"] is True

    # The flood has begun after some of them. Where the machine itself is slow, so are they.
    assert statistics.median(seconds[4:]) < max(0.5, 20 * statistics.median(quiet))


def test_a_run_that_asks_for_long_paths_without_end_costs_no_other_run_its_record(path: str, gate: GateBox) -> None:
    """squid drops lines of its log where nobody fetches them fast enough, and these were the longest to read."""
    flooding = gate.open("0000f00d")
    words = get(f"http://evil.test/{'~' * 1800}")
    with Flood(flooding, words, 80, first=get("http://allowed.test/1")):
        for _ in range(8):
            with connected(path, 30) as client:
                for number in range(5):
                    client.sendall(get(f"http://allowed.test/{number}"))
                    assert listen(client, until=b"203.0.113.10\n", seconds=30).status == 200

    paths = [path for (path,) in record(gate, path, "path", lines=40)]
    assert sorted(paths) == sorted([f"/{number}" for number in range(5)] * 8)
    assert "dropping" not in gate.log()


def test_of_a_run_that_asks_hundreds_of_things_at_once_few_begin_while_another_asks(
    path: str, gate: GateBox, world: World
) -> None:
    """What waits for its server is no work for squid, so after a while the next ones begin: nothing waits for ever."""
    other = gate.open("000000fe")
    for run in (path, other, path):
        assert say(run, get_and_close("http://allowed.test/")).status == 200
    world.forget()
    begun = time.monotonic()
    with Flood(path, get("http://allowed.test/slow/30"), connections=400):
        for _ in range(5):
            assert say(other, get_and_close("http://allowed.test/other")).status == 200
        arrived = [line["line"][1] for line in world.seen() if line["kind"] == "request"].count("/slow/30")
        spent = time.monotonic() - begun
        wait_for(
            lambda: sum(line["kind"] == "request" for line in world.seen()) > AT_A_TIME, "some more begin", seconds=20
        )
    assert gate.ask({"op": "close", "run": "000000fe"})["ok"] is True

    assert arrived <= AT_A_TIME + spent * UNSEEN_A_SECOND


# --- inside a tunnel to port 443 -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sni", "reason", "named"),
    [
        ("evil.test", "name-mismatch", "evil.test"),
        ("sub.cdn.test", "name-mismatch", "sub.cdn.test"),
        ("cdn.test.evil.test", "name-mismatch", "cdn.test.evil.test"),
        ("allowed.test", "name-mismatch", "allowed.test"),
        ("*.test", "name-mismatch", "*.test"),
        ("203.0.113.11", "not-tls", None),
        (None, "not-tls", None),
    ],
)
def test_a_hello_that_does_not_name_the_host_of_the_tunnel_is_cut(
    path: str, gate: GateBox, world: World, sni: str | None, reason: str, named: str | None
) -> None:
    """cdn.test answers to any name: only the gate stands in between."""
    heard = https(path, "cdn.test:443", sni, host="evil.test")

    assert (heard.status, heard.is_closed) == (0, True)
    assert heard.seconds < AT_ONCE
    assert world.arrived() == []
    assert record(gate, path, "host", "port", "decision", "reason", "named") == [
        ("cdn.test", 443, "deny", reason, named)
    ]


@pytest.mark.parametrize("length", [200, 3000, 60000])
def test_a_hello_with_a_name_of_any_length_is_cut_and_on_record_as_that(
    path: str, gate: GateBox, world: World, length: int
) -> None:
    """squid cuts its log lines at 8 kB, and what counts in them comes last: such a hello was on record as allowed."""
    assert through_tunnel(path, "cdn.test:443", long_hello("~" * length)).data == b""
    assert https(path, "cdn.test:443", "cdn.test").status == 200

    assert {address for address, _, kind in world.arrived() if kind == "request"} == {"203.0.113.12"}
    assert sorted(record(gate, path, "host", "decision", "reason", lines=2)) == [
        ("cdn.test", "allow", ""),
        ("cdn.test", "deny", "bad-request"),
    ]


def long_hello(name: str) -> bytes:
    """A hello in as many records as it takes."""
    whole = hello(name, b"x")[5:]
    pieces = [whole[begin : begin + 16384] for begin in range(0, len(whole), 16384)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


@pytest.mark.parametrize(
    "words",
    [
        b"SSH-2.0-x\r\n",
        b"GET / HTTP/1.1\r\nHost: cdn.test\r\n\r\n",
        b"\0" * 64,
        b"EHLO x\r\n",
        b"\x16\x03\x01\x00\x04abcd",
    ],
)
def test_bytes_that_are_no_tls_are_cut(path: str, gate: GateBox, world: World, words: bytes) -> None:
    heard = through_tunnel(path, "cdn.test:443", words)

    assert (heard.data, heard.is_closed) == (b"", True)
    assert heard.seconds < AT_ONCE
    assert world.arrived() == []
    assert record(gate, path, "host", "decision", "reason") == [("cdn.test", "deny", "not-tls")]


# --- inside a connection for plain HTTP ------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "host", "status", "reason"),
    [
        ("GET / HTTP/1.1", "evil.test", 403, "name-mismatch"),
        ("GET / HTTP/1.1", "cdn.test", 403, "name-mismatch"),
        ("GET / HTTP/1.1", "allowed.test:5432", 403, "name-mismatch"),
        ("GET / HTTP/1.1", "203.0.113.11", 403, "name-mismatch"),
        ("GET / HTTP/1.1", "allowed.test, evil.test", 400, "bad-request"),
        ("GET http://cdn.test/ HTTP/1.1", "allowed.test", 403, "name-mismatch"),
        ("GET http://cdn.test/ HTTP/1.1", "cdn.test", 403, "name-mismatch"),
        ("GET https://allowed.test/ HTTP/1.1", "allowed.test", 403, "name-mismatch"),
        ("GET http://allowed.test:5432/ HTTP/1.1", "allowed.test", 403, "name-mismatch"),
        ("GET http://user@evil.test/ HTTP/1.1", "allowed.test", 403, "name-mismatch"),
        ("GET ftp://allowed.test/ HTTP/1.1", "allowed.test", 403, "name-mismatch"),
        ("GET cache_object://allowed.test/info HTTP/1.1", "allowed.test", 403, "name-mismatch"),
        ("CONNECT allowed.test:22 HTTP/1.1", "allowed.test:22", 405, "bad-request"),
        ("CONNECT evil.test:443 HTTP/1.1", "evil.test:443", 405, "bad-request"),
        ("SSH-2.0-OpenSSH_9.2", "", 400, "bad-request"),
    ],
)
def test_a_request_that_is_not_for_the_host_of_its_connection(
    path: str, gate: GateBox, world: World, line: str, host: str, status: int, reason: str
) -> None:  # fmt: skip
    heard = through_tunnel(path, "allowed.test:80", f"{line}\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())

    assert (heard.status, heard.is_closed) == (status, True)
    assert heard.seconds < AT_ONCE
    assert world.arrived() == []
    if status == 403:
        assert b"\r\n\r\n403 Access denied by egress policy\n" in heard.data
    assert record(gate, path, "decision", "reason") == [("deny", reason)]


def test_squids_own_pages_are_not_to_be_had(path: str, world: World) -> None:
    for url in (
        "/squid-internal-mgr/info",
        "/squid-internal-static/icons/SN.png",
        "/squid-internal-periodic/store_digest",
    ):
        for words in (get_and_close(url, host="gate.aisb.internal"), get_and_close(url, host="ok.aisb.internal")):
            heard = through_tunnel(path, "ok.aisb.internal:80", words)
            assert heard.status == 403 or heard.data.endswith(b"\r\n\r\nok\n")
    assert (
        through_tunnel(path, "allowed.test:80", get_and_close("/squid-internal-mgr/info", host="allowed.test")).status
        == 403
    )
    assert world.arrived() == []


def test_a_refusal_on_a_kept_connection_is_as_good_as_one_at_the_door(path: str) -> None:
    heard = through_tunnel(path, "allowed.test:80", b"GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n")

    body = heard.data.partition(b"\r\n\r\n")[2].decode()
    assert body.splitlines()[:2] == ["403 Access denied by egress policy", f"who: sandbox {run_of(path)}"]
    assert "reason: name-mismatch (" in body
    assert body.endswith("Do not work around it: ask the user.\n")


@pytest.mark.parametrize("way", ["by url", "by tunnel", "pipelined"])
def test_each_request_of_a_kept_connection_is_judged(path: str, gate: GateBox, world: World, way: str) -> None:
    with connected(path) as client:
        if way == "by tunnel":
            tunnel(client, "allowed.test:80")
            requests = [get(url, host=host) for url, host in (("/1", "allowed.test"), ("/2", "evil.test"))]
        else:
            requests = [get("http://allowed.test/1"), get("http://evil.test/2")]
        if way == "pipelined":
            client.sendall(b"".join(requests))
        else:
            client.sendall(requests[0])
            assert listen(client, until=b"203.0.113.10\n").status == 200
            client.sendall(requests[1])
        assert b"403 Access denied by egress policy\n" in listen(client, until=b"ask the user.\n").data
    assert world.arrived() == [("203.0.113.10", 80, "request")]
    reason = "name-mismatch" if way == "by tunnel" else "not-listed"
    assert record(gate, path, "method", "path", "decision", "reason", "rule", lines=2) == [
        ("GET", "/1", "allow", "", NAMES[0].text()),
        ("GET", "/2", "deny", reason, ""),
    ]


@pytest.mark.parametrize("target", ["/" + "~" * 2900, "/" + "a" * 8000, "/~" * 2100, "/" + "%7e" * 1700])
def test_a_request_with_a_path_of_any_length_is_on_record(path: str, gate: GateBox, target: str) -> None:
    """squid encodes a path for its log line and cuts that at 8 kB: such a line said nothing, and others went with it."""
    with connected(path) as client:
        client.sendall(get("http://allowed.test/1"))
        assert listen(client, until=b"203.0.113.10\n").status == 200
        client.sendall(get(f"http://allowed.test{target}"))
        assert listen(client, until=b"203.0.113.10\n").status == 200
        client.sendall(get(f"http://evil.test{target}"))
        assert listen(client, until=b"ask the user.\n").status == 403

    shown = target[:1024]
    assert record(gate, path, "host", "path", "decision", "reason", "rule", lines=3) == [
        ("allowed.test", "/1", "allow", "", NAMES[0].text()),
        ("allowed.test", shown, "allow", "", NAMES[0].text()),
        ("evil.test", shown, "deny", "not-listed", ""),
    ]


def test_a_tunnel_asked_for_on_a_kept_connection_has_no_way_round_the_hello(path: str, world: World) -> None:
    """squid's first door looks into no TLS: it must not open a tunnel to 443, nor to 80."""
    for authority in ("cdn.test:443", "cdn.test:80", "evil.test:22"):
        with connected(path) as client:
            client.sendall(get("http://allowed.test/1"))
            listen(client, until=b"203.0.113.10\n")
            client.sendall(connect(authority))
            assert listen(client, until=b"ask the user.\n").status == 403
    assert {address for address, _, _ in world.arrived()} == {"203.0.113.10"}
    with connected(path) as client:
        client.sendall(get("http://allowed.test/1"))
        listen(client, until=b"203.0.113.10\n")
        assert (
            b"SSH-2.0-fake" in (client.sendall(connect("allowed.test:22")), listen(client, until=b"fake\r\n"))[1].data
        )


@pytest.mark.parametrize(
    "words",
    [
        get("http://allowed.test/", "Cache-Control: only-if-cached", "Connection: close"),
        get("http://allowed.test/", "Max-Forwards: 0", "Connection: close").replace(b"GET", b"OPTIONS"),
        get("http://allowed.test/", "Transfer-Encoding: gzip", "Connection: close").replace(b"GET", b"POST"),
        get("http://allowed.test/squid-internal-mgr/info", "Connection: close"),
    ],
    ids=["only-if-cached", "max-forwards", "encoding", "manager"],
)
def test_what_squid_does_not_take_is_put_down_to_the_request(path: str, gate: GateBox, words: bytes) -> None:
    """Not to a host that does not resolve, nor to an entry that is missing."""
    with connected(path) as client:
        client.sendall(get("http://allowed.test/"))
        listen(client, until=b"203.0.113.10\n")
        client.sendall(words)
        listen(client)

    assert record(gate, path, "decision", "reason", "failed", lines=2)[1] == ("deny", "bad-request", None)


# --- names that lead inward ------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(INWARD))
def test_a_name_that_leads_inward_is_not_followed(path: str, gate: GateBox, world: World, name: str) -> None:
    plain = say(path, get_and_close(f"http://{name}/"))
    redirected = through_tunnel(
        path, f"{name}:80", f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
    )
    raw = say(path, connect(f"{name}:22"))
    tls = https(path, f"{name}:443", name)

    assert (plain.status, redirected.status, raw.status, tls.status) == (403, 403, 403, 0)
    assert max(heard.seconds for heard in (plain, redirected, raw, tls)) < AT_ONCE
    for heard in (plain, redirected, raw):
        assert b"\nreason: private-address (" in heard.data
    assert world.arrived() == []
    assert record(gate, path, "host", "decision", "reason", lines=4) == [(name, "deny", "private-address")] * 4


def page(run: str, host: str, port: int, reason: str) -> str:
    return (
        f"The gate cannot reach this host\nwho: sandbox {run}\nhost: {host}\nport: {port}\nreason: {reason}\n"
        "next: the policy allows it, so no entry would help: check the name, or ask whoever runs that host\n"
    )


def test_a_name_that_leads_nowhere_is_no_refusal_and_is_said_in_words(path: str, gate: GateBox) -> None:
    """squid 5.7 knows less about it than 6.13."""
    name = "nowhere.allowed.test"
    by_url = say(path, get_and_close(f"http://{name}/?x=1"))
    by_tunnel = through_tunnel(path, f"{name}:80", get_and_close("/", host=name))
    raw = say(path, connect(f"{name}:22"))

    assert (by_url.status, by_tunnel.status, raw.status) in ((502, 502, 500), (503, 503, 503))
    reasons = {
        502: "its name does not resolve, or it broke the connection off",
        500: "its name does not resolve, or no address of it can be reached",
        503: "its name does not resolve: Name Error: The domain name does not exist.",
    }
    for heard, port in ((by_url, 80), (by_tunnel, 80), (raw, 22)):
        head, _, body = heard.data.decode().partition("\r\n\r\n")
        assert body == page(run_of(path), name, port, reasons[heard.status])
        assert port == 22 or "\r\nContent-Type: text/plain; charset=utf-8\r\n" in f"{head}\r\n"
    # Nothing but TLS comes out of a tunnel to port 443, squid's page neither.
    assert https(path, f"{name}:443", name) == Heard(b"", pytest.approx(0, abs=2), True)
    lines = record(gate, path, "host", "port", "decision", "reason", "failed", lines=4)
    assert sorted(lines) == [(name, port, "allow", "", "unresolved") for port in (22, 80, 80, 443)]


def test_a_host_that_takes_no_connection_is_no_refusal_and_is_said_in_words(path: str, gate: GateBox) -> None:
    heard = [
        say(path, get_and_close("http://closed.test/")),
        through_tunnel(path, "closed.test:80", get_and_close("/", host="closed.test")),
        say(path, connect("closed.test:22")),
    ]

    assert [item.status for item in heard] == [503] * 3
    for item, port in zip(heard, (80, 80, 22), strict=True):
        reason = "203.0.113.1 does not take the connection: (111) Connection refused"
        assert item.data.decode().partition("\r\n\r\n")[2] == page(run_of(path), "closed.test", port, reason)
    assert https(path, "closed.test:443", "closed.test") == Heard(b"", pytest.approx(0, abs=2), True)
    lines = record(gate, path, "host", "port", "decision", "reason", "failed", lines=4)
    assert sorted(lines) == [("closed.test", port, "allow", "", "unanswered") for port in (22, 80, 80, 443)]


def test_a_servers_own_error_is_its_own(path: str, gate: GateBox) -> None:
    """What an allowed host says about itself arrives as it is, and is nothing that failed."""
    heard = say(path, get_and_close("http://allowed.test/status/503"))

    assert (heard.status, heard.data.endswith(b"hello from 203.0.113.10\n")) == (503, True)
    assert record(gate, path, "decision", "failed") == [("allow", None)]


@pytest.mark.parametrize("way", ["to the proxy", "by tunnel"])
def test_a_later_request_by_url_gets_the_host_of_its_url(path: str, gate: GateBox, world: World, way: str) -> None:
    """Whatever its Host header says: squid puts the name that was judged in its place."""
    with connected(path) as client:
        if way == "by tunnel":
            tunnel(client, "allowed.test:80")
        client.sendall(get("http://allowed.test/1"))
        assert listen(client, until=b"203.0.113.10\n").status == 200
        client.sendall(get("http://allowed.test/2", host="evil.test"))
        assert listen(client, until=b"203.0.113.10\n").status == 200
    requests = [line for line in world.seen() if line["kind"] == "request"]
    assert [(item["line"][1], item["headers"]["host"]) for item in requests] == [
        ("/1", "allowed.test"),
        ("/2", "allowed.test"),
    ]
    assert world.arrived() == [("203.0.113.10", 80, "request")] * 2
    assert record(gate, path, "host", "path", "decision", lines=2) == [
        ("allowed.test", "/1", "allow"),
        ("allowed.test", "/2", "allow"),
    ]


def test_no_address_is_looked_up_by_its_reverse_name(path: str, world: World) -> None:
    for words in (get("http://203.0.113.11/"), connect("203.0.113.11:443"), connect("[2001:db8::11]:443")):
        say(path, words)
    https(path, "cdn.test:443", "203.0.113.11")
    through_tunnel(path, "allowed.test:80", b"GET / HTTP/1.1\r\nHost: 203.0.113.11\r\nConnection: close\r\n\r\n")
    say(path, get_and_close("http://allowed.test/"))

    assert {kind for _, kind in world.asked()} <= {"A", "AAAA"}
    assert {name for name, _ in world.asked()} <= {"allowed.test", "cdn.test"}


def test_a_name_that_is_refused_is_not_even_asked_for(path: str, world: World) -> None:
    for words in (
        connect("evil.test:443"),
        get("http://evil.test/"),
        connect("c2VjcmV0.evil.test:80"),
        b"RESOLVE evil.test AISB/1\r\n\r\n",
    ):
        say(path, words, until=b"\r\n\r\n")
    through_tunnel(path, "allowed.test:80", b"GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n")
    through_tunnel(
        path, "allowed.test:80", b"GET http://below.test/ HTTP/1.1\r\nHost: below.test\r\nConnection: close\r\n\r\n"
    )

    assert world.seen() == []


# --- the record ------------------------------------------------------------------------------------


def test_a_tunnel_is_one_record_with_its_bytes_and_its_time(path: str, gate: GateBox) -> None:
    begun = time.monotonic()
    with connected(path) as client:
        tunnel(client, "allowed.test:5432")
        client.sendall(b"x" * 1000)
        received = b""
        while len(received) < 1000:
            received += client.recv(65536)
        time.sleep(0.2)
    record(gate, path)
    (line,) = gate.audit(run_of(path))
    # Rounded to a millisecond.
    assert 0.2 <= line.pop("seconds") <= time.monotonic() - begun + 0.001
    line.pop("time")
    assert line == {
        "run": run_of(path), "host": "allowed.test", "port": 5432, "method": "CONNECT", "path": "", "decision": "allow",
        "reason": "", "rule": NAMES[0].text(), "bytes_out": 1000, "bytes_in": 1000,
    }  # fmt: skip


def test_only_what_proves_a_start_is_no_part_of_the_record(path: str, gate: GateBox) -> None:
    assert say(path, get_and_close("http://ok.aisb.internal/")).data.endswith(b"\r\n\r\nok\n")
    assert through_tunnel(path, "ok.aisb.internal:80", get_and_close("/", host="ok.aisb.internal")).status == 200
    assert say(path, connect("denied.aisb.internal:443")).status == 403
    assert say(path, connect("refused.aisb.internal:443")).status == 403
    assert say(path, connect("evil.test:443")).status == 403
    answer = gate.ask({"op": "close", "run": run_of(path)})
    again = gate.open(run_of(path))

    assert answer == {"ok": True, "allowed": 0, "denied": 2}
    assert again == path
    assert record(gate, path, "host", lines=2) == [("refused.aisb.internal",), ("evil.test",)]


def test_closing_a_run_ends_its_connections_and_counts_them(gate: GateBox, world: World) -> None:
    path = gate.open("0c105e00")
    with connected(path) as client, connected(path) as silent:
        tunnel(client, "allowed.test:5432")
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        say(path, connect("evil.test:443"))
        begun = time.monotonic()
        answer = gate.ask({"op": "close", "run": "0c105e00"})
        assert time.monotonic() - begun < AT_ONCE
        assert answer == {"ok": True, "allowed": 1, "denied": 1}
        assert listen(client) == Heard(b"", pytest.approx(0, abs=1), is_closed=True)
        assert listen(silent).is_closed
    with pytest.raises((FileNotFoundError, ConnectionRefusedError)):
        say(path, connect("allowed.test:443"))
    assert [(line["host"], line["decision"]) for line in gate.audit("0c105e00")] == [
        ("evil.test", "deny"), ("allowed.test", "allow"),
    ]  # fmt: skip


def test_one_run_ends_and_another_goes_on(gate: GateBox, path: str) -> None:
    other = gate.open("07e50000")
    with connected(path) as client:
        tunnel(client, "allowed.test:5432")
        say(other, connect("evil.test:443"))
        gate.ask({"op": "close", "run": "07e50000"})
        client.sendall(b"still here")
        assert client.recv(100) == b"still here"
    assert run_of(path) in gate.ask({"op": "status"})["runs"]
    assert "07e50000" not in gate.ask({"op": "status"})["runs"]
