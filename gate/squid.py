"""
squid, as the bridge deals with it: called for each connection, and told to read the lists of live entries anew.

squid closes its doors for a moment while it reads its configuration again. Calls wait for that moment to pass, and
before it what has been called already is taken in, so that no connection is lost.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.names import PROBE_NAME, WEB_PORTS
from gate.calling import Call
from gate.files import write_whole
from gate.proof import PROBE_SECONDS, Proof, change_trials
from gate.turns import HURRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gate.ends import SquidEnd
    from gate.loop import Loop
    from gate.proof import ProbeListener

# Read by a process of squid's own user, which sends squid the signal: the bridge is another user, and may not.
RELOAD = "/run/squid/reload"
# Below the gate's directory, and not in what was rendered for it: a gate that starts again begins without them.
NAMES = "live/names"
PORTS = "live/ports"
# Each step is over as soon as it came out right; on a machine that is very busy that takes a while.
CONFIRM_SECONDS = 10.0
_AGAIN_SECONDS = 0.02


class Lists(NamedTuple):
    """What squid may hear of besides what its gate's policy lists: names as squid writes them, and ports."""

    names: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class LaterCall:
    """A call to squid that may have to wait before it is made."""

    def __init__(self, make: Callable[[], Call]) -> None:
        self._make = make
        self._call: Call | None = None
        self._is_cancelled = False

    def begin(self) -> None:
        """Make the call, unless it was given up meanwhile."""
        if not self._is_cancelled:
            self._call = self._make()

    def cancel(self) -> None:
        """Give it up."""
        self._is_cancelled = True
        if self._call is not None:
            self._call.cancel()


class Squid:
    """Calls squid, and has it read its lists."""

    def __init__(self, loop: Loop, base: str, probe: ProbeListener) -> None:
        self._loop = loop
        self._base = base
        self._probe = probe
        self._is_reading = False
        self._pipe = -1
        self._waiting: list[LaterCall] = []
        write_lists(base, Lists())
        with contextlib.suppress(FileNotFoundError):
            self._hurry(on=False)

    def call(self, loop: Loop, door: int, words: bytes, then: Callable[[SquidEnd | None, bytes], None]) -> LaterCall:
        """As `Call`, in the loop of the run that it is for."""
        later = LaterCall(lambda: Call(loop, door, words, then))
        if self._is_reading:
            self._waiting.append(later)
        else:
            later.begin()
        return later

    def read_anew(self, lists: Lists, run: str, port: int, then: Callable[[str], None]) -> None:
        """
        Have squid read these lists; `then("")` once a question on behalf of `run` shows that it has.

        The question is for the gate's own name at `port`, which only the helper's newest list of that run and squid's
        newest list of ports let through. Otherwise `then` is called with what is wrong.
        """
        self._is_reading = True
        deadline = time.monotonic() + CONFIRM_SECONDS
        try:
            self._hurry(on=True)
        except OSError as error:
            self._finish(f"the judge cannot be told: {error}", then)
            return

        def on_taken_in(fault: str) -> None:
            if fault:
                self._finish(fault, then)
                return
            try:
                write_lists(self._base, lists)
                self._send_signal()
            except OSError as error:
                self._finish(f"squid cannot be told: {error}", then)
                return
            self._confirm(run, port, deadline, then)

        # Each door takes its callers in one after the other: when the last one has its answer, nobody waits before it.
        Proof(self._loop, self._probe, CONFIRM_SECONDS, on_taken_in)

    def _confirm(self, run: str, port: int, deadline: float, then: Callable[[str], None]) -> None:
        def on_answer(fault: str) -> None:
            if not fault:
                Proof(self._loop, self._probe, CONFIRM_SECONDS, lambda fault: self._finish(fault, then))
            elif time.monotonic() > deadline:
                self._finish(fault, then)
            else:
                self._loop.after(_AGAIN_SECONDS, lambda: self._confirm(run, port, deadline, then))

        Proof(self._loop, self._probe, PROBE_SECONDS, on_answer, change_trials(run, port))

    def _finish(self, fault: str, then: Callable[[str], None]) -> None:
        self._is_reading = False
        with contextlib.suppress(OSError):
            self._hurry(on=False)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.begin()
        then(fault)

    def _hurry(self, *, on: bool) -> None:
        """Have the judge keep no line back, or keep to turns again."""
        path = f"{self._base}/{HURRY}"
        if on:
            write_whole(path, b"")
        else:
            os.unlink(path)

    def _send_signal(self) -> None:
        if self._pipe < 0:
            # Kept open: its reader takes the last writer's end for the end of all.
            self._pipe = os.open(RELOAD, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(self._pipe, b"\n")


def write_lists(base: str, lists: Lists) -> None:
    """Put the lists where squid's configuration says that they are."""
    os.makedirs(f"{base}/live", mode=0o755, exist_ok=True)
    # An ACL of squid's without a value is a warning: what is listed anyway takes no harm from standing here too.
    write_whole(f"{base}/{NAMES}", _lines(lists.names or (PROBE_NAME,)))
    write_whole(f"{base}/{PORTS}", _lines(map(str, lists.ports or WEB_PORTS)))


def _lines(items: Iterable[str]) -> bytes:
    return "".join(f"{item}\n" for item in items).encode("ascii")
