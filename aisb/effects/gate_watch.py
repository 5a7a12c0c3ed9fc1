"""Hear, while a run goes on, when its gate ends: nothing outside is reached then, and nobody else says why."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aisb.effects.gate import ANSWER_SECONDS
from aisb.effects.signals import left_to_others

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOST = "the gate of this run has ended, and nothing outside is reached any more; a new run has a new gate"


@contextmanager
def gate_watched(directory: str, tell: Callable[[str], None]) -> Iterator[list[str]]:
    """
    Tell, from another thread, when the gate in this directory ends while the block runs; "" is no gate.

    The list holds afterwards what was told. A gate that hangs has not ended: `aisb gate status` knows of it.
    """
    told: list[str] = []
    if not directory:
        yield told
        return
    stop, end = os.pipe2(os.O_CLOEXEC)

    def wait() -> None:
        if _has_ended(f"{directory}/ctl.sock", stop):
            told.append(LOST)
            tell(LOST)

    thread = threading.Thread(target=wait, daemon=True)
    with left_to_others():
        thread.start()
    try:
        yield told
    finally:
        os.close(end)
        thread.join()
        os.close(stop)


def _has_ended(path: str, stop: int) -> bool:
    """Whether the gate hangs up before the other end of `stop` is closed. It never speaks unasked."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_SECONDS)
        try:
            line.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
        return line.fileno() in select.select([line.fileno(), stop], [], [])[0]
