"""
How much of the machine a sandbox may take, in podman's own words.

A cap is a number that somebody wrote, or the one that is built in; 0 is no cap. A project's file may lower one, and
what it says above the user's is cut down to that.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.duration import parse_duration
from aisb.domain.layers import added, capped
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisb.domain.layers import Layer, Setting

MEMORY = "memory"
CPUS = "cpus"
PIDS = "pids-limit"
SHM = "shm-size"
ULIMIT = "ulimit"
TIMEOUT = "timeout"

# For a machine that somebody works at meanwhile.
BUILT_IN_CAPS = {MEMORY: "8g", CPUS: "4", PIDS: "4096", SHM: "1g"}
# What a project's file may lower.
PROJECT_CAPS = (*BUILT_IN_CAPS, TIMEOUT)
# Which of the kernel's controllers keeps which cap. The others need none.
CONTROLLERS = {MEMORY: "memory", CPUS: "cpu", PIDS: "pids"}

_SIZE = re.compile(r"(0|[1-9][0-9]{0,15})([bkmg]?)")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CPUS = re.compile(r"(?:0|[1-9][0-9]{0,3})(?:\.[0-9]{1,3})?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_ULIMIT = re.compile(r"([a-z]+)=(-1|[0-9]{1,18})(?::(-1|[0-9]{1,18}))?")
_ULIMITS = (
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice",
    "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack",
)  # fmt: skip
# With less of it nothing starts, and what is said then helps nobody.
_LEAST_MEMORY = 64 << 20
_LEAST_PIDS = 16
_NO_CAP = float("inf")


class Limit(NamedTuple):
    """A cap: podman's name of it, its value as it was written, and where."""

    name: str
    value: str
    origin: str


class Limits(NamedTuple):
    """
    All caps of a run. `timeout_seconds` is 0 where there is none; `notes` are what was cut down, `chosen` what was
    written and counts.
    """

    limits: tuple[Limit, ...]
    timeout_seconds: int
    notes: tuple[str, ...] = ()
    chosen: Mapping[str, Setting] = MappingProxyType({})


def read_limits(layers: Sequence[Layer]) -> Limits:
    """The caps of all layers together. Raises UsageError for what is none."""
    for layer in layers:
        for key in _SIZES.keys() & layer.scalars.keys():
            _check(key, layer.scalars[key])
    chosen = {key: capped(layers, key, size) for key, size in _SIZES.items()}
    found = {key: item.setting for key, item in chosen.items() if item.setting}
    real = {key: setting for key, setting in found.items() if _SIZES[key](setting.value) != _NO_CAP}
    timeout = real.pop(TIMEOUT, None)
    return Limits(
        limits=(
            *(Limit(key, setting.value, setting.origin) for key, setting in real.items()),
            *(_ulimit(setting) for setting in added(layers, ULIMIT)),
        ),
        timeout_seconds=int(_seconds(timeout.value)) if timeout else 0,
        notes=tuple(item.note for item in chosen.values() if item.note),
        chosen=found,
    )


def size_bytes(value: str) -> int:
    """The bytes of `512m` or `8g`, as podman reads it. Raises ValueError."""
    match = _SIZE.fullmatch(value)
    if not match:
        raise ValueError("write a number and k, m or g: 8g")
    return int(match[1]) * _UNITS[match[2]]


def _check(key: str, setting: Setting) -> None:
    try:
        _SIZES[key](setting.value)
    except ValueError as error:
        what = f"{setting.named(key)} {setting.value!r} is no limit"
        raise UsageError(what, hint=f"{error}; 0 is none") from error


def _memory(value: str) -> float:
    size = size_bytes(value)
    if 0 < size < _LEAST_MEMORY:
        raise ValueError("nothing starts with less than 64m")
    return size or _NO_CAP


def _cpus(value: str) -> float:
    if not _CPUS.fullmatch(value):
        raise ValueError("write a number of processors: 2, or 1.5")
    return float(value) or _NO_CAP


def _pids(value: str) -> float:
    if not _NUMBER.fullmatch(value) or 0 < int(value) < _LEAST_PIDS:
        raise ValueError(f"write a number of processes, {_LEAST_PIDS} at least")
    return int(value) or _NO_CAP


def _seconds(value: str) -> float:
    if value == "0":
        return _NO_CAP
    try:
        return parse_duration(value, "")
    except UsageError as error:
        raise ValueError("write: 90s, 15m, 2h or 1d") from error


def _ulimit(setting: Setting) -> Limit:
    match = _ULIMIT.fullmatch(setting.value)
    if not match or match[1] not in _ULIMITS:
        what = f"{setting.named(ULIMIT)} {setting.value!r} is no limit"
        raise UsageError(what, hint=f"write: --ulimit nofile=1024:4096; it begins with one of {' '.join(_ULIMITS)}")
    return Limit(ULIMIT, setting.value, setting.origin)


_SIZES: Mapping[str, Callable[[str], float]] = {
    MEMORY: _memory,
    CPUS: _cpus,
    PIDS: _pids,
    SHM: lambda value: size_bytes(value) or _NO_CAP,
    TIMEOUT: _seconds,
}
