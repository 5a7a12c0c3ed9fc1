"""What holds of the frames of a session, whatever bytes come and in whatever pieces."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aisb.domain.exchange import Exchange, Forged, NoRequest, ToClient, ToSandbox, check_entries, check_ready
from aisb.domain.frames import MOST_BODY_BYTES, MOST_HEADER_BYTES, Frame, Malformed, Reader, encode
from aisb.domain.session_calls import CALLS, TYPES

numbers = st.integers(-(2**53) + 1, 2**53 - 1)
texts = st.text(st.characters(codec="utf-8") | st.sampled_from("\udc80\udcff"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
frames = st.builds(Frame, st.dictionaries(texts, values, max_size=4), st.binary(max_size=300))
# Of the words that occur, so that much of what is made is nearly right.
words = st.sampled_from(
    ["exec", "readFile", "writeFile", "stat", "readdir", "mkdir", "access", "status", "data", "taken", "cancel", "ready",
     "stdout", "stderr", "file", "exit", "x"]
)  # fmt: skip
likely = values | words | st.integers(0, 5)
members = st.sampled_from(["id", "stream", "bytes", "last", "path", "command", "exitCode", "signal", "ended", "durationMs",
                           "size", "mtimeMs", "more", "code", "message", "data", "errno"])  # fmt: skip
objects = st.dictionaries(members, likely, max_size=5)
headers = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | likely},
    optional={"id": likely, "method": words | likely, "params": objects | likely, "result": objects | likely,
              "error": objects | likely},
)  # fmt: skip
likely_frames = st.builds(Frame, headers, st.binary(max_size=40))


@given(st.lists(frames, max_size=5), st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = Reader()

    came = [
        frame
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for frame in reader.feed(stream[start:end])
    ]

    assert came == sent
    assert reader.missing() == 0


@given(st.binary(max_size=400))
def test_of_any_bytes_come_frames_or_malformed_and_nothing_else(stream: bytes) -> None:
    try:
        for frame in Reader().feed(stream):
            assert json.loads(encode(frame)[8 : len(encode(frame)) - len(frame.body)]) == frame.header
    except Malformed:
        pass


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_what_is_too_long_is_refused_before_any_of_it_is_kept(header: int, body: int) -> None:
    """By its lengths alone: an agent that announces four gigabytes has none of them kept."""
    assume(not 2 <= header <= MOST_HEADER_BYTES or body > MOST_BODY_BYTES)

    with pytest.raises(Malformed):
        list(Reader().feed(header.to_bytes(4, "big") + body.to_bytes(4, "big")))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":9007199254740992}',
        b'{"a":1e999}',
        b'{"a":1%s}' % (b"0" * 5000),
        b"[" * 16 + b"]" * 16,
        b"[" * 100_000,
        b"[1]",
        b'{"a":1} x',
        b'{"a":"\x01"}',
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"a":%s}' % (b'{"b":' * 16 + b"1" + b"}" * 16),
    ],
    ids=["twice", "nan", "infinity", "large", "huge", "digits", "deep-list", "endless", "list", "more", "control", "bytes", "mark", "deep"],
)  # fmt: skip
def test_json_that_readers_do_not_agree_about_is_no_header(text: bytes) -> None:
    with pytest.raises(Malformed):
        list(Reader().feed(len(text).to_bytes(4, "big") + bytes(4) + text))


def opened(method: str = "exec", number: int = 7, **params: object) -> Exchange:
    """One request on its way; the sandbox knows it as 1."""
    exchange = Exchange()
    exchange.has_sandbox = True
    given = {"command": ["x"]} if method == "exec" else {"path": "x"}
    (step,) = exchange.from_client(request(number, method, {**given, **params}))
    assert isinstance(step, ToSandbox)
    assert step.frame.header["id"] == 1
    return exchange


def request(number: int, method: str, params: dict[str, object], body: bytes = b"") -> Frame:
    return Frame({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, body)


@given(st.sampled_from(sorted(CALLS)), st.lists(likely_frames, max_size=6))
def test_a_sandbox_that_says_anything_is_understood_or_forged(method: str, said: list[Frame]) -> None:
    """Never another error; and the client hears of nothing but its own request, at most once to the end."""
    exchange = opened(method)
    heard: list[ToClient] = []
    try:
        for frame in said:
            heard += exchange.from_sandbox(frame)
    except Forged:
        pass

    answers = [words for words in heard if "method" not in words.frame.header]
    for words in heard:
        params: Any = words.frame.header.get("params", {})
        assert 7 in (words.frame.header.get("id"), params.get("id"))
    assert len(answers) <= 1
    assert not answers or heard[-1] is answers[0]
    for frame in said:
        for check in (lambda found: check_ready(found), lambda found: check_entries(found.body)):
            with contextlib.suppress(Forged):
                check(frame)


@given(st.lists(likely_frames, max_size=6))
def test_a_client_that_says_anything_is_answered_or_refused(said: list[Frame]) -> None:
    exchange = opened()
    try:
        for frame in said:
            for step in exchange.from_client(frame):
                assert not isinstance(step, ToSandbox) or step.frame.header.get("method") in {*CALLS, "data", "cancel"}
    except NoRequest:
        pass


@given(st.lists(st.integers(0, 1 << 20), max_size=6), st.lists(st.integers(1, 1 << 20), max_size=6))
def test_never_more_than_a_mebibyte_is_under_way(sent: list[int], taken: list[int]) -> None:
    """Whatever a client sends at once; and a sandbox cannot take what was not sent."""
    exchange = opened(stdin=True)
    under_way = 0
    for count, took in zip(sent, [*taken, *([0] * 6)], strict=False):
        data = Frame({"jsonrpc": "2.0", "method": "data", "params": {"id": 7}}, bytes(count))
        steps = exchange.from_client(data)
        under_way += count
        if under_way > 1 << 20:
            assert [type(step) for step in steps] == [ToSandbox, ToClient]
            assert not exchange.is_open(7)
            return
        assert [type(step) for step in steps] == [ToSandbox]
        if 0 < took <= under_way:
            exchange.from_sandbox(Frame({"jsonrpc": "2.0", "method": "taken", "params": {"id": 1, "bytes": took}}))
            under_way -= took
        elif took:
            with pytest.raises(Forged):
                exchange.from_sandbox(Frame({"jsonrpc": "2.0", "method": "taken", "params": {"id": 1, "bytes": took}}))


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from(sorted(TYPES)))))
def test_entries_of_a_directory_are_taken_whatever_their_names(entries: list[tuple[str, str]]) -> None:
    assume(all("\0" not in name for name, _ in entries))

    check_entries(json.dumps(entries).encode())
