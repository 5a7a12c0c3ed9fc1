"""One line of a run's record as a value, and which of them somebody wants to see."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.domain.names import PROBED
from aisb.domain.verdict import CUT_OFF, Reason
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_AGO = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?Z?)?")
_FORMS = "write: 30m, 2h, 1d, or a time in UTC: 2026-01-31T09:30"
_NUMBER = (int, float)
# As the gate writes them (gate/audit.py).
_DENIED = b'"decision": "deny"'
_OF_PROBES = tuple(f'"host": "{host}"'.encode() for host in PROBED)
_CUT_OFF = f'"method": "{CUT_OFF}"'.encode(), f'"reason": "{Reason.LIMIT}"'.encode()


class Record(NamedTuple):
    """A decision as it was written down; what is not there, or not of its kind, is empty."""

    time: str
    host: str
    port: int
    method: str
    path: str
    allowed: bool
    reason: str
    rule: str
    origin: str
    # The entry that would have allowed it, where the gate knew one.
    add: str
    # The name that did not agree.
    named: str
    failed: str
    bytes_out: int
    bytes_in: int
    seconds: float

    @property
    def is_cut_off(self) -> bool:
        """Whether this is no decision: the record was full here."""
        return self.method == CUT_OFF and self.reason == Reason.LIMIT

    @property
    def is_probe(self) -> bool:
        """Whether this is what each start tries and must not reach: nobody's news."""
        return self.host in PROBED and not self.allowed


class Denials(NamedTuple):
    """How much of a record was denied; where the record was full there was more."""

    number: int
    is_whole: bool


def count_denials(lines: Iterable[bytes]) -> Denials:
    """
    As many of these as `read_record` takes for a denial that is somebody's news, and a hundred times as fast.

    A quote in what was asked for is escaped: no text of an agent's is one of these.
    """
    number, is_whole = 0, True
    for line in lines:
        if _DENIED not in line or any(probe in line for probe in _OF_PROBES):
            continue
        if all(part in line for part in _CUT_OFF):
            is_whole = False
        elif line.endswith(b"}\n"):
            number += 1
    return Denials(number, is_whole)


def read_record(line: str | bytes) -> Record | None:
    """The line as a value; None for one that is no record, such as the half line of a full disk."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("decision") not in ("allow", "deny"):
        return None
    return Record(
        time=_text(found, "time"),
        host=_text(found, "host"),
        port=int(_number(found, "port")),
        method=_text(found, "method"),
        path=_text(found, "path"),
        allowed=found["decision"] == "allow",
        reason=_text(found, "reason"),
        rule=_text(found, "rule"),
        origin=_text(found, "origin"),
        add=_text(found, "add"),
        named=_text(found, "named"),
        failed=_text(found, "failed"),
        bytes_out=int(_number(found, "bytes_out")),
        bytes_in=int(_number(found, "bytes_in")),
        seconds=_number(found, "seconds"),
    )


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _number(found: dict[str, Any], key: str) -> float:
    value = found.get(key)
    # JSON as Python reads it knows numbers that no count is: 1e999, NaN.
    return value if type(value) in _NUMBER and isinstance(value, _NUMBER) and 0 <= value < 1e15 else 0


def parse_since(text: str, now: datetime) -> str:
    """
    The time from which on records are wanted, as records are written: of two such texts the later time is the greater.

    Raises UsageError for what is no time.
    """
    try:
        moment = _moment(text, now)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {text!r} is no time", hint=_FORMS) from error
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _moment(text: str, now: datetime) -> datetime:
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["number"])})
    if not _TIME.fullmatch(text):
        raise ValueError("neither a time nor how long ago")
    return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)


def is_wanted(record: Record, *, denied: bool, since: str) -> bool:
    """Whether it is one of those that are asked for; that a record is full is always said."""
    if record.is_cut_off:
        return True
    return not (denied and record.allowed) and record.time >= since
