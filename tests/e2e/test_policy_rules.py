"""Hosts with method and path rules: the same answer over HTTP and HTTPS, and nothing past it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.clients import CLIENTS
from tests.e2e.legs import arrived, curl, inside, needs_sinks, outside, requested, run, tcp
from tests.e2e.sandbox import inside as program_of
from tests.e2e.test_net_clients import options_with_clients

if TYPE_CHECKING:
    from tests.e2e.lab import Lab
    from tests.e2e.legs import Leg

# A test may be the first to need the clients' image, which takes a minute or two.
pytestmark = [needs_sinks, pytest.mark.timeout(900)]

SCHEMES = ("http", "https")
WAYS = ("by proxy", "without")
STATUS = ("--output", "/dev/null", "--write-out", "%{http_code}")


def in_all_ways(*arguments: str, path: str = "/pub/a", host: str = "cdn.test") -> dict[str, Leg]:
    """One request over HTTP and HTTPS, by the proxy's variables and without them."""
    return {
        f"{scheme}, {way}": curl(*arguments, f"{scheme}://{host}{path}", bare=way == "without")
        for scheme in SCHEMES
        for way in WAYS
    }


def named(what: str, legs: dict[str, Leg]) -> dict[str, Leg]:
    """The legs, each under the name of what it tries."""
    return {f"{what}: {name}": leg for name, leg in legs.items()}


def test_a_method_and_a_path_are_refused_alike_over_http_and_https(lab: Lab) -> None:
    """GET is allowed and POST refused on one host, in all ways; the other path too, and a second port. (A22)"""
    allowed = named("GET", in_all_ways())
    methods = named("POST", in_all_ways("--data", "x"))
    paths = named("path", in_all_ways(path="/secret"))
    query = named("query", in_all_ways(path="/pub/a?/../secret"))
    ports = {"another port": curl("http://cdn.test:8443/pub/a"), "SSH": tcp("cdn.test", 22)}
    legs = allowed | methods | paths | query

    assert set(outside(lab, legs | {"SSH": ports["SSH"]}).values()) == {"hello from cdn.test", "SSH-2.0-laboratory"}
    result = inside(lab, "--allow 'GET cdn.test/pub/**' --allow cdn.test:22,cdn.test:8443", legs | ports)

    assert result.said == {
        **dict.fromkeys(allowed | query, "hello from cdn.test"),
        **dict.fromkeys(methods, "403 method"),
        **dict.fromkeys(paths, "403 path"),
        "another port": "403 port",
        "SSH": "reset",
    }
    assert requested(lab) == sorted(
        f"cdn.test GET {scheme}://cdn.test/{path}" for scheme in SCHEMES for path in 2 * ("pub/a", "pub/a?/../secret")
    )
    assert set(arrived(lab)) == {"cdn.test 80", "cdn.test 443"}
    assert result.denials() == {
        ("cdn.test", 80, "method"),
        ("cdn.test", 443, "method"),
        ("cdn.test", 80, "path"),
        ("cdn.test", 443, "path"),
        ("cdn.test", 8443, "port"),
        ("cdn.test", 22, "port"),
    }
    add = "aisb: denied cdn.test:443 (2 times): the host is allowed, but not this path; to allow it, add: --allow 'GET cdn.test/secret'"
    assert add in result.errors.splitlines()


TRICKS = {
    "dots": "/pub/../secret",
    "encoded dots": "/pub/%2e%2e/secret",
    "half of them": "/pub/.%2e/secret",
    "an encoded slash": "/pub%2fa",
    "two slashes": "/pub//..//secret",
    "a parameter": "/pub;x/../secret",
    "a dot in front": "/./pub/a",
    "an encoded letter": "/%70ub/a",
    "twice encoded": "/pub/%252e%252e/secret",
    "a null byte": "/pub/a%00",
    "half an encoding": "/pub/a%2",
}


def test_a_path_counts_in_one_form(lab: Lab) -> None:
    """What a server might read as another path is refused before any rule is asked. (A20)"""
    legs = {
        f"{name}, {scheme}": curl("--path-as-is", f"{scheme}://cdn.test{path}")
        for name, path in TRICKS.items()
        for scheme in SCHEMES
    }
    own = in_all_ways(path="/pub/a%2Bb")

    assert set(outside(lab, legs | own).values()) == {"hello from cdn.test"}
    result = inside(lab, "--allow 'GET cdn.test/pub/**'", legs | own)

    assert result.said == dict.fromkeys(legs, "403 path-form") | dict.fromkeys(own, "hello from cdn.test")
    assert requested(lab) == sorted(2 * [f"cdn.test GET {scheme}://cdn.test/pub/a%2Bb" for scheme in SCHEMES])


