"""What `aisb update --check` finds of each thing that an image is made of."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.answers import answer_text
from aisb.domain.images import version_key
from aisb.domain.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

CURRENT = "current"
NEWER = "newer"
UNKNOWN = "unknown"
ITEMS = ("base", "packages", "node", "harness", "squid")

# sysexits has no word for it: something is there to be fetched.
_CODE_NEWER = 10
_CODE_UNKNOWN = 69
_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}")


class Found(NamedTuple):
    """
    One thing: what is in the image, what is to be had, and why nobody knows.

    `state` is `current`, `newer` or `unknown`.
    """

    state: str
    now: str = ""
    newest: str = ""
    reason: str = ""


def compared(now: str, newest: str, *, reason: str = "") -> Found:
    """What two names of a version come to. An empty one is unknown, for the reason."""
    if not now or not newest:
        return Found(UNKNOWN, now, newest, reason)
    return Found(CURRENT if now == newest else NEWER, now, newest)


def exit_code(found: Iterable[Found]) -> int:
    """10 where anything is newer, else 69 where anything is unknown, else 0."""
    states = {item.state for item in found}
    return _CODE_NEWER if NEWER in states else _CODE_UNKNOWN if UNKNOWN in states else 0


def as_json(found: dict[str, Found]) -> str:
    """An object for each thing."""
    return answer_text({"found": {name: item._asdict() for name, item in found.items()}})


def lines(found: dict[str, Found]) -> list[str]:
    """A line a thing, for a person."""
    return [f"{name:<9} {item.state:<8} {_told(item)}".rstrip() for name, item in found.items()]


def _told(item: Found) -> str:
    if item.state == UNKNOWN:
        return item.reason
    if item.state == CURRENT:
        return item.now
    # Of packages each says itself what it was and will be.
    return f"{item.now}{': ' if ' -> ' in item.newest else ' -> '}{item.newest}"


def newest_version(text: str, now: str) -> str:
    """
    The newest of the versions in what `npm view --json` printed, a text or a list of them; "" where there is none.

    Never an older one than what is there: a mirror may lag behind.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    listed = document if isinstance(document, list) else [document]
    versions = [version for version in listed if isinstance(version, str) and _VERSION.fullmatch(version)]
    return max([*versions, now], key=version_key) if versions else ""


class Looked(NamedTuple):
    """
    What a throw-away container found: packages with a newer version, the gate's squid as apt has it now, what npm
    says of each package that it was asked for, and why there is no answer.
    """

    upgrades: tuple[str, ...] = ()
    has_lists: bool = False
    squid: str = ""
    latest: dict[str, str] = {}  # noqa: RUF012  # a tuple's default, and nobody writes to it
    trouble: str = ""


# The image's tools may be anybody's: what is shown of their words can do nothing to a terminal.
_UPGRADE = re.compile(r"aisb-upgrade: ([!-~]+) ([!-~]+) ([!-~]+)")
_SQUID = re.compile(r"aisb-squid: ([!-~]+)")
_LATEST = re.compile(r"aisb-latest: (\S+) (.+)")
_FAIL = re.compile(r"aisb-fail: (.+)")


def parse_looked(text: str) -> Looked:
    """The marked lines of what the container printed; everything else is the tools' own."""
    upgrades, latest = [], {}
    squid = trouble = ""
    for line in text.splitlines():
        if match := _UPGRADE.fullmatch(line):
            upgrades.append(f"{match[1]} {match[2]} -> {match[3]}")
        elif match := _SQUID.fullmatch(line):
            squid = match[1]
        elif match := _LATEST.fullmatch(line):
            latest[match[1]] = match[2]
        elif match := _FAIL.fullmatch(line):
            trouble = trouble or printable(match[1])
    return Looked(tuple(upgrades), "aisb-lists: read" in text.splitlines(), squid, latest, trouble)
