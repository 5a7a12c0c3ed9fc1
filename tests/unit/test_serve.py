"""A client that leaves while there is no sandbox yet."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

# A start that never ends by itself; one that takes in no signal for a while, as a gate's does.
START = """
import sys, threading
from aisb.cli.serve import lent
from aisb.effects.serve import Service
from aisb.effects.signals import interrupt_postponed

def start():
    if sys.argv[1] == "postponed":
        with interrupt_postponed():
            while not service.is_over():
                threading.Event().wait(0.01)
            threading.Event().wait(0.2)
    threading.Event().wait()

service = Service(lambda *_: {}, lambda *_: None)
sys.exit(lent(service, start))
"""
FRAME = b"\0\0\0\x02\0\0\0\0{}"
NO_FRAME = (2, -32700)
END = (0, None)


class Ended(NamedTuple):
    """The exit code, and that of the error frame."""

    code: int
    error: int | None


@pytest.mark.parametrize("before", ["", "trap '' INT; "], ids=["", "no ^C"])
@pytest.mark.parametrize("how", ["plain", "postponed"])
@pytest.mark.parametrize(
    ("said", "end"),
    [
        (b"", END), (b"\0\0\0", END), (FRAME[:9], END), (FRAME, END),
        (b"hello\n", NO_FRAME), (b"GET / HTTP/1.1\r\n\r\n", NO_FRAME), (FRAME + b"hello\n", NO_FRAME),
    ],
)  # fmt: skip
def test_the_end_of_a_client_is_the_same_before_there_is_a_sandbox(
    before: str, how: str, said: bytes, end: tuple[int, int | None]
) -> None:
    """Also where our caller ignores ^C, as a shell's `&` does: no end is a death by a signal of our own."""
    command = [sys.executable, "-c", START, how]
    done = subprocess.run(
        ["sh", "-c", f'{before}exec "$@"', "sh", *command], input=said, capture_output=True, check=False, timeout=20
    )
    error = json.loads(done.stdout[8:])["error"]["code"] if done.stdout else None

    assert Ended(done.returncode, error) == end
