"""What passes between a session's client and its sandbox, call by call."""

from __future__ import annotations

import pytest

from aisb.domain.exchange import Ask, Exchange, Forged, NoRequest, ToClient, ToSandbox, check_ready
from aisb.domain.frames import Frame, Reader, head_of


def frame(body: bytes = b"", **header: object) -> Frame:
    return Frame({"jsonrpc": "2.0", **header}, body)


def opened(method: str, body: bytes = b"", **params: object) -> Exchange:
    """Request 7 of the client, which the sandbox knows as 1."""
    exchange = Exchange()
    exchange.has_sandbox = True
    steps = exchange.from_client(frame(body, id=7, method=method, params=params))
    assert steps == [ToSandbox(frame(body, id=1, method=method, params=params))]
    return exchange


def errors(steps: object) -> list[object]:
    assert isinstance(steps, list)
    return [step.frame.header["error"]["code"] for step in steps]


DONE = {"exitCode": 0, "signal": None, "ended": "exit", "durationMs": 3}


def test_a_command_is_passed_on_with_what_it_writes_and_how_it_ended() -> None:
    """Under the client's number on one side, under another on the sandbox's."""
    exchange = opened("exec", command=["x", "\udcff"], env={"A": "b", "C": None}, cwd="/w", stdin=True, timeoutMs=5)

    data = exchange.from_sandbox(frame(b"out", method="data", params={"id": 1, "stream": "stdout"}))
    assert data == [ToClient(frame(b"out", method="data", params={"stream": "stdout", "id": 7}))]
    assert exchange.from_sandbox(frame(id=1, result=DONE)) == [ToClient(frame(id=7, result=DONE))]
    # The number is free again, and stands for another request inside.
    (step,) = exchange.from_client(frame(id=7, method="stat", params={"path": "/"}))
    assert step == ToSandbox(frame(id=2, method="stat", params={"path": "/"}))


@pytest.mark.parametrize(
    ("method", "params", "body", "code"),
    [
        ("spawn", {}, b"", -32601),
        ("exec", {}, b"", -32602),
        ("exec", {"command": []}, b"", -32602),
        ("exec", {"command": "true"}, b"", -32602),
        ("exec", {"command": ["a\0b"]}, b"", -32602),
        ("exec", {"command": ["\ud800"]}, b"", -32602),
        ("exec", {"command": ["a"], "env": {"A=B": "c"}}, b"", -32602),
        ("exec", {"command": ["a"], "timeoutMs": 0}, b"", -32602),
        ("exec", {"command": ["a"], "timeoutMs": True}, b"", -32602),
        ("exec", {"command": ["a"], "shell": True}, b"", -32602),
        ("exec", {"command": ["a"]}, b"x", -32602),
        ("readFile", {"path": ""}, b"", -32602),
        ("readFile", {"path": "a", "offset": -1}, b"", -32602),
        ("writeFile", {"path": "a", "mode": 0o4755}, b"", -32602),
        ("access", {"path": "a", "mode": "q"}, b"", -32602),
        ("allow", {}, b"", -32602),
        ("allow", {"entry": "a.test", "check": 1}, b"", -32602),
    ],
)
def test_a_request_that_is_none_is_answered_and_goes_nowhere(
    method: str, params: dict[str, object], body: bytes, code: int
) -> None:
    exchange = Exchange()
    exchange.has_sandbox = True

    assert errors(exchange.from_client(frame(body, id=1, method=method, params=params))) == [code]
    assert not exchange.is_open(1)


@pytest.mark.parametrize(
    "header",
    [
        {"id": 1, "result": {}},
        {"id": 0, "method": "stat", "params": {}},
        {"id": "1", "method": "stat", "params": {}},
        {"id": True, "method": "stat", "params": {}},
        {"id": 1, "method": "stat", "params": []},
        {"id": 7, "method": "stat", "params": {"path": "/"}},
        {"method": "data", "params": {}},
        {"method": "cancel", "params": {"id": 7, "why": "x"}},
        {"jsonrpc": "1.0", "id": 1, "method": "stat", "params": {"path": "/"}},
        {"id": 1, "method": "stat", "params": {"path": "/"}, "more": 1},
    ],
)
def test_what_cannot_be_answered_ends_the_session(header: dict[str, object]) -> None:
    """No id, one that is open already, or no JSON-RPC."""
    with pytest.raises(NoRequest):
        opened("exec", command=["x"]).from_client(frame(**header))


def test_without_a_sandbox_nothing_is_passed_on() -> None:
    """Before the first, between the two, and after the last."""
    exchange = Exchange()
    assert errors(exchange.from_client(frame(id=1, method="stat", params={"path": "/"}))) == [-32002]

    exchange = opened("exec", command=["x"])
    assert errors(exchange.died()) == [-32001]
    assert errors(exchange.from_client(frame(id=8, method="stat", params={"path": "/"}))) == [-32002]
    assert exchange.from_client(frame(method="cancel", params={"id": 7})) == []


def test_there_are_no_more_than_256_open() -> None:
    exchange = opened("exec", command=["x"])
    for number in range(8, 263):
        (step,) = exchange.from_client(frame(id=number, method="stat", params={"path": "/"}))
        assert isinstance(step, ToSandbox)

    assert errors(exchange.from_client(frame(id=300, method="stat", params={"path": "/"}))) == [-32000]
    exchange.from_sandbox(frame(id=1, result=DONE))
    (step,) = exchange.from_client(frame(id=301, method="stat", params={"path": "/"}))
    assert isinstance(step, ToSandbox)


