"""
The variables that a person passes in. One parser for every verb and every place that names one.

    NAME          the host's NAME, which has to be set
    NEW=@OLD      the host's OLD, under another name
    NAME=VALUE    this value, on a command line only

Values are bytes from the door on: whatever they hold, they are one value of one variable.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisb.domain.layers import Setting

FLAG = "--env"
_KEY = "env"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Set by aisb for every command; the host's values name places that are not there.
_OWN = frozenset(
    {"HOME", "LOGNAME", "SHELL", "USER", "XDG_RUNTIME_DIR"}
    | {name for lower in ("http_proxy", "https_proxy", "no_proxy") for name in (lower, lower.upper())}
)


class Given(NamedTuple):
    """
    A variable of the command: its name, where it was written, and either its value or whose value it gets.

    `where` is what an error about it begins with.
    """

    name: str
    origin: str
    where: str
    source: str = ""
    value: bytes = b""

    def shown(self) -> str:
        """How the printed policy names it: never with its value."""
        if not self.source:
            return f"{self.name}=..."
        return self.name if self.source == self.name else f"{self.name}=@{self.source}"


def parse_variable(setting: Setting) -> Given:
    """What one `--env`, or an item of `env` in a file, asks for. Raises UsageError for what cannot be meant."""
    where = setting.named(_KEY)
    name, equals, rest = setting.value.partition("=")
    if not _NAME.fullmatch(name):
        shown = setting.value if not equals else f"{name}=..."
        raise UsageError(f"{where} {shown!r} is not the name of a variable", hint=_one_name_each(setting.value))
    refuse_own(name, where)
    if not equals:
        return Given(name, setting.origin, where, source=name)
    if rest.startswith("@"):
        return Given(name, setting.origin, where, source=_source(rest.removeprefix("@"), name, where))
    if setting.origin != FLAG:
        raise UsageError(
            f"{where} {name}=...: a file of settings holds no values", hint=f"write: {name}, and set it where you start"
        )
    return Given(name, setting.origin, where, value=os.fsencode(rest))


def is_name(text: str) -> bool:
    """Whether a variable may be called so."""
    return _NAME.fullmatch(text) is not None


def refuse_own(name: str, where: str) -> None:
    """Raises UsageError for a variable that the sandbox sets itself."""
    if name in _OWN:
        raise UsageError(f"{where} {name}: the sandbox has a {name} of its own", hint="leave it out")


def strongest_of(given: Iterable[Given]) -> tuple[Given, ...]:
    """Each name once, in the order in which they were first written; of two the later one counts."""
    return tuple({item.name: item for item in given}.values())


def values_of(given: Iterable[Given], environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The values of the variables, byte for byte. Raises UsageError for one that is not set."""
    return {os.fsencode(item.name): _value(item, environ) for item in given}


def values_in_sight(given: Iterable[Given], instead: str = "a file is private: --env-file") -> tuple[str, ...]:
    """What to say of values that were written on the command line; `instead` is a better way."""
    names = [item.name for item in given if item.origin == FLAG and not item.source]
    if not names:
        return ()
    shown = " ".join(f"{FLAG} {name}=..." for name in names)
    return (f"{shown}: everybody on this machine can read that in the process list (ps); {instead}",)


def _value(item: Given, environ: Mapping[bytes, bytes]) -> bytes:
    if not item.source:
        return item.value
    if os.fsencode(item.source) not in environ:
        what = f"{item.where} {item.shown()}: " + (
            "this variable is not set" if item.source == item.name else f"{item.source} is not set"
        )
        raise UsageError(what, hint=f"export {item.source}=... first")
    return environ[os.fsencode(item.source)]


def _source(text: str, name: str, where: str) -> str:
    if not _NAME.fullmatch(text):
        raise UsageError(
            f"{where} {name}=@...: after @ stands the name of a variable of yours",
            hint=f"a value that begins with @ goes in by its name: export {name}=... and write --env {name}",
        )
    return text


def _one_name_each(value: str) -> str:
    names = value.split(",")
    if len(names) < 2 or not all(map(_NAME.fullmatch, names)):
        return "write: --env AI_API_TOKEN"
    return f"--env takes one name; write: {' '.join(f'--env {name}' for name in names)}"
