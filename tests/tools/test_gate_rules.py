"""
Method and path rules in a running gate: over plain HTTP, and inside TLS that the gate opens.

Whether something was refused is judged at the server, which says what arrived: its request line and its Host.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest

from aisb.domain.gather import SourcedHost, SourcedRule
from aisb.domain.http_rules import parse_rule
from tests.tools.gate_box import ZONE, GateBox, World, allowing, poll, wait_for
from tests.tools.gate_client import (
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

HOST = "api.allowed.test"
SERVER = "203.0.113.10"
OTHER = "sub.allowed.test"
POLICY = allowing(
    f"GET,HEAD {HOST}/pub/**", f"GET {HOST}/ws", f"PUT,POST {HOST}/up", f"GET {OTHER}/**", "GET inward.test/**",
    "GET deep.wrong.test/**", "GET v6.test/**", "evil.test", f"{HOST}:22", "allowed.test",
)  # fmt: skip
NAMES = {
    HOST: [SERVER],
    OTHER: ["203.0.113.12"],
    "inward.test": ["10.0.0.5"],
    # The servers' certificate is for names right below .test.
    "deep.wrong.test": ["203.0.113.11"],
}
AT_ONCE = 1.0


@pytest.fixture(scope="module")
def world(system: str) -> Iterator[World]:
    """A network with a server for each name."""
    with World() as world:
        world.answer(ZONE | NAMES)
        yield world


@pytest.fixture(scope="module")
def gate(world: World, system: str) -> Iterator[GateBox]:
    """A gate in that network."""
    with GateBox(world, POLICY, system=system) as gate:
        assert gate.ready == "ready", gate.log()
        yield gate
        assert [line for line in gate.log().splitlines() if "ERROR" in line and "accepting a TLS" not in line] == []


@pytest.fixture
def path(gate: GateBox, world: World) -> Iterator[str]:
    """The socket of a run of its own. Ends with an allowed request that passes."""
    run = f"{time.monotonic_ns() & 0xFFFFFFFF:08x}"
    opened = gate.open(run)
    world.forget()
    yield opened
    assert inside(opened, get_and_close("/pub/still", host=HOST)).status == 200
    gate.ask({"op": "close", "run": run})


def record(gate: GateBox, path: str, *keys: str, lines: int = 1) -> list[tuple[Any, ...]]:
    run = path.split("/")[-3]
    wait_for(lambda: len(gate.audit(run)) >= lines, f"{lines} lines in the record")
    return [tuple(line.get(key) for key in keys) for line in gate.audit(run)]


def trusting(path: str) -> ssl.SSLContext:
    """A client that trusts the certificate beside its run's socket and no other, as strictly as Python 3.13."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.load_verify_locations(f"{os.path.dirname(path)}/ca.pem")
    return context


@contextlib.contextmanager
def opened(path: str, name: str = HOST) -> Iterator[ssl.SSLSocket]:
    """TLS to `name` that ends in the gate."""
    with connected(path) as client:
        assert tunnel(client, f"{name}:443").status == 200
        with trusting(path).wrap_socket(client, server_hostname=name, suppress_ragged_eofs=True) as secure:
            yield secure


def inside(path: str, words: bytes, name: str = HOST, seconds: float = 4) -> Heard:
    """Say something inside and listen to all that comes."""
    with opened(path, name) as secure:
        secure.sendall(words)
        return listen(secure, seconds=seconds)


def plain(path: str, words: bytes) -> Heard:
    return through_tunnel(path, f"{HOST}:80", words, seconds=4)


def by_url(path: str, words: bytes) -> Heard:
    return say(path, words.replace(b" /", f" http://{HOST}/".encode(), 1), seconds=4)


WAYS = {"https": inside, "plain": plain, "by url": by_url}
Way = Any


