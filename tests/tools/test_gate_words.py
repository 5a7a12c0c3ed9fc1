"""What a refused client hears, as text and as JSON, and what is written down about it: the same, whoever refused."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.tools.gate_box import ZONE, GateBox, World, allowing, wait_for
from tests.tools.gate_client import Heard, connect, connected, get, listen, say, through_tunnel, tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "api.allowed.test"
POLICY = allowing(f"GET {HOST}/pub/**", f"PUT {HOST}/up", "allowed.test", "inward.test", "10.0.0.0/8:5432")
KEYS = {
    "error", "detail", "reason", "layer", "host", "port", "method", "path", "rule_missing", "next_steps", "agent_guidance",
}  # fmt: skip
JSON = "Accept: text/html, application/json;q=0.9"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        world.answer(ZONE | {HOST: ["203.0.113.10"], "inward.test": ["10.0.0.5"]})
        yield world


@pytest.fixture(scope="module")
def gate(world: World, system: str) -> Iterator[GateBox]:
    with GateBox(world, POLICY, system=system) as gate:
        assert gate.ready == "ready", gate.log()
        yield gate


@pytest.fixture
def path(gate: GateBox) -> str:
    return gate.open(f"{time.monotonic_ns() & 0xFFFFFFFF:08x}")


def record(gate: GateBox, path: str, lines: int = 1) -> list[dict[str, Any]]:
    run = path.split("/")[-3]
    wait_for(lambda: len(gate.audit(run)) >= lines, f"{lines} lines in the record")
    return gate.audit(run)


def inside(path: str, words: bytes) -> Heard:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connected(path) as client:
        tunnel(client, f"{HOST}:443")
        with context.wrap_socket(client, server_hostname=HOST) as secure:
            secure.sendall(words)
            return listen(secure, seconds=3)


def plain(path: str, words: bytes) -> Heard:
    return through_tunnel(path, f"{HOST}:80", words, seconds=3)


def at_the_door(path: str, words: bytes) -> Heard:
    return say(path, words.replace(b" /", f" http://{HOST}/".encode(), 1), seconds=3)


def later(path: str, words: bytes) -> Heard:
    """As the second request of a connection: the bridge does not see it."""
    with connected(path) as client:
        client.sendall(get(f"http://{HOST}/pub/1"))
        listen(client, until=b"203.0.113.10\n")
        client.sendall(words.replace(b" /", f" http://{HOST}/".encode(), 1))
        return listen(client, seconds=3)


WAYS = {"inside": inside, "plain": plain, "at the door": at_the_door, "later": later}


def said(method: str, target: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {HOST}", *headers, "Connection: close", "", ""]).encode()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(
    ("method", "target", "reason", "add"),
    [
        ("GET", "/secret?token=1", "path", f"GET {HOST}/secret"),
        ("DELETE", "/pub/x", "method", f"DELETE {HOST}/pub/x"),
        ("GET", "/pub/it's", "", ""),
        ("GET", "/it's", "path", f"GET {HOST}/it's"),
        ("GET", "/pub/../x", "path-form", ""),
        ("TRACE", "/pub/x", "method", ""),
    ],
)
def test_text_json_and_record_say_the_same(
    path: str, gate: GateBox, way: Any, method: str, target: str, reason: str, add: str
) -> None:
    as_text, as_json = way(path, said(method, target)), way(path, said(method, target, JSON))

    if not reason:
        assert (as_text.status, as_json.status) == (200, 200)
        return
    (text_head, text), (json_head, body) = (split(heard) for heard in (as_text, as_json))
    port = 443 if way is inside else 80
    document = json.loads(body)
    assert as_text.status == as_json.status == 403
    assert types_of(text_head) == ["text/plain; charset=utf-8"]
    assert types_of(json_head) == ["application/json"]
    assert set(document) == KEYS
    assert {key: document[key] for key in ("host", "port", "method", "path", "reason", "rule_missing")} == {
        "host": HOST, "port": port, "method": method, "path": target.partition("?")[0], "reason": reason, "rule_missing": add,
    }  # fmt: skip
    lines = dict(line.split(": ", 1) for line in text.splitlines()[1:-1])
    run = path.split("/")[-3]
    assert text.startswith("403 Access denied by egress policy\nwho: ")
    assert lines == {
        "who": f"sandbox {run}", "host": HOST, "port": str(port), "method": method, "path": target.partition("?")[0],
        "reason": f"{reason} ({document['detail']})", "next": document["next_steps"][0],
    }  # fmt: skip
    assert text.endswith("\nDo not work around it: ask the user.\n")
    denied = [line for line in record(gate, path, 4 if way is later else 2) if line["decision"] == "deny"]
    assert [(line["reason"], line["path"], line.get("add", "")) for line in denied] == [
        (reason, target.partition("?")[0], add)
    ] * 2


def split(heard: Heard) -> tuple[str, str]:
    head, _, body = heard.data.decode().partition("\r\n\r\n")
    return head, body


def types_of(head: str) -> list[str]:
    return [line.split(": ", 1)[1] for line in head.splitlines() if line.lower().startswith("content-type:")]


def test_an_allowed_request_is_recorded_with_the_rule_that_allowed_it(path: str, gate: GateBox) -> None:
    inside(path, said("GET", "/pub/x"))
    plain(path, said("PUT", "/up", "Content-Length: 0"))
    say(path, get("http://allowed.test/", "Connection: close"), seconds=2)

    assert [(line["rule"], line.get("rule_index")) for line in record(gate, path, 3)] == [
        (f"{HOST} rule 1: ALLOW GET /pub/.*", 1),
        (f"{HOST} rule 2: ALLOW PUT /up", 2),
        ("allowed.test", None),
    ]


@pytest.mark.parametrize("headers", [(), (JSON,)], ids=["text", "json"])
def test_a_name_that_leads_inward_is_said_in_the_form_that_was_asked_for(
    path: str, gate: GateBox, headers: tuple[str, ...]
) -> None:
    """squid's own refusal, after the helper has agreed."""
    heard = say(path, get("http://inward.test/", *headers, "Connection: close"), seconds=2)

    head, body = split(heard)
    assert heard.status == 403
    if headers:
        assert types_of(head) == ["application/json"]
        assert json.loads(body)["reason"] == "private-address"
    else:
        assert types_of(head) == ["text/plain; charset=utf-8"]
        assert "\nreason: private-address (" in body
    assert [(line["host"], line["reason"]) for line in record(gate, path)] == [("inward.test", "private-address")]


