"""The methods of a session, as one table: what each takes, and what its answer may hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from aisb.domain.frames import MOST_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TYPES = frozenset({"file", "directory", "symlink", "fifo", "socket", "character", "block"})
_ENDS = frozenset({"exit", "timeout", "cancel"})
_SIGNAL = re.compile(r"SIG[A-Z0-9]{1,10}")
_MOST_MILLISECONDS = (1 << 31) - 1
_MOST_SECONDS = 10**7


class Wrong(ValueError):
    """A parameter that is missing, unknown, or not of its kind; in words."""


class Field(NamedTuple):
    """A member of params or of a result: whether a value is one, what it is in words, whether it has to be there."""

    fits: Callable[[object], bool]
    what: str
    needed: bool = True


class Call(NamedTuple):
    """A method. `streams` are those of its `data`."""

    params: Mapping[str, Field]
    result: Mapping[str, Field] = {}
    takes_body: bool = False
    takes_data: bool = False
    yields_body: bool = False
    streams: frozenset[str] = frozenset()


def is_number(value: object, least: int, most: int) -> TypeGuard[int]:
    """Whether it is a whole number in that range; `True` is none."""
    return type(value) is int and least <= value <= most


def is_text(value: object, longest: int = 1 << 20) -> TypeGuard[str]:
    """Whether it is a text without NUL; of lone surrogates it may hold those that stand for bytes."""
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _number(least: int, most: int = MOST_NUMBER, *, needed: bool = True) -> Field:
    return Field(lambda value: is_number(value, least, most), f"a number from {least} to {most}", needed)


def _optional(field: Field) -> Field:
    return field._replace(needed=False)


def _is_words(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_text, value))


def _is_variables(value: object) -> bool:
    return isinstance(value, dict) and all(_is_variable(name, text) for name, text in value.items())


def _is_variable(name: str, text: object) -> bool:
    return is_text(name) and name != "" and "=" not in name and (text is None or is_text(text))


def _is_signal(value: object) -> bool:
    return value is None or (isinstance(value, str) and _SIGNAL.fullmatch(value) is not None)


def _is_code(value: object) -> bool:
    return value is None or is_number(value, 0, 255)


def _is_path(value: object) -> bool:
    return is_text(value) and value != ""


_PATH = Field(_is_path, "a path")
_TEXT = Field(is_text, "a text")
_FLAG = Field(lambda value: type(value) is bool, "true or false")
_COUNT = _number(0)
_MODE = _number(0, 0o7777)
_TIME = _number(-MOST_NUMBER)
_ENTRY = Field(lambda value: is_text(value, 1000) and value != "", "an entry")
_LETTERS = Field(lambda value: isinstance(value, str) and set(value) <= set("rwx"), "letters of rwx")
_ONE_OF = Field(lambda value: isinstance(value, str) and value in TYPES, "a type of file")

CALLS: Mapping[str, Call] = {
    "exec": Call(
        params={
            "command": Field(_is_words, "a list of texts, at least one"),
            "cwd": _optional(_PATH),
            "env": Field(_is_variables, "names of variables with a text or null each", needed=False),
            "stdin": _optional(_FLAG),
            "timeoutMs": _number(1, _MOST_MILLISECONDS, needed=False),
        },
        result={
            "exitCode": Field(_is_code, "an exit code"),
            "signal": Field(_is_signal, "a signal"),
            "ended": Field(lambda value: isinstance(value, str) and value in _ENDS, "how it ended"),
            "durationMs": _COUNT,
        },
        takes_data=True,
        streams=frozenset({"stdout", "stderr"}),
    ),
    "readFile": Call(
        params={"path": _PATH, "offset": _optional(_COUNT), "length": _optional(_COUNT)},
        result={"size": _COUNT, "mtimeMs": _TIME, "bytes": _COUNT},
        yields_body=True,
        streams=frozenset({"file"}),
    ),
    "writeFile": Call(
        params={"path": _PATH, "more": _optional(_FLAG), "mode": _number(0, 0o777, needed=False)},
        result={"bytes": _COUNT, "created": _FLAG, "atomic": _FLAG},
        takes_body=True,
        takes_data=True,
    ),
    "stat": Call(
        params={"path": _PATH, "follow": _optional(_FLAG)},
        result={
            "type": _ONE_OF,
            "size": _COUNT,
            "mode": _MODE,
            "mtimeMs": _TIME,
            "uid": _COUNT,
            "gid": _COUNT,
            "links": _COUNT,
            "target": _optional(_TEXT),
        },
    ),
    "readdir": Call(params={"path": _PATH, "after": _optional(_TEXT)}, result={"more": _FLAG}, yields_body=True),
    "mkdir": Call(params={"path": _PATH, "recursive": _optional(_FLAG)}, result={"created": _FLAG}),
    "access": Call(params={"path": _PATH, "mode": _optional(_LETTERS)}),
}
# Those that aisb answers itself.
OWN: Mapping[str, Call] = {
    "status": Call(params={}),
    "watch": Call(params={"allowed": _FLAG}),
    "allow": Call(
        params={"entry": _ENTRY, "seconds": _number(1, _MOST_SECONDS, needed=False), "check": _optional(_FLAG)}
    ),
    "deny": Call(params={"entry": _ENTRY, "seconds": _number(1, _MOST_SECONDS, needed=False)}),
}


def checked(found: Mapping[str, object], fields: Mapping[str, Field]) -> dict[str, object]:
    """The members, each of its kind. Raises Wrong."""
    for name in found:
        if name not in fields:
            raise Wrong(f"there is no {name[:40]!r} here")
    for name, field in fields.items():
        if name not in found:
            if field.needed:
                raise Wrong(f"{name} is missing")
        elif not field.fits(found[name]):
            raise Wrong(f"{name} is not {field.what}")
    return dict(found)
