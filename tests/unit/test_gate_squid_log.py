"""squid's log lines, as squid 5.7 and 6.13 write them."""

from __future__ import annotations

import pytest

from aisb.render.gate_files import UNREACHED as UNREACHED_PAGES
from gate.identity import proxy_header, run_of
from gate.squid_log import LONGEST_PATH, UNREACHED, LogLine, parse_line


def line_of(text: str) -> LogLine | None:
    return parse_line(f"fd00::1a2b:3c4d 9 {text} 203.0.113.10".encode())


def unconnected(text: str) -> LogLine | None:
    return parse_line(f"fd00::1a2b:3c4d 9 {text} -".encode())


def expected(**changes: object) -> LogLine:
    line = LogLine(
        run="1a2b3c4d", connection=9, method="GET", host="allowed.test", port=80, path="/x", reason="", named="",
        failed="", is_last=False, bytes_out=81, bytes_in=276, seconds=0.003,
    )  # fmt: skip
    return line._replace(**changes)  # type: ignore[arg-type]  # each case names fields of the line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("GET allowed.test 80 /x?y=1 200 TCP_MISS - - - ok 81 276 3", expected()),
        ("GET allowed.test 80 /~x%20' 200 TCP_MISS - - - ok 81 276 3", expected(path="/~x%20'")),
        ("GET %5B2001:db8::10%5D 80 /x 200 TCP_MISS - - - ok 81 276 3", expected(host="2001:db8::10")),
        (
            "GET allowed.test 443 /x 503 NONE_NONE ERR_SECURE_CONNECT_FAIL - allowed.test ok 81 276 3",
            expected(port=443, failed="untrusted", is_last=True),
        ),
        (
            "GET evil.test 80 /x 403 TCP_DENIED 403:../denied - - not-listed 81 276 3",
            expected(host="evil.test", reason="not-listed", is_last=True),
        ),
        (
            "GET priv.test 80 /x 403 TCP_DENIED 403:../denied - - ok 81 276 3",
            expected(host="priv.test", reason="private-address", is_last=True),
        ),
        (
            "GET allowed.test 80 /x 403 TCP_DENIED 403:../denied - - - 81 276 3",
            expected(reason="bad-request", is_last=True),
        ),
        (
            "GET allowed.test 80 /squid-internal-mgr/info 403 TCP_DENIED 403:../denied - - ok 81 276 3",
            expected(path="/squid-internal-mgr/info", reason="bad-request", is_last=True),
        ),
        (
            "CONNECT allowed.test 443 - 200 NONE_NONE - splice allowed.test ok 81 0 3",
            expected(method="CONNECT", port=443, path="", bytes_in=0),
        ),
        (
            "CONNECT allowed.test 443 - 200 TCP_TUNNEL - splice allowed.test ok 81 276 3",
            expected(method="CONNECT", port=443, path="", is_last=True),
        ),
        (
            "CONNECT allowed.test 443 - 200 NONE_NONE - terminate evil.test name-mismatch 81 0 3",
            expected(
                method="CONNECT", port=443, path="", reason="name-mismatch", named="evil.test", is_last=True, bytes_in=0
            ),
        ),
        (
            "CONNECT allowed.test 443 - 200 NONE_NONE - terminate - not-tls 81 0 3",
            expected(method="CONNECT", port=443, path="", reason="not-tls", is_last=True, bytes_in=0),
        ),
        (
            "CONNECT allowed.test 443 - 200 NONE_NONE ERR_PROTOCOL_UNKNOWN peek - ok 81 0 3",
            expected(method="CONNECT", port=443, path="", reason="not-tls", is_last=True, bytes_in=0),
        ),
        ("GET allowed.test 80 /x 400 TCP_MISS - - - ok 81 276 3", expected()),
        ("GET allowed.test 80 /x 200 TCP_MISS ERR_READ_ERROR - - ok 81 276 3", expected(is_last=True)),
        ("GET allowed.test 80 /x 503 TCP_MISS - - - ok 81 276 3", expected()),
        (
            "GET allowed.test 80 /x 503 TCP_MISS ERR_CONNECT_FAIL - - ok 81 276 3",
            expected(failed="unanswered", is_last=True),
        ),
        (
            "CONNECT allowed.test 443 / 500 TCP_TUNNEL - splice allowed.test ok 81 276 3",
            expected(method="CONNECT", port=443, path="/", is_last=True),
        ),
        (
            "CONNECT allowed.test 443 / 503 NONE_NONE - splice allowed.test ok 0 0 0",
            expected(
                method="CONNECT", port=443, path="/", failed="unanswered", is_last=True, bytes_out=0, bytes_in=0, seconds=0
            ),
        ),
        (
            "CONNECT - - - 405 NONE_NONE - - - - 81 276 3",
            expected(method="CONNECT", host="", port=0, path="", reason="bad-request", is_last=True),
        ),
        (
            "- - - - 400 NONE_NONE - - - - 81 276 3",
            expected(method="", host="", port=0, path="", reason="bad-request", is_last=True),
        ),
    ],
)  # fmt: skip
def test_what_squid_says_about_a_request(text: str, line: LogLine) -> None:
    assert line_of(text) == line


