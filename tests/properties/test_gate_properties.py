"""What holds for everything that a sandbox can send."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.hosts import is_address
from aisb.domain.rules import EXACT, TREE, WEB_PORTS, Engine, NameEntry
from gate.heads import LARGEST_HEAD, BadRequest, parse_head, split_head
from gate.judging import answer
from gate.proof import hello, nonce_in
from gate.refusal import Refusal, response_of
from gate.squid_log import parse_line

ENGINE = Engine([NameEntry("allowed.test", TREE, WEB_PORTS), NameEntry("db.test", EXACT, (5432,))])

pieces = st.sampled_from([
    b"CONNECT ", b"GET ", b"RESOLVE ", b"allowed.test", b"evil.test", b"203.0.113.11", b"[::1]", b":443", b":80", b"http://",
    b"/x", b" HTTP/1.1", b" AISB/1", b"\r\n", b"\r\n\r\n", b"Host: ", b"\n", b" ", b"\t", b"@", b"\\", b"%00", b"\0",
    b"\xff", b"#", b"..",
])  # fmt: skip
anything = st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=16).map(b"".join))


@given(anything)
def test_whatever_is_sent_is_a_request_or_refused_or_not_yet_whole(data: bytes) -> None:
    try:
        parts = split_head(data)
        request = parse_head(parts[0]) if parts else None
    except BadRequest:
        return
    if parts is None or request is None:
        assert b"\r\n\r\n" not in data
        assert len(data) < LARGEST_HEAD
        return
    assert b"".join(parts) == data
    if request.method == "RESOLVE":
        return
    assert 1 <= request.port <= 65535
    assert request.host == request.host.lower()
    assert is_address(request.host) or not set(request.host) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@given(anything)
def test_a_whole_head_and_its_pieces_come_to_the_same(data: bytes) -> None:
    """However a head arrives, in one piece or byte by byte, the verdict on it is the same."""

    def outcome(limit: int) -> object:
        try:
            return split_head(data[:limit])
        except BadRequest as error:
            return str(error)

    whole = outcome(len(data))
    early = [outcome(count) for count in range(len(data))]
    decided = next((result for result in early if result is not None), whole)
    if isinstance(decided, str):
        assert whole == decided
    elif decided is not None:
        assert isinstance(decided, tuple)
        assert isinstance(whole, tuple)
        assert whole[0] == decided[0]


@given(st.one_of(st.binary(max_size=120), st.lists(pieces, max_size=12).map(b" ".join)))
def test_squids_helper_answers_each_line_with_one_line_or_none(rest: bytes) -> None:
    line = b"5 fd00::1 9 " + rest.replace(b"\n", b"")
    said = answer(lambda _: ENGINE, line)

    assert said.startswith((b"5 OK ", b"5 ERR "))
    assert said.endswith(b"\n")
    assert said.count(b"\n") == 1


@given(st.binary(max_size=200))
def test_a_line_of_squids_log_is_a_value_or_an_error(raw: bytes) -> None:
    try:
        line = parse_line(raw)
    except ValueError:
        return
    assert line is None or len(line.run) == 8


@given(st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_an_answer_is_one_http_response_whatever_is_in_it(host: str, path: str, wants_json: bool) -> None:
    response = response_of(Refusal("1a2b3c4d", host, 80, "GET", path, "not-listed", add=host), wants_json)

    head, _, body = response.partition(b"\r\n\r\n")
    lines = head.decode("ascii").split("\r\n")
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert lines[2] == f"Content-Length: {len(body)}"
    if wants_json:
        assert json.loads(body)["host"] == host
    else:
        assert all(line.isprintable() for line in body.decode("ascii").split("\n"))


@given(st.binary(min_size=16, max_size=16))
def test_the_probes_nonce_is_found_again_in_its_hello_and_its_request(nonce: bytes) -> None:
    assert nonce_in(hello("ok.aisb.internal", nonce)) == nonce
    assert nonce_in(f"GET /{nonce.hex()} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) == nonce
    assert nonce_in(f"GET http://ok.aisb.internal/{nonce.hex()} HTTP/1.1\r\n\r\n".encode()) == nonce


@given(st.binary(max_size=80))
def test_what_the_probe_listener_hears_from_others_harms_nothing(data: bytes) -> None:
    assert isinstance(nonce_in(data), bytes)
