"""
Settings from several places: of a scalar the strongest counts, lists add up, and a project may only narrow.

The project's own `.ai-sandbox/config.yaml` is written by whoever may write to the project. Trusted or not, it opens
nothing that the user did not open, and takes no more of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.net import ALLOW, FULL, NONE
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

COMMAND_LINE = "command line"
ENVIRONMENT = "environment"
PROJECT = "project"
USER = "user"
BUILT_IN = "built in"
# The strongest first.
STRENGTH = (COMMAND_LINE, ENVIRONMENT, PROJECT, USER, BUILT_IN)

# From the narrowest to the widest.
NET_WIDTH = (NONE, ALLOW, FULL)
NET = "net"

# What a trusted project may say; each other key is the user's alone: variables and paths of the host above all.
PROJECT_SCALARS = frozenset({NET, "harness"})
PROJECT_LISTS = frozenset({"allow", "install", "protect"})


class Setting(NamedTuple):
    """A value as it was written, and where: a flag, a variable, or file:line."""

    value: str
    origin: str

    def named(self, key: str) -> str:
        """What an error about the value begins with: a line of a file holds more than this one key."""
        return self.origin if self.origin.startswith(("--", "AISB_")) else f"{self.origin}: {key}"


class Layer(NamedTuple):
    """What one place says: `kind` is one of STRENGTH."""

    kind: str
    scalars: Mapping[str, Setting]
    lists: Mapping[str, tuple[Setting, ...]]


class Chosen(NamedTuple):
    """The value that counts, None where nobody says anything, and what the user has to be told about it."""

    setting: Setting | None
    note: str = ""


def check_project(layer: Layer, caps: Iterable[str]) -> None:
    """Raise UsageError for the first key in a project's file that is not a project's to set."""
    caps = frozenset(caps)
    firsts = {key: settings[0] for key, settings in layer.lists.items() if settings and key not in PROJECT_LISTS}
    others = {key: item for key, item in layer.scalars.items() if key not in PROJECT_SCALARS | caps}
    for key, setting in (firsts | others).items():
        raise UsageError(
            f"{setting.origin}: {key!r} is not for a project to set",
            hint="write it in ~/.config/ai-sandbox/config.yaml, or give it as a flag",
        )


def strongest(layers: Sequence[Layer], key: str) -> Setting | None:
    """The value of the strongest layer that has one."""
    return next((layer.scalars[key] for layer in _by_strength(layers) if key in layer.scalars), None)


def added(layers: Sequence[Layer], key: str) -> tuple[Setting, ...]:
    """The items of all layers, the weakest layer's first; of what is said twice, each is kept with its origin."""
    return tuple(item for layer in reversed(_by_strength(layers)) for item in layer.lists.get(key, ()))


def net_mode(layers: Sequence[Layer]) -> Chosen:
    """
    The network mode: a project's file may only narrow what holds without it.

    Raises UsageError for `full` in a project's file, which is never meant well, and for what is no mode.
    """
    for layer in layers:
        if NET in layer.scalars:
            _check_net(layer.scalars[NET], layer.kind)
    return _narrowed(layers, NET, lambda setting: NET_WIDTH.index(setting.value))


def capped(layers: Sequence[Layer], key: str, size: Callable[[str], float]) -> Chosen:
    """
    A cap on the machine's resources; one in a project's file above what holds without it is cut down to that.

    `size` reads the value as a number and raises ValueError.
    """
    return _narrowed(layers, key, lambda setting: _size(size, key, setting))


def _narrowed(layers: Sequence[Layer], key: str, width: Callable[[Setting], float]) -> Chosen:
    chosen = strongest(layers, key)
    without = strongest([layer for layer in layers if layer.kind != PROJECT], key)
    # Equal where something stronger than the project speaks, or the project is silent.
    if chosen is None or without is None or chosen == without or width(chosen) <= width(without):
        return Chosen(chosen)
    return Chosen(without, f"{chosen.origin}: {key}: {chosen.value} is cut down to {without.value} ({without.origin})")


def _by_strength(layers: Sequence[Layer]) -> list[Layer]:
    return sorted(layers, key=lambda layer: STRENGTH.index(layer.kind))


def _check_net(setting: Setting, kind: str) -> None:
    if setting.value not in NET_WIDTH:
        what = f"{setting.named(NET)} {setting.value!r} is not a mode"
        # Everything open is asked for each time, by its flag.
        raise UsageError(what, hint="write: allow, none or full" if kind == COMMAND_LINE else "write: allow or none")
    if kind == PROJECT and setting.value == NET_WIDTH[-1]:
        raise UsageError(
            f"{setting.origin}: a project cannot ask for net: full", hint="write: net: allow, or net: none"
        )


def _size(size: Callable[[str], float], key: str, setting: Setting) -> float:
    try:
        return size(setting.value)
    except ValueError as error:
        what = f"{setting.origin}: {key}: {setting.value!r} is no size: {error}"
        raise UsageError(what, hint=f"write: {key}: NUMBER") from error
