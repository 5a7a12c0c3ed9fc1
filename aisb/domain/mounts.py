"""
Directories and files of the host to mount besides the project: as text, and where they may be shown inside.

Two forms are read: SRC[:DST][:ro|rw], and podman's own, `type=bind,src=...,dst=...,ro`, for paths with a colon.
What is not said to be writable is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.project import is_mountable
from aisb.domain.protected import plain, relative_to
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = "/project"
HOME = "/home/sandbox"
# What encloses the sandbox lies there, or is taken from there while it is being enclosed.
_ENCLOSING = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
              "/usr", "/var/run")  # fmt: skip
_TAKEN = ("/", "/home", HOME, PROJECT, "/root", "/var")
_SOURCE, _TARGET = ("src", "source"), ("dst", "destination", "target")
# What is written for a mode and is none.
_LIKE_A_MODE = {
    **dict.fromkeys(("wr", "w", "RW", "write", "writable"), "rw"),
    **dict.fromkeys(("or", "r", "RO", "read", "readonly", "read-only"), "ro"),
}
_HINT = "write: --mount SRC[:DST][:ro|rw], or: --mount type=bind,src=SRC,dst=DST,ro"


class MountWish(NamedTuple):
    """What was written: `target` is "" where nothing was said of it. `origin` is where it was written."""

    source: str
    target: str
    read_only: bool
    origin: str

    def text(self) -> str:
        """The same in podman's form, which every path fits."""
        fields = ["type=bind", _quoted(f"src={self.source}"), *([_quoted(f"dst={self.target}")] if self.target else [])]
        return ",".join([*fields, "ro" if self.read_only else "rw"])


def parse_mount(text: str, origin: str) -> MountWish:
    """Either form. Raises UsageError for what is neither, and for a path that podman cannot mount."""
    wish = _podmans(text, origin) if text.startswith("type=") else _short(text, origin)
    if not wish.source:
        raise UsageError(f"{origin} {text!r} names no source", hint=_HINT)
    for path in (wish.source, wish.target):
        if not is_mountable(path):
            raise UsageError(f"{origin} {text!r} has a line break or is not UTF-8, which podman cannot mount", _HINT)
    if wish.target and plain(wish.target) != wish.target:
        raise UsageError(f"{origin}: the target {wish.target!r} is not a whole path in its plain form", hint=_HINT)
    if wish.target and not wish.target.startswith("/"):
        raise UsageError(f"{origin}: the target {wish.target!r} does not begin with a slash", hint=_HINT)
    return wish


def _short(text: str, origin: str) -> MountWish:
    rest, is_read_only = text, True
    for mode in ("ro", "rw"):
        if text.endswith(f":{mode}"):
            rest, is_read_only = text[: -len(mode) - 1], mode == "ro"
    before, colon, last = rest.rpartition(":")
    if colon and last in _LIKE_A_MODE:
        mode = _LIKE_A_MODE[last]
        raise UsageError(f"{origin} {text!r}: {last} is no mode", hint=f"did you mean :{mode}? write: {before}:{mode}")
    source, *targets = rest.split(":")
    if len(targets) > 1:
        what = f"{origin} {text!r} has more colons than one between source and target"
        raise UsageError(what, hint=f"a path with a colon is written: {origin} type=bind,src=SRC,dst=DST,ro")
    if targets and not targets[0]:
        raise UsageError(f"{origin} {text!r} has an empty target", hint=_HINT)
    return MountWish(source, targets[0] if targets else "", is_read_only, origin)


def _podmans(text: str, origin: str) -> MountWish:
    found: dict[str, str] = {}
    for field in _fields(text, origin):
        name, equals, value = field.partition("=")
        key = "src" if name in _SOURCE else "dst" if name in _TARGET else _mode(name, value, equals) or name
        if key in found or (key not in ("type", "src", "dst", "ro", "rw")) or (key in ("ro", "rw") and "mode" in found):
            raise UsageError(f"{origin}: {field!r} is not understood, or said twice", hint=_HINT)
        found |= {key: value} if key not in ("ro", "rw") else {"mode": key}
    if found.get("type") != "bind":
        raise UsageError(f"{origin} {text!r} is not of the type bind", hint=_HINT)
    if found.get("dst") == "":
        raise UsageError(f"{origin} {text!r} has an empty target", hint=_HINT)
    return MountWish(found.get("src", ""), found.get("dst", ""), found.get("mode", "ro") == "ro", origin)


def _mode(name: str, value: str, equals: str) -> str:
    """`ro` or `rw` for each way that podman has of saying it, "" for another field."""
    if name in ("ro", "readonly", "rw") and (not equals or value in ("true", "false")):
        is_read_only = (name != "rw") == (value != "false")
        return "ro" if is_read_only else "rw"
    return ""


def _fields(text: str, origin: str) -> list[str]:
    """The fields of one line of comma-separated values, in which quotes keep a comma together."""
    fields, rest = [], text
    while True:
        if rest.startswith('"'):
            field, rest = _quoted_field(rest, text, origin)
        else:
            field, comma, rest = rest.partition(",")
            rest = comma + rest
        fields.append(field)
        if not rest:
            return fields
        rest = rest[1:]


def _quoted_field(rest: str, text: str, origin: str) -> tuple[str, str]:
    """The first field and what follows it, a comma or nothing."""
    at = 1
    while (end := rest.find('"', at)) >= 0 and rest[end + 1 : end + 2] == '"':
        at = end + 2
    following = rest[end + 1 :]
    if end < 0 or (following and not following.startswith(",")):
        raise UsageError(f"{origin} {text!r} has a quote that does not end where a field does", hint=_HINT)
    return rest[1:end].replace('""', '"'), following


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if any(letter in field for letter in ',"') else field


def default_target(path: str, *, project: str, home: str) -> str:
    """Where a source is shown of which nothing else was said; the path is whole, its links not resolved."""
    if project and (place := relative_to(path, project)):
        return f"{PROJECT}/{place}"
    if place := relative_to(path, home):
        return f"{HOME}/{place}"
    return path


def check_target(target: str, origin: str, hint: str = "name another target: --mount SRC:/mnt/NAME") -> None:
    """Raise UsageError for a target that would hide what encloses the sandbox, or the places that it always has."""
    if target in _TAKEN or any(target == place or relative_to(target, place) for place in _ENCLOSING):
        raise UsageError(
            f"{origin}: nothing may be mounted at {target}, where the sandbox has what it needs itself",
            hint=hint,
        )


def check_apart(targets: Iterable[str], origin: str) -> None:
    """Raise UsageError where two mounts would be at one place."""
    seen: set[str] = set()
    for target in targets:
        if target in seen:
            raise UsageError(f"{origin}: two mounts at {target}", hint="give one of them another target")
        seen.add(target)