def test_aisb_answers_its_own_requests() -> None:
    """Also without a sandbox."""
    exchange = Exchange()

    asked: dict[str, object] = {"entry": "a.test", "check": True}
    assert exchange.from_client(frame(id=3, method="allow", params=asked)) == [Ask(3, "allow", asked)]
    assert exchange.from_client(frame(method="cancel", params={"id": 3})) == []
    assert exchange.refused(3, "no", {"hint": ""}).frame.header["error"] == {
        "code": -32020, "message": "no", "data": {"hint": ""},
    }  # fmt: skip
    assert not exchange.is_open(3)


def test_what_is_longer_for_the_sandbox_than_it_may_be_is_answered() -> None:
    """Our numbers and escapes may make it so; the session goes on."""
    exchange = opened("stat", path="x")

    assert errors([exchange.not_sent(1)]) == [-32602]
    assert not exchange.is_open(7)


def test_a_header_is_as_long_as_it_came_in_other_alphabets_too() -> None:
    """What is no text in a name of a file is an escape, and comes back."""
    header: dict[str, object] = {"a": "\u5b57" * 300_000 + "\udc80"}

    assert list(Reader().feed(head_of(header, 0))) == [Frame(header)]


def test_too_much_under_way_ends_that_request_alone() -> None:
    """It is answered at once, and cancelled inside; what the sandbox still says of it is for nobody."""
    exchange = opened("exec", command=["x"], stdin=True)
    exchange.from_client(frame(bytes(1 << 20), method="data", params={"id": 7}))

    steps = exchange.from_client(frame(b"x", method="data", params={"id": 7, "last": True}))

    assert steps[0] == ToSandbox(frame(method="cancel", params={"id": 1}))
    assert errors(steps[1:]) == [-32013]
    assert exchange.from_sandbox(frame(b"late", method="data", params={"id": 1, "stream": "stdout"})) == []
    assert exchange.from_sandbox(frame(id=1, result={**DONE, "ended": "cancel"})) == []


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("exec", frame(id=2, result=DONE)),
        ("exec", frame(id=7, result=DONE)),
        ("exec", frame(id=1, result={**DONE, "more": 1})),
        ("exec", frame(id=1, result={**DONE, "exitCode": 256})),
        ("exec", frame(id=1, result={**DONE, "signal": "\x1b[2J"})),
        ("exec", frame(b"x", id=1, result=DONE)),
        ("exec", frame(method="data", params={"id": 1, "stream": "file"})),
        ("exec", frame(method="data", params={"id": 1, "stream": ["stdout"]})),
        ("exec", frame(method="taken", params={"id": 1, "bytes": 1})),
        ("exec", frame(method="hello", params={"id": 1})),
        ("exec", frame(method="denied", params={"id": 1, "host": "a.test"})),
        ("exec", frame(id=1, error={"code": -32001, "message": "it died"})),
        ("stat", frame(id=1, error={"code": -32010, "message": "no"})),
        ("stat", frame(id=1, error={"code": -32010, "message": "no", "data": {"errno": "E\x1b[2J", "path": "x"}})),
        ("stat", frame(id=1, error={"code": -32010, "message": "no", "data": {"errno": "ENOENT", "path": "x" * 4097}})),
        ("stat", frame(id=1, error={"code": -32003, "message": "cancelled", "data": {"more": "x"}})),
        ("stat", frame(id=1, result={})),
        ("stat", frame(id=None, error={"code": -32700, "message": "x"})),
        ("readFile", frame(b"abc", id=1, result={"size": 3, "mtimeMs": 0, "bytes": 4})),
        ("readdir", frame(b'[["a", "door"]]', id=1, result={"more": False})),
        ("readdir", frame(b"{}", id=1, result={"more": False})),
        ("writeFile", frame(b"x", method="data", params={"id": 1, "stream": "file"})),
    ],
)
def test_what_no_tool_server_says_is_forged(method: str, said: Frame) -> None:
    params: dict[str, object] = {"command": ["x"]} if method == "exec" else {"path": "x"}
    with pytest.raises(Forged):
        opened(method, **params).from_sandbox(said)


def test_of_nothing_under_way_nothing_is_taken() -> None:
    """Not even no bytes: a flood of such words would cost the client and say nothing. More than was sent is forged too."""
    exchange = opened("exec", command=["x"], stdin=True)
    exchange.from_client(frame(b"abc", method="data", params={"id": 7}))

    taken = frame(method="taken", params={"id": 1, "bytes": 2})
    assert exchange.from_sandbox(taken) == [ToClient(frame(method="taken", params={"bytes": 2, "id": 7}))]
    for count in (0, -1, 2, True, 1.0, "1"):
        with pytest.raises(Forged):
            exchange.from_sandbox(frame(method="taken", params={"id": 1, "bytes": count}))


def test_words_of_the_sandbox_are_fit_for_a_terminal() -> None:
    data = {"errno": "ENOENT", "path": "x"}
    said = frame(id=1, error={"code": -32010, "message": "\x1b[2Jno", "data": data})

    (words,) = opened("stat", path="x").from_sandbox(said)

    assert words.frame.header["error"] == {"code": -32010, "message": "\\x1b[2Jno", "data": data}


def test_a_file_comes_in_pieces_that_add_up() -> None:
    exchange = opened("readFile", path="x")
    exchange.from_sandbox(frame(b"abc", method="data", params={"id": 1, "stream": "file"}))
    result = {"size": 5, "mtimeMs": -1, "bytes": 5}

    assert exchange.from_sandbox(frame(b"de", id=1, result=result)) == [ToClient(frame(b"de", id=7, result=result))]


def test_a_tool_server_begins_with_the_version_that_we_speak() -> None:
    check_ready(frame(method="ready", params={"protocol": 1}))
    for other in (frame(method="ready", params={"protocol": 2}), frame(b"x", method="ready", params={"protocol": 1})):
        with pytest.raises(Forged):
            check_ready(other)