def test_a_path_that_is_not_all_there_is_known_as_that() -> None:
    """squid cuts it at this width."""
    fits, cut = f"/{'~' * (LONGEST_PATH - 2)}", f"/{'~' * (LONGEST_PATH - 1)}"

    assert [line_of(f"GET allowed.test 80 {path} 200 TCP_MISS - - - ok 81 276 3") for path in (fits, cut)] == [
        expected(path=fits),
        expected(path=cut, is_cut=True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "GET allowed.test 80 /x 503 TCP_MISS_ABORTED ERR_DNS_FAIL - - ok 81 276 3",
        "GET allowed.test 80 /x 502 TCP_MISS ERR_READ_ERROR - - ok 81 276 3",
        "CONNECT allowed.test 22 - 500 NONE_NONE ERR_CANNOT_FORWARD - - ok 72 0 0",
        "CONNECT allowed.test 443 / 500 NONE_NONE ERR_CANNOT_FORWARD splice allowed.test ok 0 0 0",
        "CONNECT allowed.test 443 - 503 TCP_TUNNEL ERR_DNS_FAIL splice allowed.test ok 0 0 1",
    ],
)
def test_a_name_that_does_not_resolve_is_told_by_the_address_that_is_missing(text: str) -> None:
    """squid 5.7 has no error of its own for it."""
    line = unconnected(text)

    assert line is not None
    assert (line.reason, line.failed, line.is_last) == ("", "unresolved", True)


@pytest.mark.parametrize(
    "text",
    [
        "GET allowed.test 80 /x 504 TCP_MISS ERR_ONLY_IF_CACHED_MISS - - ok 81 276 3",
        "POST allowed.test 80 /x 501 NONE_NONE ERR_UNSUP_REQ - - ok 81 276 3",
        "OPTIONS allowed.test 80 / 501 TCP_MISS ERR_UNSUP_REQ - - ok 81 276 3",
    ],
)
def test_what_squid_itself_does_not_take_says_nothing_about_the_host(text: str) -> None:
    """Any agent can ask for it, of a host that resolves."""
    line = unconnected(text)

    assert line is not None
    assert (line.reason, line.failed) == ("bad-request", "")


def test_the_errors_that_are_about_the_host_are_those_that_have_a_page() -> None:
    assert set(UNREACHED_PAGES) == UNREACHED


def test_the_end_of_a_connection_on_which_nothing_was_asked_says_nothing() -> None:
    assert line_of("- - - - 0 NONE_NONE - - - - 517 0 0") is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"fd00::1 9 GET a.test 80 / 200 TCP_MISS - - - ok 81 276 3",
        b"fd00::1 9 GET a.test 80 / x 200 TCP_MISS - - - ok 81 276 3 -",
        b"203.0.113.1 9 GET a.test 80 / 200 TCP_MISS - - - ok 81 276 3 -",
        b"fd00::1 x GET a.test 80 / 200 TCP_MISS - - - ok 81 276 3 -",
        b"\xff\xfe",
    ],
)
def test_any_other_line_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        parse_line(raw)


def test_a_run_is_known_again_by_the_address_that_was_made_of_it() -> None:
    assert run_of("fd00::1a2b:3c4d") == "1a2b3c4d"
    assert run_of("fd00::") == "00000000"
    for address in ("fd00:1::1a2b:3c4d", "::1", "1.2.3.4", "nonsense"):
        with pytest.raises(ValueError):
            run_of(address)


def test_the_proxy_header_says_run_connection_and_the_name_that_was_meant() -> None:
    assert proxy_header("1a2b3c4d", 0x1234, 80, "a.test:80") == (
        b"\r\n\r\n\0\r\nQUIT\n" b"\x21\x21\x00\x30"
        b"\xfd" + bytes(11) + b"\x1a\x2b\x3c\x4d" + bytes(15) + b"\x01" b"\x12\x34\x00\x50"
        b"\x02\x00\x09a.test:80"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("GET allowed.test 80 /x 503 TCP_MISS ERR_CONNECT_FAIL - - ok 81 276 3", "upstream"),
        ("GET allowed.test 80 /x 407 TCP_MISS - - - ok 81 276 3", "upstream"),
        ("CONNECT allowed.test 22 - 403 TCP_TUNNEL - - - ok 81 276 3", "upstream"),
        ("CONNECT allowed.test 443 - 503 NONE_NONE ERR_CONNECT_FAIL splice allowed.test ok 81 0 3", "upstream"),
        ("GET allowed.test 443 /x 503 NONE_NONE ERR_SECURE_CONNECT_FAIL bump allowed.test ok 81 276 3", "untrusted"),
        ("GET allowed.test 80 /x 403 TCP_MISS - - - ok 81 276 3", ""),
        ("CONNECT allowed.test 22 - 200 TCP_TUNNEL - - - ok 81 276 3", ""),
        ("CONNECT allowed.test 443 - 500 TCP_TUNNEL - splice allowed.test ok 81 276 3", ""),
        ("CONNECT evil.test 22 - 403 TCP_DENIED 403:../denied - - not-listed 81 276 3", ""),
    ],
)
def test_behind_a_proxy_what_comes_to_nothing_does_so_there(text: str, failed: str) -> None:
    """But for what squid finds in TLS that it opened itself; a refusal of ours is none of the proxy's."""
    line = parse_line(f"fd00::1a2b:3c4d 9 {text} 203.0.113.12".encode(), proxied=True)

    assert line is not None
    assert line.failed == failed