def test_one_host_does_not_answer_for_another(lab: Lab) -> None:
    """Two hosts with rules: no Host header and no absolute URL lets one be asked with the other's. (A04)"""
    absolute = "--request-target"
    tricks = {
        "its Host": curl(*STATUS, "--header", "Host: cdn.test", "https://evil.test/pub/a"),
        "its Host, without": curl(*STATUS, "--header", "Host: cdn.test", "https://evil.test/pub/a", bare=True),
        "its Host and port": curl(*STATUS, "--header", "Host: cdn.test:443", "https://evil.test/pub/a"),
        "its URL": curl(*STATUS, absolute, "https://cdn.test/pub/a", "https://evil.test/"),
        "its URL and Host": curl(
            *STATUS, "--header", "Host: cdn.test", absolute, "https://cdn.test/pub/a", "https://evil.test/"
        ),
        "its Host over HTTP": curl(*STATUS, "--header", "Host: cdn.test", "http://evil.test/pub/a", bare=True),
        "a host without rules": curl(*STATUS, "--header", "Host: allowed.test", "https://evil.test/own/a"),
        "an address": curl(*STATUS, "--header", "Host: 10.0.0.1:443", "https://evil.test/own/a"),
        "a user": curl(*STATUS, "--header", "Host: evil.test:443@cdn.test", "https://evil.test/pub/a"),
    }
    own = {
        "its own": curl(*STATUS, "https://evil.test/own/a"),
        "the first's own": curl(*STATUS, "https://cdn.test/pub/a"),
    }

    assert set(outside(lab, tricks | own).values()) == {"200"}
    options = "--allow 'GET cdn.test/pub/**' --allow 'GET evil.test/own/*' --allow allowed.test"
    result = inside(lab, options, tricks | own)

    assert result.said == dict.fromkeys(tricks, "403") | dict.fromkeys(own, "200")
    assert requested(lab) == ["cdn.test GET https://cdn.test/pub/a", "evil.test GET https://evil.test/own/a"]
    assert {reason for _, _, reason in result.denials()} == {"name-mismatch", "path"}


def test_each_request_of_a_connection_is_judged(lab: Lab) -> None:
    """Allowed, refused and misdirected ones in turn, over one connection to the proxy and in one TLS session. (A23)"""
    write = ("--output", "/dev/null", "--write-out", "%{http_code} ")

    def one_after_the_other(scheme: str, way: str) -> Leg:
        url = f"{scheme}://cdn.test"
        return curl(
            *write, f"{url}/pub/1", "--next", *write, f"{url}/pub/2",
            "--next", *write, "--data", "x", f"{url}/pub/3",
            "--next", *write, f"{url}/secret",
            "--next", *write, "--header", "Host: evil.test", f"{url}/pub/4",
            "--next", *write, f"{url}/pub/5", bare=way == "without",
        )  # fmt: skip

    legs = {f"{scheme}, {way}": one_after_the_other(scheme, way) for scheme in SCHEMES for way in WAYS}

    assert set(outside(lab, legs).values()) == {"200 200 200 200 200 200"}
    result = inside(lab, "--allow 'GET cdn.test/pub/**'", legs)

    # Where a URL is absolute the header counts for nothing: squid writes it anew from the URL.
    assert result.said == {
        "http, by proxy": "200 200 403 403 200 200",
        "http, without": "200 200 403 403 403 200",
        "https, by proxy": "200 200 403 403 403 200",
        "https, without": "200 200 403 403 403 200",
    }
    assert requested(lab) == sorted(
        ["cdn.test GET http://cdn.test/pub/4"]
        + 2 * [f"cdn.test GET {scheme}://cdn.test/pub/{number}" for scheme in SCHEMES for number in (1, 2, 5)]
    )


METHODS = ("get", "Get", "FOO", "TRACE", "HEAD", "OPTIONS", "DELETE", "PROPFIND", "GETX")


