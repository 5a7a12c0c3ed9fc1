"""The modes of a sandbox's network."""

from __future__ import annotations

from aisb.errors import UsageError

ALLOW = "allow"
NONE = "none"
FULL = "full"
NET_MODES = (ALLOW, NONE, FULL)
# How a sandbox is closed under `allow` without a gate: its names are pinned to the addresses that they have now.
PINNED = "pinned"

# Addresses under which slirp4netns (10.0.2.x, fd00::x) and pasta (169.254.1.x) show the host inside.
HOST_V4 = ("10.0.2.2", "10.0.2.3", "169.254.1.0/24")
HOST_V6 = ("fd00::2", "fd00::3")


def parse_net_mode(text: str, origin: str = "--net") -> str:
    """`allow`, `none` or `full`. Raises UsageError that begins with where the text was written."""
    if text not in NET_MODES:
        raise UsageError(f"{origin} {text!r} is not a mode", hint=_modes_for(origin))
    return text


def _modes_for(origin: str) -> str:
    """The modes that may stand there: everything open is asked for each time, by the flag."""
    return "write: allow, none or full" if origin == "--net" else "write: allow or none"
