"""Whether the user of a run hears that its gate has ended."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from aisb.effects.gate_watch import LOST, gate_watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[socket.socket]:
    """What listens where a gate would."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/ctl.sock")
        listener.listen()
        listener.settimeout(60)
        yield listener


def test_a_gate_that_ends_is_told_once_and_while_the_run_goes_on(gate: socket.socket, tmp_path: Path) -> None:
    heard = threading.Event()

    with gate_watched(str(tmp_path), lambda _text: heard.set()) as told:
        accepted, _ = gate.accept()
        assert not heard.is_set()
        accepted.close()
        assert heard.wait(60)

    assert told == [LOST]


def test_one_that_is_gone_already_is_told(tmp_path: Path) -> None:
    heard = threading.Event()

    with gate_watched(str(tmp_path), lambda _text: heard.set()) as told:
        assert heard.wait(60)

    assert told == [LOST]


def test_one_that_stays_is_not_told_nor_waited_for(gate: socket.socket, tmp_path: Path) -> None:
    """Also where it does not even take the connection in."""
    with gate_watched(str(tmp_path), print) as told:
        pass

    assert told == []


def test_a_run_without_a_gate_has_none_to_lose() -> None:
    with gate_watched("", print) as told:
        pass

    assert told == []
