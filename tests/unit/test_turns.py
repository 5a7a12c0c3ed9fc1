"""Each run's requests in their turn."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from aisb.domain.egress import EgressPolicy, policy_json
from aisb.domain.rules import TREE, WEB_PORTS, NameEntry
from gate.judging import serve
from gate.turns import MOST_WAITING, REQUESTS, Turns

if TYPE_CHECKING:
    from pathlib import Path

BURST = int(REQUESTS.burst)


def line_of(number: int, run: str, method: str = "GET") -> bytes:
    port = 443 if method == "CONNECT" else 80
    door = "tls" if method == "CONNECT" else "explicit"
    scheme = "-" if method == "CONNECT" else "http"
    return f"{number} fd00::{run} {method} a.test {port} {scheme} a.test - - - / {door}".encode()


def test_a_run_that_asks_too_much_waits_and_the_others_do_not() -> None:
    turns = Turns()
    begun = time.monotonic()
    taken = [turns.take(line_of(number, "1:1")) for number in range(BURST + 200)]

    assert taken[:BURST] == [True] * BURST
    assert taken.count(True) <= BURST + 1 + (time.monotonic() - begun) * REQUESTS.a_second
    assert turns.take(line_of(0, "2:2")) is True
    assert turns.take(line_of(0, "1:1", "CONNECT")) is True
    assert turns.wait_seconds() is not None


def test_what_waits_comes_in_its_order_and_nothing_is_lost() -> None:
    turns = Turns()
    waiting = [line for number in range(BURST + 20) if turns.take(line := line_of(number, "1:1")) is False]
    came: list[bytes] = []
    while (seconds := turns.wait_seconds()) is not None:
        time.sleep(seconds)
        came += turns.due()

    assert came == waiting


def test_no_more_wait_than_a_run_has_connections() -> None:
    turns = Turns()
    taken = [turns.take(line_of(number, "1:1")) for number in range(MOST_WAITING + BURST + 500)]

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
    lines = [line_of(number, "1:1") for number in range(BURST + 10)] + [line_of(999, "2:2")]
    os.write(asked, b"".join(line + b"\n" for line in lines))
    with os.fdopen(answered, "rb") as file:
        heard = [file.readline().split()[:3] for _ in lines]
    os.close(asked)
    helper.join(10)

    assert sorted(int(channel) for channel, *_ in heard) == [*range(BURST + 10), 999]
    assert {tuple(rest) for _, *rest in heard} == {(b"OK", b"log=ok")}
    assert int(heard[-1][0]) != 999
    for descriptor in (questions, answers):
        os.close(descriptor)
