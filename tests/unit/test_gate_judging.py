"""squid's questions and the helper's answers."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from aisb.domain.addresses import AddressEntry
from aisb.domain.http_rules import HostPolicy, Rule
from aisb.domain.rules import EXACT, TREE, WEB_PORTS, Engine, NameEntry
from gate.judging import answer

ENGINE = Engine([
    NameEntry("allowed.test", TREE, WEB_PORTS),
    NameEntry("cdn.test", EXACT, WEB_PORTS),
    NameEntry("db.test", EXACT, (22, 8080)),
], [
    AddressEntry(ip_network("203.0.113.10"), None), AddressEntry(ip_network("2001:db8::10"), 443),
], [11434], [
    HostPolicy("api.test", (Rule("ALLOW", "GET", "/pub/.*"),)), HostPolicy("two.test", (Rule("ALLOW", "*", "/.*"),)),
])  # fmt: skip
RUN = "fd00::1a2b:3c4d"
CONNECTION = 17


def asked(line: str, upgrade: str = "-", path: str = "/", body: str = "- -") -> bytes:
    """squid's line, with what a request has besides its names put before the door."""
    rest, _, door = line.rpartition(" ")
    return f"7 {RUN} {CONNECTION} {rest} {upgrade} {body} {path} {door} ".encode()


