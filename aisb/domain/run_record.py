"""
The record of a run: what it was, how it ended, and whose its exit code is.

It holds no value of a variable and no argument of the command: either may be a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from aisb.domain.layers import Setting

# Of its form. A field that is added changes nothing; one that goes, or means something else, makes a new version.
VERSION = 1

# Whose the exit code is: the command's own; aisb's, which refused or could not begin; somebody's who ended the run; of
# its time, or of its memory, that was over; and where nobody was left to write it down.
COMMAND, AISB, SIGNAL, TIMEOUT, MEMORY, UNKNOWN = "command", "aisb", "signal", "timeout", "memory", "unknown"
ENDS = (COMMAND, AISB, SIGNAL, TIMEOUT, MEMORY, UNKNOWN)

# What stands there from the start on, until something else is known.
NOT_KNOWN = "nothing is known of its end"
KILLED = "aisb was killed; what was left of the run was taken away"

KEEP_RUNS, KEEP_DAYS = "keep-runs", "keep-days"
BUILT_IN_KEEP = {KEEP_RUNS: "200", KEEP_DAYS: "30"}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")


class End(NamedTuple):
    """How a run ended: the exit code, whose it is, and why in words."""

    exit: int
    by: str
    reason: str


class Keep(NamedTuple):
    """Of how many runs the record is kept, and for how many days; 0: of all, for ever."""

    runs: int = int(BUILT_IN_KEEP[KEEP_RUNS])
    days: int = int(BUILT_IN_KEEP[KEEP_DAYS])


KEEP_ALL = Keep(0, 0)
KEEP_BUILT_IN = Keep()


def ended_words(run: dict[str, Any]) -> str:
    """How a run of a list is: that it goes on, or its exit code, and whose that is where it is not the command's."""
    if run["state"] == "running":
        return "running"
    if run["exit"] is None:
        return "unknown"
    return f"exit {run['exit']}" + ("" if run["by"] == COMMAND else f" ({run['by']})")


def parse_keep(runs: Setting, days: Setting) -> Keep:
    """Raises UsageError for what is no number."""
    return Keep(_number(KEEP_RUNS, runs, "runs"), _number(KEEP_DAYS, days, "days"))


def _number(key: str, setting: Setting, unit: str) -> int:
    if not _NUMBER.fullmatch(setting.value):
        what = f"{setting.named(key)} {setting.value!r} is not a number of {unit}"
        raise UsageError(what, hint=f"write: {BUILT_IN_KEEP[key]}, or 0 to keep all")
    return int(setting.value)
