"""What one run may use of the gate, so that the others of the same policy keep theirs."""

from __future__ import annotations

import time
from typing import NamedTuple


class Limits(NamedTuple):
    """Connections at once, new connections and names a second, and a burst of them."""

    at_once: int = 1000
    a_second: float = 200.0
    burst: float = 1000.0


class Bucket:
    """Holds a number of tokens, refilled at a rate; what finds it empty has to wait."""

    __slots__ = ("_counted", "_limits", "_tokens")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tokens = limits.burst
        self._counted = time.monotonic()

    @property
    def wait_seconds(self) -> float:
        """How long it takes until an empty bucket has a token again."""
        return 1 / self._limits.a_second

    def claim(self) -> float:
        """
        Take the next token, which may be one that is still to come: the seconds until it is there.

        Who waits has a place in the queue, so nobody has to ask again and again.
        """
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._limits.a_second)

    def take(self) -> bool:
        """Take a token; False where there is none."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self) -> None:
        now = time.monotonic()
        earned = (now - self._counted) * self._limits.a_second
        self._tokens = min(self._limits.burst, self._tokens + earned)
        self._counted = now