def verdict(line: str, upgrade: str = "-", path: str = "/", body: str = "- -") -> str:
    """Channel, yes or no, and the reason."""
    said = answer(lambda _: ENGINE, asked(line, upgrade, path, body)).decode()
    assert said.endswith("\n")
    assert said.count("\n") == 1
    channel, result, reason, *_ = said.split()
    assert channel == "7"
    return f"{result} {reason.removeprefix('log=')}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET allowed.test 80 http allowed.test - - explicit", "OK ok"),
        ("GET sub.allowed.test 80 http SUB.allowed.test.:80 - - explicit", "OK ok"),
        ("GET db.test 8080 http db.test:8080 - - explicit", "OK ok"),
        ("CONNECT db.test 22 - db.test:22 - - explicit", "OK ok"),
        ("CONNECT db.test 22 - - - - explicit", "OK ok"),
        ("GET allowed.test 80 http allowed.test allowed.test:80 - plain", "OK ok"),
        ("CONNECT allowed.test 443 - allowed.test:443 - - tls", "OK ok"),
        ("CONNECT allowed.test 443 - allowed.test:443 - allowed.test hello", "OK ok"),
        ("CONNECT allowed.test 443 - allowed.test:443 - ALLOWED.TEST hello", "OK ok"),
        # squid asks once more where it passes a hello on, 5.7 and 6.13 with different schemes.
        ("CONNECT allowed.test 443 http allowed.test allowed.test:443 allowed.test tls", "OK ok"),
        ("CONNECT allowed.test 443 authority_form allowed.test allowed.test:443 allowed.test tls", "OK ok"),
        ("CONNECT api.test 443 - api.test:443 api.test:443 - tls", "OK ok"),
        ("CONNECT api.test 443 - api.test:443 api.test:443 api.test bump", "OK ok"),
        ("CONNECT 203.0.113.10 443 - 203.0.113.10:443 - - explicit", "OK ok"),
        ("CONNECT 203.0.113.10 80 - 203.0.113.10:80 - - explicit", "OK ok"),
        ("CONNECT %5B2001:db8::10%5D 443 - %5B2001:db8::10%5D:443 - - explicit", "OK ok"),
        ("GET 203.0.113.10 8080 http 203.0.113.10:8080 - - explicit", "OK ok"),
    ],
)
def test_what_squid_may_do(line: str, expected: str) -> None:
    assert verdict(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET evil.test 80 http evil.test - - explicit", "ERR not-listed"),
        ("GET allowed.test 80 http evil.test - - explicit", "ERR name-mismatch"),
        ("GET allowed.test 80 http - - - explicit", "ERR name-mismatch"),
        ("GET allowed.test 443 https allowed.test - - explicit", "ERR name-mismatch"),
        ("GET allowed.test 443 http allowed.test:443 - - explicit", "ERR not-tls"),
        ("GET allowed.test 80 ftp allowed.test - - explicit", "ERR name-mismatch"),
        ("GET db.test 22 http db.test - - explicit", "ERR name-mismatch"),
        ("GET 203.0.113.11 80 http 203.0.113.11 - - explicit", "ERR direct-address"),
        ("CONNECT allowed.test 22 - allowed.test:22 - - explicit", "ERR port"),
        ("CONNECT allowed.test 443 - allowed.test:443 - - explicit", "ERR bad-request"),
        ("CONNECT allowed.test 80 - allowed.test:80 - - explicit", "ERR bad-request"),
        ("GET cdn.test 80 http cdn.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET allowed.test 80 http cdn.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET cdn.test 80 http allowed.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET allowed.test 5432 http allowed.test:5432 allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET allowed.test 443 https allowed.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET evil.test 80 http evil.test evil.test:80 - plain", "ERR not-listed"),
        ("GET allowed.test 80 http allowed.test - - plain", "ERR bad-request"),
        ("CONNECT allowed.test 80 - allowed.test:80 allowed.test:80 - plain", "ERR bad-request"),
        ("CONNECT evil.test 443 - evil.test:443 - - tls", "ERR not-listed"),
        ("CONNECT db.test 22 - db.test:22 - - tls", "ERR bad-request"),
        ("GET allowed.test 443 https allowed.test - - tls", "ERR bad-request"),
        ("CONNECT allowed.test 443 - allowed.test:443 - evil.test hello", "ERR name-mismatch"),
        ("CONNECT allowed.test 443 - allowed.test:443 - *.test hello", "ERR name-mismatch"),
        ("CONNECT allowed.test 443 - allowed.test:443 - - hello", "ERR not-tls"),
        ("CONNECT allowed.test 443 - allowed.test:443 - sub.allowed.test hello", "ERR name-mismatch"),
        ("CONNECT allowed.test 443 - allowed.test:443 - 203.0.113.11 hello", "ERR name-mismatch"),
        ("GET allowed.test 80 http allowed.test - - elsewhere", "ERR bad-request"),
        ("GET allowed.test 080 http allowed.test - - explicit", "ERR bad-request"),
        ("GET allowed.test - http allowed.test - - explicit", "ERR bad-request"),
        ("GET allowed.test 80 http allowed.test - explicit", "ERR bad-request"),
        ("GET allowed.test 80 http allowed.test - - explicit more", "ERR bad-request"),
        ("GET allowed%2etest 80 http allowed.test - - explicit", "ERR bad-request"),
        ("GET allowed.test 80 http allowed.test,%20evil.test - - explicit", "ERR bad-request"),
        ("", "ERR bad-request"),
        ("CONNECT %5B2001:db8::10%5D 22 - %5B2001:db8::10%5D:22 - - explicit", "ERR port"),
        ("CONNECT %5B2001:db8::11%5D 443 - %5B2001:db8::11%5D:443 - - explicit", "ERR direct-address"),
        ("CONNECT %5Ballowed.test%5D 22 - - - - explicit", "ERR bad-request"),
        # The engine allows it, and aisb serves it: squid never does.
        ("CONNECT host.aisb.internal 11434 - host.aisb.internal:11434 - - explicit", "ERR not-listed"),
        ("GET host.aisb.internal 11434 http host.aisb.internal:11434 - - explicit", "ERR not-listed"),
        ("CONNECT 127.0.0.1 11434 - 127.0.0.1:11434 - - explicit", "ERR not-listed"),
        ("CONNECT api.test 443 - api.test:443 api.test:443 api.test hello", "ERR path"),
        ("CONNECT api.test 443 - api.test:443 api.test:443 two.test bump", "ERR name-mismatch"),
        ("CONNECT api.test 443 - api.test:443 api.test:443 - bump", "ERR not-tls"),
        ("CONNECT allowed.test 443 - allowed.test:443 allowed.test:443 allowed.test bump", "ERR not-listed"),
        # A tunnel asked for inside TLS that was opened.
        ("CONNECT api.test 443 - api.test:443 api.test:443 api.test tls", "ERR path"),
        ("CONNECT allowed.test 443 - allowed.test:443 api.test:443 api.test tls", "ERR name-mismatch"),
        ("CONNECT api.test 443 - api.test:443 api.test:443 api.test bumped", "ERR bad-request"),
    ],
)
def test_what_squid_may_not_do(line: str, expected: str) -> None:
    assert verdict(line) == expected


INSIDE = "GET api.test 443 https api.test api.test:443 api.test bumped"