@pytest.mark.parametrize("method", ["TRACE", "PURGE"])
def test_no_host_is_sent_what_echoes_or_speaks_to_a_cache(path: str, world: World, gate: GateBox, method: str) -> None:
    """Hosts without rules too: TRACE would show what a proxy on the way puts in, and squid answers PURGE itself."""
    url = "http://allowed.test/"
    heard = [say(path, get(url, "Connection: close"), seconds=2)]
    world.forget()
    with connected(path) as client:
        client.sendall(get(url))
        heard.append(listen(client, until=b"203.0.113.10\n"))
        client.sendall(get(url, "Connection: close").replace(b"GET", method.encode(), 1))
        heard.append(listen(client, seconds=2))
    heard.append(say(path, get(url, "Connection: close").replace(b"GET", method.encode(), 1), seconds=2))

    assert [one.status for one in heard] == [200, 200, 403, 403]
    assert len(world.arrived()) == 1
    denied = [line for line in record(gate, path, 4) if line["decision"] == "deny"]
    assert [(line["method"], line["reason"]) for line in denied] == [(method, "method")] * 2


@pytest.mark.parametrize("headers", [(), (JSON,)], ids=["text", "json"])
def test_no_page_of_squids_is_taken_for_html(path: str, headers: tuple[str, ...]) -> None:
    """Neither what is no request nor what leads nowhere."""
    for words in (said("GET", '/pub/"', *headers), said("CONNECT", "x", *headers)):
        head, _ = split(plain(path, words))
        assert head.startswith("HTTP/1.1 4")
        assert types_of(head) == ["text/plain; charset=utf-8"]
    head, body = split(say(path, get("http://nowhere.allowed.test/", *headers, "Connection: close"), seconds=4))
    assert head.startswith("HTTP/1.1 50")
    assert types_of(head) == ["text/plain; charset=utf-8"]
    assert body.startswith("The gate cannot reach this host\n")


def test_a_servers_own_words_keep_their_type(path: str, world: World) -> None:
    for headers in ((), (JSON,)):
        for status in (200, 403, 503):
            head, body = split(say(path, get(f"http://allowed.test/status/{status}", *headers, "Connection: close")))
            assert types_of(head) == ["text/plain"]
            assert body == "hello from 203.0.113.10\n"


def test_a_tunnel_that_is_refused_says_why_in_its_first_line(path: str) -> None:
    heard = say(path, connect("10.0.0.5:22"))

    assert heard.data.splitlines()[0] == b"HTTP/1.1 403 Access denied by egress policy: port 10.0.0.5:22"


def test_a_hello_for_a_host_with_rules_is_written_down_once(path: str, gate: GateBox) -> None:
    """A client that does not trust the gate ends there; one that asks is recorded by what it asks."""
    with contextlib.suppress(ssl.SSLError), connected(path) as client:
        tunnel(client, f"{HOST}:443")
        ssl.create_default_context().wrap_socket(client, server_hostname=HOST)
    inside(path, said("GET", "/pub/x"))

    assert sorted((line["method"], line["path"], line["decision"]) for line in record(gate, path, 2)) == [
        ("CONNECT", "", "allow"),
        ("GET", "/pub/x", "allow"),
    ]