def said(method: str, target: str, *headers: str, host: str = HOST, body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_path_made_for_a_rule_is_refused_and_ends_nothing(world: World, system: str, way: Way) -> None:
    """What a rule takes too long for is refused as often as it is asked; the gate goes on, for other runs too."""
    rules = (SourcedRule(parse_rule("ALLOW", "GET", "/(a+)+b"), ""),)
    with GateBox(world, allowing("allowed.test", hosts=[SourcedHost(HOST, rules, "")]), system=system) as gate:
        assert gate.ready == "ready", gate.log()
        one, other = gate.open("11111111"), gate.open("22222222")
        heard = [way(one, said("GET", f"/{'a' * 60}c", "Connection: close")) for _ in range(5)]

        assert [(answer.status, b"takes too long" in answer.data) for answer in heard] == [(403, True)] * 5
        assert [way(path, said("GET", "/ab", "Connection: close")).status for path in (one, other)] == [200, 200]
        # As long as what took one run too long; what it spent is forgotten after seconds, which a busy machine may take.
        for _ in poll(30):
            way(one, said("GET", f"/{'a' * 60}c", "Connection: close"))
            long = [way(path, said("GET", f"/{'a' * 80}b", "Connection: close")).status for path in (one, other)]
            if long == [403, 200]:
                break
        assert long == [403, 200]
        assert "the gate ends" not in gate.log()


def requests(world: World) -> list[tuple[str, str, str]]:
    """Method, target and Host header of all requests that have arrived."""
    return [
        (line["line"][0], line["line"][1], line["headers"].get("host", ""))
        for line in world.seen()
        if line["kind"] == "request"
    ]


# --- what the rules allow, and what they do not ----------------------------------------------------


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/pub/"), ("GET", "/pub/x/y?q=1&r=%20"), ("HEAD", "/pub/x"), ("GET", "/ws"), ("PUT", "/up"),
        ("POST", "/up?x"), ("GET", "/pub/caf%C3%A9"), ("GET", "/pub/@scope%2Bx:y"), ("GET", "/pub/~user/a'b,c;".rstrip(";")),
        ("GET", "/pub/" + "x" * 3000),
    ],
)  # fmt: skip
def test_what_a_rule_allows_arrives_as_it_was_said(
    path: str, gate: GateBox, world: World, way: Way, method: str, target: str
) -> None:
    heard = way(path, said(method, target, body=b"abc" if method in ("PUT", "POST") else b""))

    assert heard.status == 200
    assert requests(world) == [(method, target, HOST)]
    port = 443 if way is inside else 80
    assert record(gate, path, "host", "port", "method", "path", "decision") == [
        (HOST, port, method, target.partition("?")[0][:1024], "allow")
    ]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(
    ("method", "target", "reason"),
    [
        ("POST", "/pub/x", "method"), ("DELETE", "/pub/x", "method"), ("PATCH", "/up", "method"), ("GET", "/up", "method"),
        ("TRACE", "/pub/x", "method"), ("FOO", "/pub/x", "method"), ("PROPFIND", "/pub/x", "method"),
        ("GET", "/secret", "path"), ("GET", "/", "path"), ("GET", "/pub", "path"), ("GET", "/PUB/x", "path"),
        ("GET", "/ws/", "path"), ("GET", "/secret?/pub/x", "path"), ("GET", "/%2Fpub/x", "path-form"),
        ("GET", "/pub/../secret", "path-form"), ("GET", "/pub/%2e%2e/secret", "path-form"), ("GET", "/./pub/x", "path-form"),
        ("GET", "/pub//..//secret", "path-form"), ("GET", "/pub;x/../secret", "path-form"), ("GET", "/pub/x;y", "path-form"),
        ("GET", "/%70ub/x", "path-form"), ("GET", "/pub/%252e%252e/secret", "path-form"), ("GET", "//pub/x", "path-form"),
        ("GET", "/pub/x%00", "path-form"), ("GET", "/pub/x%2fy", "path-form"), ("GET", "/pub/%5c..%5csecret", "path-form"),
        ("GET", "/pub/x%", "path-form"), ("GET", "/pub/x%zz", "path-form"), ("GET", "/pub/..%3b/secret", "path-form"),
        ("GET", "/pub/%c0%ae%c0%ae/secret", "path-form"), ("GET", "/pub/x%0d%0aX:y", "path-form"),
        ("GET", "/pub/" + "x" * 4200, "path-form"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)  # fmt: skip
def test_what_no_rule_allows_does_not_arrive(
    path: str, gate: GateBox, world: World, way: Way, method: str, target: str, reason: str
) -> None:
    """Plain HTTP as HTTPS (A20, A22, A25): in words, at once, and one record of it."""
    heard = way(path, said(method, target))

    assert (heard.status, heard.is_closed) == (403, True)
    assert heard.seconds < AT_ONCE
    body = heard.data.partition(b"\r\n\r\n")[2]
    assert body.startswith(b"403 Access denied by egress policy\n")
    assert f"\nreason: {reason} (".encode() in body
    assert requests(world) == []
    port = 443 if way is inside else 80
    assert record(gate, path, "host", "port", "method", "decision", "reason") == [(HOST, port, method, "deny", reason)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(
    "line",
    [
        "get /pub/x HTTP/1.1", "Get /pub/x HTTP/1.1", "GET  /pub/x HTTP/1.1", "GET\t/pub/x HTTP/1.1", "GET /pub/x y HTTP/1.1",
        "GET /pub/x", "GET /pub/x HTTP/0.9", "GET /pub/x HTTP/2.0", "GET /pub/\x01x HTTP/1.1", 'GET /pub/"x HTTP/1.1',
        "GET /pub/\xe9 HTTP/1.1", "GET /pub/x\\y HTTP/1.1", "OPTIONS * HTTP/1.1", "GET pub/x HTTP/1.1", "GET /pub/x#y HTTP/1.1",
        "GET ?/pub/x HTTP/1.1", "PRI * HTTP/2.0", "SSH-2.0-x",
    ],
)  # fmt: skip
def test_what_is_no_proper_request_does_not_arrive(path: str, world: World, way: Way, line: str) -> None:
    heard = way(path, f"{line}\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode("latin-1"))

    assert heard.status in (0, 400, 403, 405, 501, 505), heard
    assert heard.is_closed
    assert requests(world) == []


def test_a_header_that_overrides_the_method_is_out_of_reach(path: str, world: World) -> None:
    """Which of them a server heeds nobody here can know: it is passed on, and documented (A25)."""
    inside(path, said("POST", "/up", "X-HTTP-Method-Override: DELETE", body=b"x"))

    (request,) = [line for line in world.seen() if line["kind"] == "request"]
    assert request["headers"]["x-http-method-override"] == "DELETE"


# --- all names are one -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "hosts"),
    [
        ("/pub/x", ["evil.test"]), ("/pub/x", [OTHER]), ("/pub/x", ["10.0.0.1:443"]), ("/pub/x", ["203.0.113.10"]),
        ("/pub/x", ["evil.test", HOST]), ("/pub/x", [f"{HOST}:22"]), ("/pub/x", [f"{HOST}:80"]), ("/pub/x", []),
        ("/pub/x", [""]),
        ("https://evil.test/pub/x", [HOST]), ("https://evil.test/pub/x", ["evil.test"]), (f"https://{OTHER}/pub/x", [HOST]),
        (f"https://{OTHER}/pub/x", [OTHER]), (f"http://{HOST}/pub/x", [HOST]), (f"https://{HOST}:22/pub/x", [HOST]),
        (f"https://{HOST}@evil.test/pub/x", [HOST]), (f"ftp://{HOST}/pub/x", [HOST]), ("//evil.test/pub/x", [HOST]),
        ("https://203.0.113.11/pub/x", [HOST]), ("cache_object://x/info", [HOST]),
    ],
)  # fmt: skip
def test_a_request_that_names_another_host_inside_opened_tls(
    path: str, gate: GateBox, world: World, target: str, hosts: list[str]
) -> None:
    """The bytes go where the tunnel leads whatever they name, so each name has to be the tunnel's (A04)."""
    headers = [*(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    heard = inside(path, "\r\n".join([f"GET {target} HTTP/1.1", *headers]).encode())

    assert heard.status in (400, 403)
    assert heard.seconds < AT_ONCE
    assert world.arrived() in ([], [(SERVER, 443, "client-hello")])
    assert requests(world) == []
    assert [line for line in record(gate, path, "decision", "reason") if line[0] != "deny"] == []


@pytest.mark.parametrize(
    "hosts", [[HOST, "evil.test"], [f"{HOST}:443@evil.test"], [f"{HOST}, evil.test"], [HOST, HOST], [f"x@{HOST}"]]
)
def test_of_several_hosts_the_one_that_was_judged_is_sent(path: str, world: World, hosts: list[str]) -> None:
    """squid writes the header anew from the first name in it (A04)."""
    headers = [*(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    heard = inside(path, "\r\n".join(["GET /pub/x HTTP/1.1", *headers]).encode())

    assert heard.status in (200, 400, 403)
    assert requests(world) in ([], [("GET", "/pub/x", HOST)])


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("/pub/x", f"{HOST}:443"), ("/pub/x", HOST.upper()), ("/pub/x", f"{HOST}."), (f"https://{HOST}/pub/x", HOST),
        (f"https://{HOST}:443/pub/x", f"{HOST}:443"),
    ],
)  # fmt: skip
def test_the_same_name_in_another_spelling(path: str, world: World, target: str, host: str) -> None:
    assert inside(path, said("GET", target, host=host)).status == 200
    ((method, arrived, named),) = requests(world)
    assert (method, arrived) == ("GET", "/pub/x")
    assert named.lower().removesuffix(":443").removesuffix(".") == HOST


@pytest.mark.parametrize("sni", ["evil.test", OTHER, "allowed.test", f"x.{HOST}", "203.0.113.10", None])
def test_a_hello_that_does_not_name_the_host_is_cut(path: str, gate: GateBox, world: World, sni: str | None) -> None:
    heard = https(path, f"{HOST}:443", sni, url="/pub/x", host=HOST)

    assert (heard.status, heard.is_closed) == (0, True)
    assert world.arrived() == []
    reason = "name-mismatch" if sni and not sni[0].isdigit() else "not-tls"
    assert record(gate, path, "host", "method", "decision", "reason") == [(HOST, "CONNECT", "deny", reason)]


def test_a_host_with_rules_is_reached_on_no_other_port(path: str, world: World) -> None:
    """Nothing could be judged there, though an entry names it."""
    assert say(path, connect(f"{HOST}:22")).status == 403
    assert say(path, get(f"http://{HOST}:8080/pub/x")).status == 403
    assert say(path, connect(f"{HOST}:8443")).status == 403
    assert world.seen() == []


@pytest.mark.parametrize(
    "target", [f"{HOST}:443", "evil.test:443", "evil.test:80", "evil.test:22", f"{OTHER}:443", "203.0.113.11:443"]
)
def test_a_tunnel_asked_for_inside_opened_tls_is_none(path: str, world: World, target: str) -> None:
    """(A25)"""
    with opened(path) as secure:
        secure.sendall(connect(target))
        first = listen(secure, until=b"\r\n\r\n", seconds=2)
        with contextlib.suppress(OSError):
            secure.sendall(get_and_close("/secret", host="evil.test"))
            listen(secure, seconds=1)
    assert first.status in (403, 405, 503)
    assert [line for line in world.arrived() if line != (SERVER, 443, "client-hello")] == []


# --- kept connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["https", "plain", "by url"])
@pytest.mark.parametrize("second", ["method", "path", "host", "path-form"])
@pytest.mark.parametrize("is_pipelined", [False, True], ids=["one by one", "pipelined"])
def test_each_request_of_a_kept_connection_is_judged(
    path: str, gate: GateBox, world: World, way: str, second: str, is_pipelined: bool
) -> None:
    """(A23)"""
    origin = f"http://{HOST}" if way == "by url" else ""
    words = {
        "method": f"DELETE {origin}/pub/2 HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
        "path": f"GET {origin}/secret HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
        # By URL that is the name in it: squid puts it in the place of the header.
        "host": f"GET {origin.replace(HOST, 'nobody.test')}/pub/2 HTTP/1.1\r\nHost: nobody.test\r\n\r\n",
        "path-form": f"GET {origin}/pub/../secret HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
    }[second].encode()
    first = [f"GET {origin}/pub/{number} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() for number in range(2)]
    with contextlib.ExitStack() as stack:
        client: Any
        if way == "https":
            client = stack.enter_context(opened(path))
        else:
            client = stack.enter_context(connected(path))
            if way == "plain":
                tunnel(client, f"{HOST}:80")
        if is_pipelined:
            client.sendall(b"".join([*first, words]))
        else:
            for request in first:
                client.sendall(request)
                assert listen(client, until=b"203.0.113.10\n").status == 200
            client.sendall(words)
        assert b"403 Access denied by egress policy\n" in listen(client, until=b"ask the user.\n").data
    assert requests(world) == [("GET", "/pub/0", HOST), ("GET", "/pub/1", HOST)]
    assert [decision for (decision,) in record(gate, path, "decision", lines=3)] == ["allow", "allow", "deny"]


def test_a_body_is_no_request(path: str, world: World) -> None:
    """What is sent as the body of an allowed request stays one, and what follows it is judged."""
    smuggled = said("DELETE", "/pub/x")
    with opened(path) as secure:
        body = f"POST /up HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(smuggled)}\r\n\r\n".encode() + smuggled
        secure.sendall(body)
        assert listen(secure, until=b"203.0.113.10\n").status == 200
        secure.sendall(smuggled)
        assert listen(secure, until=b"ask the user.\n").status == 403
    assert requests(world) == [("POST", "/up", HOST)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("framing", ["Content-Length: {}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_method_without_a_body_carries_none(path: str, world: World, way: Way, framing: str, method: str) -> None:
    """A server that expects none there reads it as the next request. squid 5 takes none of a given length either."""
    smuggled = said("DELETE", "/pub/x")
    body = smuggled if "{}" in framing else f"{len(smuggled):x}\r\n".encode() + smuggled + b"\r\n0\r\n\r\n"

    heard = way(path, said(method, "/pub/x", framing.format(len(smuggled))) + body)

    assert heard.status in (403, 411)
    assert requests(world) == []


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"], ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: +5"], ["Transfer-Encoding: xchunked"], ["Transfer-Encoding : chunked"], ["Content-Length: 5, 5, 6"],
    ],
)  # fmt: skip
def test_a_body_whose_end_servers_see_in_different_places(path: str, world: World, headers: list[str]) -> None:
    """However squid takes it: no second request may come out of it."""
    words = said("POST", "/up", *headers) + b"0\r\n\r\n" + said("DELETE", "/pub/x")
    with opened(path) as secure:
        secure.sendall(words)
        listen(secure, seconds=1)
    assert {method for method, _, _ in requests(world)} <= {"POST"}


# --- expectations, upgrades, and what is not passed on ---------------------------------------------


def test_a_client_that_waits_for_leave_to_send_its_body(path: str, world: World) -> None:
    head = (
        f"PUT {{}} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    with opened(path) as secure:
        secure.sendall(head.format("/pub/x").encode())
        heard = listen(secure, until=b"ask the user.\n")
        assert (heard.status, b"100 Continue" in heard.data) == (403, False)
        assert heard.seconds < AT_ONCE
    with opened(path) as secure:
        secure.sendall(head.format("/up").encode())
        time.sleep(0.2)
        secure.sendall(b"hello")
        assert listen(secure, until=b"203.0.113.10\n").data.endswith(b"203.0.113.10\n")
    assert requests(world) == [("PUT", "/up", HOST)]


@pytest.mark.parametrize("way", ["https", "plain"])
def test_a_websocket_is_judged_by_its_get(path: str, gate: GateBox, world: World, way: str) -> None:
    """(B34) Then it is open: nothing is read in it any more."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
    with contextlib.ExitStack() as stack:
        client: Any
        if way == "https":
            client = stack.enter_context(opened(path))
        else:
            client = stack.enter_context(connected(path))
            tunnel(client, f"{HOST}:80")
        client.sendall(get("/ws", *upgrade, host=HOST))
        assert listen(client, until=b"\r\n\r\n").status == 101
        client.sendall(b"\x81\x02hi")
        assert listen(client, until=b"hi").data == b"\x81\x02hi"
    refused = WAYS[way](path, get("/secret", *upgrade, host=HOST))
    assert refused.status == 403
    posted = WAYS[way](path, get("/up", *upgrade, host=HOST).replace(b"GET", b"POST", 1))
    assert posted.status == 403
    assert requests(world) == [("GET", "/ws", HOST)]
    assert [line[0] for line in record(gate, path, "reason", lines=3)] == ["", "path", "method"]


@pytest.mark.parametrize("way", ["https", "plain"])
@pytest.mark.parametrize("protocol", ["h2c", "h2c, websocket/9", "HTTP/2.0", "TLS/1.2", "foo"])
def test_no_other_protocol_is_asked_for(path: str, world: World, way: str, protocol: str) -> None:
    """The server does not hear of it, and answers in HTTP/1.1 (A26)."""
    asked = ("Upgrade: " + protocol, "HTTP2-Settings: AAMAAABkAAQAAP__", "Connection: close, Upgrade, HTTP2-Settings")
    words = "\r\n".join([f"GET /pub/x HTTP/1.1\r\nHost: {HOST}", *asked, "", ""]).encode()

    heard = WAYS[way](path, words)

    assert heard.status == 200
    (request,) = [line for line in world.seen() if line["kind"] == "request"]
    assert {"h2c", "HTTP/2.0", "TLS/1.2", "foo"}.isdisjoint(request["headers"].get("upgrade", "").split(", "))
    assert "http2-settings" not in request["headers"]


def test_http2_is_not_offered_inside_opened_tls(path: str) -> None:
    with opened(path) as secure:
        assert secure.selected_alpn_protocol() in (None, "http/1.1")


@pytest.mark.parametrize("way", ["https", "plain"])
def test_a_server_does_not_send_the_client_elsewhere(path: str, way: str) -> None:
    """Another way to the same host would not be the gate's."""
    heard = WAYS[way](path, get_and_close("/pub/alt-svc", host=HOST))

    assert heard.status == 200
    assert b"alt-svc" not in heard.data.partition(b"\r\n\r\n")[0].lower()


# --- which TLS is opened, and in whose name --------------------------------------------------------


def test_the_certificate_is_the_gates_own_and_for_this_host(path: str, world: World) -> None:
    with opened(path) as secure:
        certificate: Any = secure.getpeercert()
    assert dict(pair for ((pair),) in certificate["issuer"])["commonName"] == "gate.aisb.internal"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=world.certificate())
    with connected(path) as client:
        tunnel(client, f"{HOST}:443")
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(client, server_hostname=HOST)


@pytest.mark.parametrize("name", ["evil.test", "allowed.test", f"x.{HOST}"])
def test_every_other_host_passes_byte_for_byte(path: str, gate: GateBox, world: World, name: str) -> None:
    """A host below one with rules, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=world.certificate())
    world.answer(ZONE | NAMES | {f"x.{HOST}": [SERVER]})
    with connected(path) as client:
        tunnel(client, f"{name}:443")
        with context.wrap_socket(client, server_hostname=name) as secure:
            secure.sendall(said("DELETE", "/anything", host="whatever.test"))
            assert listen(secure, until=b"\n").status == 200
    assert record(gate, path, "host", "method", "decision") == [(name, "CONNECT", "allow")]


def test_the_key_is_nowhere_a_run_or_the_host_sees(gate: GateBox, path: str) -> None:
    with open(f"{os.path.dirname(path)}/ca.pem", encoding="ascii") as file:
        text = file.read()
    assert text.count("-----BEGIN") == 1
    assert "PRIVATE" not in text
    for folder, _, names in os.walk(gate.directory):
        for name in names:
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                assert b"PRIVATE KEY" not in file.read()
    root = f"/proc/{gate.processes()['squid']}/root/run/squid"
    status = {name: os.stat(f"{root}/{name}").st_mode & 0o777 for name in ("gate.key", "gate.crt")}
    assert status == {"gate.key": 0o600, "gate.crt": 0o644}


def test_a_new_gate_has_a_new_certificate(system: str, gate: GateBox, path: str) -> None:
    with open(f"{os.path.dirname(path)}/ca.pem", encoding="ascii") as file:
        before = file.read()
    with World() as elsewhere, GateBox(elsewhere, POLICY, system=system) as another:
        assert another.ready == "ready", another.log()
        with open(f"{os.path.dirname(another.open())}/ca.pem", encoding="ascii") as file:
            assert file.read() != before


def test_a_gate_that_opens_nothing_hands_out_nothing(system: str) -> None:
    with World() as elsewhere, GateBox(elsewhere, allowing("allowed.test"), system=system) as another:
        assert another.ready == "ready", another.log()
        assert os.listdir(os.path.dirname(another.open())) == ["gate.sock"]


def test_a_server_that_cannot_be_trusted_is_not_spoken_to(path: str, gate: GateBox, world: World) -> None:
    """The client sees the gate's certificate and not the server's, so the gate has to check it."""
    with connected(path) as client:
        tunnel(client, "deep.wrong.test:443")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(client, server_hostname="deep.wrong.test") as secure:
            secure.sendall(get_and_close("/x", host="deep.wrong.test"))
            heard = listen(secure, seconds=4)
    assert heard.status == 503
    assert b"\r\n\r\nThe gate cannot reach this host\n" in heard.data
    assert requests(world) == []
    assert record(gate, path, "host", "decision", "failed") == [("deep.wrong.test", "allow", "untrusted")]


def test_a_host_with_rules_that_leads_inward_is_not_followed(path: str, gate: GateBox, world: World) -> None:
    heard = https(path, "inward.test:443", "inward.test")
    plainly = say(path, get_and_close("http://inward.test/"))

    assert (heard.status, plainly.status) == (0, 403)
    assert world.arrived() == []
    assert record(gate, path, "host", "decision", "reason", lines=2) == [("inward.test", "deny", "private-address")] * 2


def test_a_host_with_rules_over_ipv6(path: str, world: World) -> None:
    assert inside(path, get_and_close("/x", host="v6.test"), name="v6.test").status == 200
    assert {address for address, _, _ in world.arrived()} == {"2001:db8::10"}