@pytest.mark.parametrize(
    ("line", "path", "expected"),
    [
        (INSIDE, "/pub/x?y=%20", "OK ok"),
        (INSIDE, "/pub/a'b[c]", "OK ok"),
        (INSIDE, "/secret", "ERR path"),
        (INSIDE, "/pub/%2e%2e/secret", "ERR path-form"),
        # As it goes to the server: not decoded, and not encoded again.
        (INSIDE, "/pub/%252e", "ERR path-form"),
        (INSIDE, "-", "ERR path-form"),
        (INSIDE, "/pub/\N{LATIN SMALL LETTER E WITH ACUTE}", "ERR bad-request"),
        (INSIDE.replace("GET", "POST"), "/pub/x", "ERR method"),
        (INSIDE.replace("GET", "get"), "/pub/x", "ERR method"),
        (INSIDE.replace("GET api.test", "GET two.test"), "/pub/x", "ERR name-mismatch"),
        (INSIDE.replace("https api.test", "https two.test"), "/pub/x", "ERR name-mismatch"),
        (INSIDE.replace("https", "http"), "/pub/x", "ERR name-mismatch"),
        (INSIDE.replace("443 https", "80 https"), "/pub/x", "ERR name-mismatch"),
        (INSIDE.replace("api.test:443", "two.test:443"), "/pub/x", "ERR name-mismatch"),
        (INSIDE.replace("api.test:443", "-"), "/pub/x", "ERR bad-request"),
        (INSIDE.replace("api.test bumped", "two.test bumped"), "/pub/x", "ERR name-mismatch"),
        (INSIDE.replace("api.test bumped", "- bumped"), "/pub/x", "ERR bad-request"),
        (INSIDE.replace("api.test", "allowed.test"), "/pub/x", "ERR bad-request"),
        ("GET api.test 80 http api.test api.test:80 - plain", "/pub/x", "OK ok"),
        ("GET api.test 80 http api.test api.test:80 - plain", "/secret", "ERR path"),
        ("GET api.test 80 http api.test - - explicit", "/pub/x", "OK ok"),
        ("POST api.test 80 http api.test - - explicit", "/pub/x", "ERR method"),
    ],
)
def test_what_may_be_said_to_a_host_with_rules(line: str, path: str, expected: str) -> None:
    """Inside TLS that was opened, and over plain HTTP."""
    if path.isascii():
        assert verdict(line, path=path) == expected
    else:
        assert answer(lambda _: ENGINE, asked(line, path=path)) == b"7 ERR log=bad-request\n"


@pytest.mark.parametrize(
    ("method", "upgrade", "expected"),
    [
        ("GET", "websocket", "OK ok"),
        ("POST", "websocket", "ERR method"),
        ("POST", "foo,%20WebSocket", "ERR method"),
        ("POST", "websocket/13", "ERR method"),
        ("POST", "h2c", "OK ok"),
        ("POST", "-", "OK ok"),
    ],
)
def test_an_upgrade_to_websocket_begins_with_a_get(method: str, upgrade: str, expected: str) -> None:
    assert verdict(f"{method} two.test 80 http two.test two.test:80 - plain", upgrade=upgrade) == expected


def test_a_line_from_nobody_is_answered_no() -> None:
    line = b"0 203.0.113.9 GET allowed.test 80 http allowed.test - - - / explicit"

    assert answer(lambda _: ENGINE, line) == b"0 ERR log=bad-request\n"


@pytest.mark.parametrize("line", [b"", b"x", b"-1 fd00::1 GET", b"12345678901 fd00::1", b"\xff"])
def test_a_line_without_a_channel_has_no_answer(line: bytes) -> None:
    assert answer(lambda _: ENGINE, line) == b""


def test_an_agreement_names_the_run_for_whatever_page_comes_of_it() -> None:
    said = answer(lambda _: ENGINE, asked("GET allowed.test 80 http allowed.test - - explicit")).decode()

    assert said.split()[:4] == ["7", "OK", "log=ok", "run_=1a2b3c4d"]


def test_a_refusal_carries_the_words_for_the_client_as_one_token() -> None:
    said = answer(lambda _: ENGINE, asked("GET evil.test 80 http evil.test - - explicit", path="/x?secret")).decode()

    from urllib.parse import unquote

    _, _, _, message = said.split()
    assert unquote(message.removeprefix("message=")) == (
        "who: sandbox 1a2b3c4d\n"
        "host: evil.test\n"
        "port: 80\n"
        "method: GET\n"
        "path: /x\n"
        "reason: not-listed (no entry of the policy covers this host)\n"
        "next: to allow it, the user starts the sandbox with: --allow evil.test; or, for this one: aisb allow evil.test\n"
        "Do not work around it: ask the user.\n"
    )


@pytest.mark.parametrize(
    ("method", "host", "body", "expected"),
    [
        ("GET", "two.test", "- -", "OK ok"),
        ("GET", "two.test", "0 -", "OK ok"),
        ("GET", "two.test", "5 -", "ERR method"),
        ("GET", "two.test", "0,%205 -", "ERR method"),
        ("GET", "two.test", "- chunked", "ERR method"),
        ("HEAD", "two.test", "5 -", "ERR method"),
        ("POST", "two.test", "5 -", "OK ok"),
        ("PUT", "two.test", "- chunked", "OK ok"),
        ("GET", "allowed.test", "5 -", "OK ok"),
    ],
)
def test_where_there_are_rules_a_body_comes_with_a_method_that_has_one(
    method: str, host: str, body: str, expected: str
) -> None:
    """Some servers take the body of a GET for the next request, which nobody has judged."""
    assert verdict(f"{method} {host} 80 http {host} {host}:80 - plain", body=body) == expected
