"""
The record of a run: one JSON line a decision, in a file that the caller owns.

Written with ASCII escapes only, so that showing it in a terminal does nothing. Bounded: a run that
fills its record loses later lines, and the record says so once.
"""

from __future__ import annotations

import json
import os
import time
from typing import NamedTuple

from aisb.domain.rules import CUT_OFF, Reason

LARGEST_AUDIT = 16 * 1024 * 1024
_LONGEST_TEXT = 1024


class Decision(NamedTuple):
    """What was asked, what was answered, and what it came to."""

    host: str
    port: int
    method: str
    path: str
    allowed: bool
    reason: str
    rule: str
    # Which of its host's rules that is, from 1; 0 for an entry, and where none decided.
    rule_index: int = 0
    # Where that was written: a flag, or file:line.
    origin: str = ""
    # The entry that would have allowed it.
    add: str = ""
    # The other name, where two did not agree.
    named: str = ""
    # Why nothing came of what was allowed.
    failed: str = ""
    bytes_out: int = 0
    bytes_in: int = 0
    seconds: float = 0.0


class Audit:
    """Appends to one run's file, and counts."""

    def __init__(self, path: str, run: str, largest: int = LARGEST_AUDIT) -> None:
        # Never through a link: the directory is the host's, but a name in it is cheap to check.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._run = run
        self._left = largest - os.fstat(self._descriptor).st_size
        self.allowed = 0
        self.denied = 0

    def write(self, decision: Decision) -> None:
        """Record one decision, now."""
        if decision.allowed:
            self.allowed += 1
        else:
            self.denied += 1
        if self._left <= 0:
            return
        line = self._line(decision)
        if len(line) > self._left:
            line = self._line(Decision("", 0, CUT_OFF, "", allowed=False, reason=Reason.LIMIT, rule=""))
            self._left = 0
        self._left -= len(line)
        try:
            is_whole = os.write(self._descriptor, line) == len(line)
        except OSError:
            is_whole = False
        if not is_whole:
            # A full disk costs the record, not the gate. After half a line nothing more: it would be one with the next.
            self._left = 0

    def close(self) -> None:
        """No more lines."""
        os.close(self._descriptor)

    def _line(self, decision: Decision) -> bytes:
        record = {
            "time": _utc_now(),
            "run": self._run,
            "host": decision.host[:_LONGEST_TEXT],
            "port": decision.port,
            "method": decision.method[:_LONGEST_TEXT],
            "path": decision.path.partition("?")[0][:_LONGEST_TEXT],
            "decision": "allow" if decision.allowed else "deny",
            "reason": decision.reason,
            "rule": decision.rule,
            **({"rule_index": decision.rule_index} if decision.rule_index else {}),
            **({"origin": decision.origin[:_LONGEST_TEXT]} if decision.origin else {}),
            **({"add": decision.add} if decision.add else {}),
            **({"named": decision.named[:_LONGEST_TEXT]} if decision.named else {}),
            **({"failed": decision.failed} if decision.failed else {}),
            "bytes_out": decision.bytes_out,
            "bytes_in": decision.bytes_in,
            "seconds": round(decision.seconds, 3),
        }
        # json escapes all that is not printable ASCII but this one.
        return json.dumps(record).replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def _utc_now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
