"""A length of time as a person writes it."""

from __future__ import annotations

import re

from aisb.errors import UsageError

_FORM = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_SECONDS = 30 * 86400


def parse_duration(text: str, flag: str) -> int:
    """The seconds of `90s`, `15m`, `2h` or `1d`. Raises UsageError with the flag that it was given to."""
    match = _FORM.fullmatch(text)
    if not match:
        raise UsageError(f"{flag} {text!r} is no length of time", hint=f"write: {flag} 90s, 15m, 2h or 1d")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > LONGEST_SECONDS:
        raise UsageError(f"{flag} {text} is longer than 30 days", hint="leave it out: until the run ends")
    return seconds