def test_a_method_is_what_it_is_called(lab: Lab) -> None:
    """Other spellings, methods that nobody knows and headers that mean another one are no way past a rule. (A25)"""
    # curl prints no body of a HEAD and waits for one that it was not told of.
    sent = {
        f"{method}, {scheme}": curl(*STATUS, "--request", method, "--max-time", "3", f"{scheme}://cdn.test/pub/a")
        for method in METHODS
        for scheme in SCHEMES
        if method != "HEAD"
    }
    heads = {f"HEAD, {scheme}": curl(*STATUS, "--head", f"{scheme}://cdn.test/pub/a") for scheme in SCHEMES}
    override = {
        f"{header}, {scheme}": curl(*STATUS, "--data", "x", "--header", f"{header}: GET", f"{scheme}://cdn.test/pub/a")
        for header in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")
        for scheme in SCHEMES
    }
    own = {name: curl(*STATUS, f"{name}://cdn.test/pub/a") for name in SCHEMES}

    legs = sent | heads | override | own
    reached = outside(lab, legs)
    assert set(reached.values()) <= {"200", "501"}
    result = inside(lab, "--allow 'GET cdn.test/pub/**'", legs)

    assert {result.said[leg] for leg in sent | heads | override} <= {"400", "403"}
    assert {leg: result.said[leg] for leg in heads | override | own} == {
        **dict.fromkeys(heads | override, "403"),
        **dict.fromkeys(own, "200"),
    }
    assert requested(lab) == [f"cdn.test GET {scheme}://cdn.test/pub/a" for scheme in SCHEMES]


UPGRADED = r"""
import json, os, socket, ssl
HEAD = "GET /pub/a HTTP/1.1\r\nHost: cdn.test\r\nConnection: keep-alive, Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\n%s\r\n"
MORE = {"h2c": "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n", "websocket": "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"}
AFTER = b"POST /secret HTTP/1.1\r\nHost: cdn.test\r\nContent-Length: 0\r\n\r\n"
def outcome(scheme, protocol):
    connection = socket.create_connection(("cdn.test", 443 if scheme == "https" else 80), 5)
    if scheme == "https":
        context = ssl.create_default_context()
        context.load_verify_locations(os.environ["CURL_CA_BUNDLE"])
        connection = context.wrap_socket(connection, server_hostname="cdn.test")
    connection.sendall((HEAD % (protocol, MORE.get(protocol, ""))).encode() + AFTER)
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
            if data.count(b"HTTP/1.1 ") == 2 and data.endswith(b"\n"):
                break
    except OSError:
        pass
    return [line.split(b" ")[1].decode() for line in data.splitlines() if line.startswith(b"HTTP/1.1 ")]
print(json.dumps({f"{s} {p}": outcome(s, p) for s in ("http", "https") for p in ("h2c", "websocket", "tls/1.3", "h2c, websocket")}))
"""


def test_an_upgrade_carries_no_request_past_the_rules(lab: Lab) -> None:
    """What follows a GET that asked for another protocol is judged; the server never hears of h2c. (A26)"""
    trust = 'export CURL_CA_BUNDLE="${CURL_CA_BUNDLE:-$LAB_CA}"'
    direct = lab.run(f"{trust}; python3 -", stdin=UPGRADED.encode())
    assert set(map(tuple, json.loads(direct.text).values())) == {("200", "200")}

    result = lab.run("aisb --allow 'GET cdn.test/pub/**' -- python3 -", stdin=UPGRADED.encode())

    assert (result.code, result.errors.count("denied cdn.test")) == (0, 2), result.errors
    assert set(map(tuple, json.loads(result.text).values())) == {("200", "403")}
    heads = [item["headers"] for item in lab.sinks("request")]
    assert {(item["method"], item["path"]) for item in lab.sinks("request")} == {("GET", "/pub/a")}
    assert {head.get("upgrade", "") for head in heads} <= {"", "websocket"}
    assert not any("http2-settings" in head for head in heads)


def test_every_client_trusts_a_host_whose_tls_is_opened(lab: Lab) -> None:
    """curl, wget, git, Node and Python's libraries, with proxy variables and without, and are refused in time. (B34)"""
    allowed = ("https://allowed.test", "http://allowed.test")
    legs = {
        f"{name}, {way}": run(*argv, *allowed, "https://cdn.test", bare=way == "without")
        for name, argv in CLIENTS.items()
        for way in WAYS
    }
    options = f"{options_with_clients(lab.name)} --allow 'GET,POST allowed.test/**' --allow 'GET cdn.test/none'"
    shown = {"git": "hello from a repository"}

    outside(lab, {"curl": run(*CLIENTS["curl"], *allowed, "https://cdn.test")})
    assert set(arrived(lab)) == {"allowed.test 80", "allowed.test 443", "cdn.test 443"}
    result = inside(lab, options, legs)

    assert {leg: text.split("\n") for leg, text in result.said.items()} == {
        leg: 2 * [shown.get(leg.partition(",")[0], "hello from allowed.test")] + ["denied"] for leg in legs
    }
    assert {item["host"] for item in lab.sinks("request")} == {"allowed.test"}


