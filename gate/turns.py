"""
Whose request squid deals with next: each run has so many a second, however many connections it keeps.

squid is one thread, takes requests as they come, and reads on where one connection has sent many. It deals
with the next one of a connection only when this one is judged: so a run that asks too much is judged later,
in its turn, and the others find squid free.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from gate.limits import Bucket, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of tunnels the bridge lets in so many a second already.
_TUNNEL = b"CONNECT"
REQUESTS = Limits(a_second=100.0, burst=50.0)
# As many as a run has connections: what waits beyond that is of clients that have gone.
MOST_WAITING = REQUESTS.at_once
# A run that has nothing waiting and a full bucket is as good as one that was never seen.
_MOST_RUNS = 256


class _Waiting(NamedTuple):
    due: float
    line: bytes


class _Share:
    """One run's tokens, and its lines that wait, in the order in which they came."""

    __slots__ = ("bucket", "lines")

    def __init__(self) -> None:
        self.bucket = Bucket(REQUESTS)
        self.lines: deque[_Waiting] = deque()


class Turns:
    """Lines of squid's, each to be answered when the run that it is about has its turn."""

    def __init__(self) -> None:
        self._shares: dict[bytes, _Share] = {}

    def take(self, line: bytes) -> bool | None:
        """Whether the line's turn has come; where it has not it is kept. None for one too many, which is not."""
        _, _, rest = line.partition(b" ")
        run, _, rest = rest.partition(b" ")
        if rest.startswith(_TUNNEL + b" "):
            return True
        share = self._share(run)
        if len(share.lines) >= MOST_WAITING:
            return None
        seconds = share.bucket.claim()
        if seconds:
            share.lines.append(_Waiting(time.monotonic() + seconds, line))
        return not seconds

    def due(self) -> Iterator[bytes]:
        """The lines whose turn has come since."""
        now = time.monotonic()
        for share in self._shares.values():
            while share.lines and share.lines[0].due <= now:
                yield share.lines.popleft().line

    def wait_seconds(self) -> float | None:
        """How long it takes until the next one's turn comes; None where none waits."""
        due = [share.lines[0].due for share in self._shares.values() if share.lines]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _share(self, run: bytes) -> _Share:
        if run not in self._shares and len(self._shares) >= _MOST_RUNS:
            self._shares = {run: share for run, share in self._shares.items() if share.lines}
        return self._shares.setdefault(run, _Share())
