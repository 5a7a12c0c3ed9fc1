"""
How long the digest of a tag is believed.

A record is a time as text, `2026-11-30T02:00:00Z`: two of them compare as text does, so a warm start reads no calendar.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisb.domain.images import PinnedBase

TTL = "AISB_BASE_TTL_DAYS"
AUTO = "AISB_BASE_AUTO_UPDATE"
FOREVER = -1
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")

_DAYS = re.compile(r"-1|0|[1-9][0-9]{0,4}")
_DAY = 86400
# After a registry did not answer, it is left alone for so long: not every start shall wait for it.
_PATIENCE_SECONDS = 3600
_SWITCH = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class Freshness(NamedTuple):
    """For how many days a digest is believed, -1 for ever; and whether a run asks again by itself afterwards."""

    ttl_days: int = 7
    automatic: bool = True


def parse_freshness(environ: Mapping[str, str]) -> Freshness:
    """What the variables say. Raises UsageError for what is no number of days and neither on nor off."""
    days, switch = environ.get(TTL, ""), environ.get(AUTO, "").lower()
    if days and not _DAYS.fullmatch(days):
        raise UsageError(f"{TTL}={days!r} is not a number of days", hint="write: 7, or -1 to keep what is recorded")
    if switch not in _SWITCH:
        raise UsageError(f"{AUTO}={switch!r} is neither on nor off", hint="write 1 or 0")
    return Freshness(int(days) if days else Freshness().ttl_days, _SWITCH[switch])


def stamp(now: float) -> str:
    """A moment, in seconds since 1970, as records have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def is_stale(pin: PinnedBase, freshness: Freshness, now: float) -> bool:
    """
    Whether the record has outlived its time, or comes from the future. What was never confirmed is stale at once.

    With a time of -1 nothing is, nor what somebody went back to.
    """
    if freshness.ttl_days == FOREVER or pin.held:
        return False
    return pin.unpinned or not stamp(now - freshness.ttl_days * _DAY) <= pin.time <= stamp(now)


def is_due(pin: PinnedBase, freshness: Freshness, now: float) -> bool:
    """Whether the registry is to be asked again now."""
    lately = stamp(now - _PATIENCE_SECONDS) < pin.tried <= stamp(now)
    return freshness.automatic and is_stale(pin, freshness, now) and not lately


def stale_words(pin: PinnedBase, now: float) -> str:
    """What whoever runs on a record that has outlived its time has to know."""
    if pin.unpinned:
        return f"{pin.reference} is UNPINNED: no registry has confirmed the image of that name in podman's store"
    return f"{pin.reference} was last looked up {age(pin, now)}; what it stood for then is used"


def age(pin: PinnedBase, now: float) -> str:
    """How long ago the record was confirmed, in words."""
    # Only where there is something to be said.
    from datetime import UTC, datetime

    try:
        confirmed = datetime.strptime(pin.time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return "an unknown time ago"
    days, hours = int(now - confirmed) // _DAY, int(now - confirmed) // 3600
    if hours < 1:
        return "less than an hour ago"
    return f"{days} days ago" if days > 1 else f"{hours} hours ago" if hours > 1 else "an hour ago"