JSON = ("--header", "Accept: application/json")


def test_a_refusal_is_json_for_who_asks_for_it(lab: Lab) -> None:
    """The same words over plain HTTP and in opened TLS, with the one line that would allow it."""
    legs = in_all_ways(*JSON, "--request", "DELETE")
    result = inside(lab, "--allow 'GET cdn.test/pub/**'", legs)

    said = {leg: json.loads(text) for leg, text in result.said.items()}
    kept = ("error", "reason", "host", "port", "method", "path", "rule_missing")
    assert {leg: {key: item.get(key) for key in kept} for leg, item in said.items()} == {
        leg: {
            "error": said[leg]["error"],
            "reason": "method",
            "host": "cdn.test",
            "port": 443 if leg.startswith("https") else 80,
            "method": "DELETE",
            "path": "/pub/a",
            "rule_missing": "DELETE cdn.test/pub/a",
        }
        for leg in legs
    }
    assert arrived(lab).keys() <= {"cdn.test 443"}
    assert requested(lab) == []


RULES_COST = "aisb: cdn.test is judged by its rules alone, on ports 80 and 443; the gate opens its TLS: no HTTP/2 and no gRPC there"


def test_what_rules_cost_a_host_is_said_at_the_start(lab: Lab) -> None:
    """HTTP/2, and gRPC with it, ends where TLS is opened; nothing is said of other hosts, and it can be silenced. (B36)"""
    command = "-- true"
    with_rules = lab.run(f"aisb --allow 'GET cdn.test/**' --allow allowed.test {command}")
    without = lab.run(f"aisb --allow cdn.test {command}")
    quiet = lab.run(f"aisb -q --allow 'GET cdn.test/**' {command}")

    assert [line for line in with_rules.errors.splitlines() if "rules" in line] == [RULES_COST]
    assert "rules" not in without.errors
    assert (quiet.code, quiet.errors) == (0, "")


# How often the gate's own certificate stands among those that are trusted inside.
TRUSTED = (
    'openssl crl2pkcs7 -nocrl -certfile "$SSL_CERT_FILE" | openssl pkcs7 -print_certs -noout >/tmp/names; '
    'grep -c "$(openssl x509 -in /run/aisb/gate/ca.pem -noout -subject)" /tmp/names'
)


def test_the_key_of_the_gates_authority_is_nowhere_to_be_found(lab: Lab) -> None:
    """Not inside and not on the host; another gate has another one, and one that opens nothing hands out none. (A57)"""
    program = program_of("keys").encode()
    mark = "openssl x509 -in /run/aisb/gate/ca.pem -noout -fingerprint -sha256"
    holds = "aisb -q --allow 'GET cdn.test/one' --"

    one = lab.run(f"{holds} {mark}")
    other = lab.run(f"aisb -q --allow 'GET cdn.test/two' -- {mark}")
    trusted = lab.run(f"{holds} sh -c '{TRUSTED}'")
    planted = "printf -- '-----BEGIN PRIVATE KEY-----\\n-----END PRIVATE KEY-----\\n' >key; "
    inside_it = lab.run(f"{planted}{holds} python3 - /", stdin=program)
    # The gates are still there.
    on_the_host = lab.run(
        planted + 'python3 - "$XDG_RUNTIME_DIR" "$HOME/.cache" "$HOME/.local" "$HOME/project" /tmp /dev/shm',
        stdin=program,
    )
    unopened = lab.run("aisb -q --allow cdn.test -- ls /run/aisb/gate")

    assert (one.code, other.code, len(one.text.splitlines()), len(other.text.splitlines())) == (0, 0, 1, 1)
    assert one.text != other.text
    assert (trusted.text, inside_it.text) == ("1\n", "/project/key\n")
    assert [line.rpartition("/")[2] for line in on_the_host.text.splitlines()] == ["key"]
    assert unopened.text == "gate.sock\n"
