"""The first request of a connection: what the gate takes, and what it does not."""

from __future__ import annotations

import time

import pytest

from gate.heads import LARGEST_HEAD, BadRequest, Request, parse_head, split_head


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, *headers, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("raw", "request_"),
    [
        (head("CONNECT allowed.test:443 HTTP/1.1"), Request("CONNECT", "allowed.test", 443)),
        (head("CONNECT ALLOWED.test.:443 HTTP/1.0", "Host: x"), Request("CONNECT", "allowed.test", 443)),
        (head("CONNECT 203.0.113.11:443 HTTP/1.1"), Request("CONNECT", "203.0.113.11", 443)),
        (head("CONNECT [2001:DB8::11]:443 HTTP/1.1"), Request("CONNECT", "2001:db8::11", 443)),
        (
            head("CONNECT a.test:22 HTTP/1.1", "accept: text/html, application/JSON;q=0.9"),
            Request("CONNECT", "a.test", 22, wants_json=True),
        ),
        (head("GET http://a.test HTTP/1.1", "Host: a.test"), Request("GET", "a.test", 80, "/", "a.test")),
        (
            head("M-SEARCH http://a.test:8080/x?y=1 HTTP/1.1", "X: \xe9\t ", "HOST:a.test:8080 "),
            Request("M-SEARCH", "a.test", 8080, "/x?y=1", "a.test:8080"),
        ),
        (head("GET http://a.test?q HTTP/1.1", "Host: a.test"), Request("GET", "a.test", 80, "?q", "a.test")),
        (head("GET http://[::1]/ HTTP/1.1", "Host: [::1]"), Request("GET", "::1", 80, "/", "[::1]")),
        (head("RESOLVE any.thing-at_all AISB/1"), Request("RESOLVE", "any.thing-at_all", 0)),
    ],
    ids=lambda value: value[:30].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_what_is_a_request(raw: bytes, request_: Request) -> None:
    assert parse_head(raw) == request_


@pytest.mark.parametrize(
    "line",
    [
        "CONNECT [evil.test]:443 HTTP/1.1",
        "CONNECT [[allowed.test]]:443 HTTP/1.1",
        "CONNECT allowed.test :443 HTTP/1.1",
        "CONNECT allowed.test:443:443 HTTP/1.1",
        "CONNECT allowed.test:0443 HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT allowed.test HTTP/1.1",
        "CONNECT allowed.test: HTTP/1.1",
        "CONNECT allowed.test:-1 HTTP/1.1",
        "CONNECT allowed.test:65536 HTTP/1.1",
        "CONNECT allowed.test..:443 HTTP/1.1",
        "CONNECT 127.1:443 HTTP/1.1",
        "CONNECT 2130706433:443 HTTP/1.1",
        "CONNECT 0x7f.0.0.1:443 HTTP/1.1",
        "CONNECT allowed.test%00.evil.test:443 HTTP/1.1",
        "CONNECT user@allowed.test:443 HTTP/1.1",
        "CONNECT *.test:443 HTTP/1.1",
        "CONNECT http://allowed.test:443 HTTP/1.1",
        "CONNECT [fe80::1%eth0]:443 HTTP/1.1",
        "CONNECT\tallowed.test:443 HTTP/1.1",
        "CONNECT  allowed.test:443 HTTP/1.1",
        "CONNECT allowed.test:443  HTTP/1.1",
        "CONNECT allowed.test:443 HTTP/1.1 ",
        "CONNECT allowed.test:443 HTTP/2.0",
        "CONNECT allowed.test:443 AISB/1",
        "CONNECT allowed.test:443",
        "connect allowed.test:443 HTTP/1.1",
        "RESOLVE allowed.test HTTP/1.1",
        "GET / HTTP/1.1",
        "GET allowed.test/ HTTP/1.1",
        "GET https://allowed.test/ HTTP/1.1",
        "GET HTTP://allowed.test/ HTTP/1.1",
        "GET ftp://allowed.test/ HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://allowed.test\\@evil.test/ HTTP/1.1",
        "GET http://user@allowed.test/ HTTP/1.1",
        "GET http://allowed.test/x#y HTTP/1.1",
        "GET http://allowed.test:/ HTTP/1.1",
        "GET http://allowed.test:080/ HTTP/1.1",
        "GET http://[::1/ HTTP/1.1",
        "get http://allowed.test/ HTTP/1.1",
        "PRI * HTTP/2.0",
        "",
    ],
)
def test_what_is_no_request(line: str) -> None:
    with pytest.raises(BadRequest):
        parse_head(head(line, "Host: allowed.test"))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Host: a.test", "host: b.test"),
        ("Host: a.test", " folded: x"),
        ("Host: a.test", "Bad Name: x"),
        ("Host: a.test", "NoColon"),
        ("Host: a.test", ": x"),
        ("Host: a.test", "X: \x00"),
        ("Host: a.test", "X: a\rb"),
        ("Host: a.test", "X: a\nHost: b.test"),
        ("Host : a.test",),
        ("Host: a.test", *(f"X-{number}: x" for number in range(200))),
    ],
)
def test_headers_that_the_gate_does_not_take(headers: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        parse_head(head("GET http://a.test/ HTTP/1.1", *headers))


def test_a_head_ends_at_its_empty_line() -> None:
    whole = head("CONNECT a.test:443 HTTP/1.1")

    assert split_head(whole + b"\x16\x03") == (whole, b"\x16\x03")
    assert [split_head(whole[:count]) for count in range(len(whole))] == [None] * len(whole)


@pytest.mark.parametrize("data", [b"A" * LARGEST_HEAD, b"\x16\x03\x01", b"\r\n", b" CONNECT", b"get / HTTP/1.1"])
def test_what_cannot_become_a_head_is_refused_before_its_end(data: bytes) -> None:
    with pytest.raises(BadRequest):
        split_head(data)


@pytest.mark.parametrize(
    "head",
    [
        head("GET http://a.test/ HTTP/1.1", "Host: a.test", "X:" + " \t" * 16000 + "\x01"),
        head("GET http://a.test/ HTTP/1.1", "Host: a.test", "X" * 32000 + "\x01:"),
        head("G" + "-" * 32000 + " http://a.test/ HTTP/1.1"),
        head("GET http://" + "a" * 16000 + "?" * 16000 + "\x01 HTTP/1.1"),
        head("GET http://" + "a." * 16000 + ":80/ HTTP/1.1", "Host: a.test"),
        head("CONNECT " + "a" * 32000 + ":443 HTTP/1.1"),
        head("CONNECT [" + ":" * 32000 + "]:443 HTTP/1.1"),
        head("CONNECT a.test:" + "4" * 32000 + " HTTP/1.1"),
        head("GET http://a.test/" + "x" * 32000 + "# HTTP/1.1", "Host: a.test"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_whatever_it_says_a_head_is_read_in_a_moment(head: bytes) -> None:
    """One process reads those of every run of a gate: whoever makes it think keeps all of them waiting."""
    began = time.process_time()

    with pytest.raises(BadRequest):
        parse_head(head)

    assert time.process_time() - began < 0.1
