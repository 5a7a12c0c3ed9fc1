"""
Whose request squid deals with next: each run has a few in squid's hands at a time, however many connections it keeps.

squid is one thread, and in each of its turns deals with all that is ready: with hundreds of requests of one run
everybody else's would wait for all of them, at each of their own steps. squid deals with the next request of a
connection only when this one is judged. So a run that asks much is judged a few at a time, as quickly as squid gets
through with them, and the others find squid nearly free. As long as no other run asks, a run has more.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from gate.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

# While this is there, below the gate's directory, every line's turn has come: the bridge lets nothing new in then.
HURRY = "live/hurry"
# The doors of tunnels: one on a connection, and the bridge lets in so many of these a second already. At other doors
# whoever keeps a connection may ask for one after the other.
_OF_TUNNELS = (b" tls", b" hello", b" bump")
# So few are dealt with in some milliseconds.
AT_A_TIME = 16
# Of a run that is the only one to ask: enough to keep squid busy, and the line to servers that are far away.
ALONE_AT_A_TIME = 64
# How long a run that has asked is thought of.
REMEMBERED_SECONDS = 1.0
# What its connection asks next shows that a request is done. One after which nothing is asked, or that waits for
# its server, is no work for squid: it is counted for a while, so that so many of them can begin.
UNSEEN_A_SECOND = 100
# Of a run that is the only one to ask: as many as squid gets through with, each on a connection of its own.
ALONE_UNSEEN_A_SECOND = 500
# As many as a run has connections: what waits beyond that is of clients that have gone.
MOST_WAITING = Limits().at_once
# A run that has nothing waiting is as good as one that was never seen.
_MOST_RUNS = 256


class _Waiting(NamedTuple):
    connection: bytes
    line: bytes


class _Pace(NamedTuple):
    """How many of a run's requests squid deals with at a time, and how many of unseen end may begin in a second."""

    at_a_time: int
    unseen_a_second: int


_AMONG_OTHERS = _Pace(AT_A_TIME, UNSEEN_A_SECOND)
_ALONE = _Pace(ALONE_AT_A_TIME, ALONE_UNSEEN_A_SECOND)
_IN_A_HURRY = _Pace(sys.maxsize, 1)


class _Share:
    """One run's requests that squid deals with, by their connections, and its lines that wait, both as they came."""

    __slots__ = ("begun", "lines")

    def __init__(self) -> None:
        # Connection -> when, the oldest first.
        self.begun: dict[bytes, float] = {}
        self.lines: deque[_Waiting] = deque()

    def begin(self, connection: bytes, now: float) -> None:
        """squid goes on with what this connection asks."""
        self.begun.pop(connection, None)
        self.begun[connection] = now

    def wait_seconds(self, now: float, pace: _Pace) -> float:
        """How long it takes until another one may begin; 0 where one may."""
        while len(self.begun) >= pace.at_a_time:
            oldest = next(iter(self.begun))
            left = self.begun[oldest] + pace.at_a_time / pace.unseen_a_second - now
            if left > 0:
                return left
            del self.begun[oldest]
        return 0.0


class Turns:
    """Lines of squid's, each to be answered when the run that it is about has its turn."""

    def __init__(self) -> None:
        self._shares: dict[bytes, _Share] = {}
        self._last_run = b""
        self._alone_from = 0.0

    def take(self, line: bytes) -> bool | None:
        """Whether the line's turn has come; where it has not it is kept. None for one too many, which is not."""
        _, run, connection, rest = (*line.split(b" ", 3), b"", b"", b"")[:4]
        now = time.monotonic()
        if run != self._last_run:
            if self._last_run:
                self._alone_from = now + REMEMBERED_SECONDS
            self._last_run = run
        if rest.rstrip(b" ").endswith(_OF_TUNNELS):
            return True
        share = self._share(run)
        # It asks anew: what it asked before is done.
        share.begun.pop(connection, None)
        if len(share.lines) >= MOST_WAITING:
            return None
        if share.lines or share.wait_seconds(now, self._pace(now)):
            share.lines.append(_Waiting(connection, line))
            return False
        share.begin(connection, now)
        return True

    def due(self, *, hurry: bool = False) -> Iterator[bytes]:
        """The lines whose turn has come since; in a hurry all that wait."""
        now = time.monotonic()
        pace = _IN_A_HURRY if hurry else self._pace(now)
        for share in self._shares.values():
            while share.lines and not share.wait_seconds(now, pace):
                waiting = share.lines.popleft()
                share.begin(waiting.connection, now)
                yield waiting.line

    def wait_seconds(self) -> float | None:
        """How long it takes until the next one's turn comes; None where none waits."""
        now = time.monotonic()
        pace = self._pace(now)
        return min((share.wait_seconds(now, pace) for share in self._shares.values() if share.lines), default=None)

    def _pace(self, now: float) -> _Pace:
        return _ALONE if now >= self._alone_from else _AMONG_OTHERS

    def _share(self, run: bytes) -> _Share:
        if run not in self._shares and len(self._shares) >= _MOST_RUNS:
            self._shares = {run: share for run, share in self._shares.items() if share.lines}
        return self._shares.setdefault(run, _Share())
