"""The modes of a sandbox's network."""

from __future__ import annotations

from aisb.errors import UsageError

ALLOW = "allow"
NONE = "none"
FULL = "full"
NET_MODES = (ALLOW, NONE, FULL)


def parse_net_mode(text: str, origin: str = "--net") -> str:
    """`allow`, `none` or `full`. Raises UsageError that begins with where the text was written."""
    if text not in NET_MODES:
        raise UsageError(f"{origin} {text!r} is not a mode", hint=_modes_for(origin))
    return text


def _modes_for(origin: str) -> str:
    """The modes that may stand there: everything open is asked for each time, by the flag."""
    return "write: allow, none or full" if origin == "--net" else "write: allow or none"
