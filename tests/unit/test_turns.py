"""Each run's requests in their turn."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from aisb.domain.egress import EgressPolicy, policy_json
from aisb.domain.rules import TREE, WEB_PORTS, NameEntry
from gate.judging import serve
from gate.turns import (
    ALONE_AT_A_TIME,
    AT_A_TIME,
    HURRY,
    MOST_WAITING,
    REMEMBERED_SECONDS,
    UNSEEN_A_SECOND,
    Turns,
    _Pace,
)

if TYPE_CHECKING:
    from pathlib import Path


def line_of(number: int, run: str, method: str = "GET", connection: int | None = None, *, door: str = "") -> bytes:
    port = 443 if method == "CONNECT" else 80
    door = door or ("tls" if method == "CONNECT" else "explicit")
    scheme = "-" if method == "CONNECT" else "http"
    source = number if connection is None else connection
    return f"{number} fd00::{run} {source} {method} a.test {port} {scheme} a.test - - - - - / {door}".encode()


def two_runs() -> Turns:
    """Of which each has asked lately."""
    turns = Turns()
    for run in ("1:1", "2:2", "1:1"):
        assert turns.take(line_of(9999, run, "CONNECT")) is True
    return turns


def test_a_run_that_asks_too_much_waits_and_the_others_do_not() -> None:
    turns = two_runs()
    begun = time.monotonic()
    taken = [turns.take(line_of(number, "1:1")) for number in range(AT_A_TIME + 200)]

    assert taken[:AT_A_TIME] == [True] * AT_A_TIME
    # A slow machine may take as long as some of them are counted for.
    assert taken.count(True) <= AT_A_TIME + UNSEEN_A_SECOND * (time.monotonic() - begun)
    assert turns.take(line_of(0, "2:2")) is True
    assert turns.take(line_of(0, "1:1", "CONNECT")) is True
    assert turns.wait_seconds() is not None


@pytest.mark.parametrize("door", ["explicit", "plain", "bumped", "explicit_json"])
def test_tunnels_asked_for_on_a_kept_connection_wait_like_any_request(door: str) -> None:
    """One after the other can be asked for there, and refused; at the doors of tunnels there is one on a connection."""
    turns = two_runs()
    lines = [line_of(number, "1:1", "CONNECT", door=door) + b" " for number in range(AT_A_TIME + 200)]

    assert sum(turns.take(line) is True for line in lines) < AT_A_TIME + 100
    assert [turns.take(line_of(0, "1:1", "CONNECT", door=other)) for other in ("tls", "hello", "bump")] == [True] * 3


def test_a_run_whose_requests_come_to_an_end_does_not_wait() -> None:
    """A connection that asks anew shows that squid is done with it: so many connections may go on for ever."""
    turns = two_runs()

    taken = [turns.take(line_of(number, "1:1", connection=number % AT_A_TIME)) for number in range(50 * AT_A_TIME)]

    assert taken == [True] * len(taken)


def test_a_run_that_is_the_only_one_to_ask_has_more() -> None:
    turns = two_runs()
    time.sleep(REMEMBERED_SECONDS)

    taken = [turns.take(line_of(number, "1:1")) for number in range(ALONE_AT_A_TIME)]

    assert taken == [True] * ALONE_AT_A_TIME


def test_where_one_comes_to_an_end_the_next_begins_at_once() -> None:
    turns = two_runs()
    first = [line_of(number, "1:1") for number in range(AT_A_TIME + 1)]
    begun = time.monotonic()
    taken = [turns.take(line) for line in first]
    again = turns.take(line_of(99, "1:1", connection=3))
    came = list(turns.due())

    # Unless this took so long that the first ones are counted no more.
    if time.monotonic() - begun < AT_A_TIME / UNSEEN_A_SECOND:
        assert (taken[-1], again, came) == (False, False, [first[-1]])


def test_what_waits_comes_in_its_order_and_nothing_is_lost() -> None:
    turns = two_runs()
    waiting = [line for number in range(3 * AT_A_TIME) if turns.take(line := line_of(number, "1:1")) is False]
    came: list[bytes] = []
    while (seconds := turns.wait_seconds()) is not None:
        time.sleep(seconds)
        came += turns.due()

    assert came == waiting


def test_no_more_wait_than_a_run_has_connections() -> None:
    turns = Turns()
    taken = [turns.take(line_of(number, "1:1")) for number in range(MOST_WAITING + 500)]

    assert taken[-1] is None
    assert taken.count(False) <= MOST_WAITING


def test_runs_that_have_gone_are_forgotten() -> None:
    turns = Turns()
    for number in range(3000):
        turns.take(line_of(0, f"{number:x}"))

    assert len(turns._shares) <= 256


def test_the_helper_answers_every_line_once_and_the_one_too_many_is_marked(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/policy.json").write_text(policy_json(EgressPolicy((NameEntry("a.test", TREE, WEB_PORTS),))))
    questions, asked = os.pipe()
    answered, answers = os.pipe()
    helper = threading.Thread(target=serve, args=(str(tmp_path), questions, answers))
    helper.start()
    count = 2 * ALONE_AT_A_TIME
    lines = [line_of(999, "2:2"), *(line_of(number, "1:1") for number in range(count)), line_of(998, "2:2")]
    os.write(asked, b"".join(line + b"\n" for line in lines))
    with os.fdopen(answered, "rb") as file:
        heard = [file.readline().split()[:3] for _ in lines]
    os.close(asked)
    helper.join(10)

    assert sorted(int(channel) for channel, *_ in heard) == [*range(count), 998, 999]
    assert {tuple(rest) for _, *rest in heard} == {(b"OK", b"log=ok")}
    assert int(heard[-1][0]) not in (998, 999)
    for descriptor in (questions, answers):
        os.close(descriptor)


def test_in_a_hurry_the_helper_keeps_no_line_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While squid reads its configuration what it has asked before would be refused."""
    # In turns the last of them would wait for longer than any machine takes for so few.
    patience = 30
    for pace in ("_AMONG_OTHERS", "_ALONE"):
        monkeypatch.setattr(f"gate.turns.{pace}", _Pace(patience, 1))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/policy.json").write_text(policy_json(EgressPolicy((NameEntry("a.test", TREE, WEB_PORTS),))))
    (tmp_path / HURRY).parent.mkdir()
    (tmp_path / HURRY).touch()
    questions, asked = os.pipe()
    answered, answers = os.pipe()
    helper = threading.Thread(target=serve, args=(str(tmp_path), questions, answers))
    helper.start()
    count = patience + 5
    begun = time.monotonic()
    lines = [line_of(999, "2:2"), *(line_of(number, "1:1") for number in range(count))]
    os.write(asked, b"".join(line + b"\n" for line in lines))
    with os.fdopen(answered, "rb") as file:
        heard = [file.readline().split()[1] for _ in lines]
    took = time.monotonic() - begun
    os.close(asked)
    helper.join(10)

    assert heard == [b"OK"] * len(lines)
    assert took < patience
    for descriptor in (questions, answers):
        os.close(descriptor)
