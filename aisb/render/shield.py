"""What is said at the start of a run about a project's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aisb.domain.printing import printable
from aisb.render.argv import PROJECT_TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisb.domain.protected import Cover

MOST = 20
_NOTHING_THERE = {
    "--mask": "matches nothing in the project (a name is looked for in its upper levels)",
    "--protect": "protects nothing: no such path is in the project, and what is made there can be written",
}


class Seen(Protocol):
    """What a look through the project found, as far as it is told at the start."""

    @property
    def sockets(self) -> Sequence[str]:
        """Sockets, by their paths."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it was looked at."""


class Mounted(Protocol):
    """A mount that somebody asked for, as far as it is told at the start."""

    @property
    def named(self) -> str:
        """The source as it was written, made whole."""

    @property
    def source(self) -> str:
        """Where its links end."""

    @property
    def target(self) -> str:
        """Where it is inside."""

    @property
    def read_only(self) -> bool:
        """Whether nothing inside can write it."""

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of it."""


def shield_lines(
    masks: Iterable[Cover],
    seen: Seen | None,
    places: Sequence[Mounted] = (),
    bare: Sequence[str] = (),
    project: str = PROJECT_TARGET,
    in_vain: Sequence[str] = (),
    unmatched: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """
    What is said at the start: what is mounted besides, which files read as empty, and what of this machine can be
    spoken to inside. `bare` is what cannot be masked, because no mount takes its name; `project` is where that is
    inside; `in_vain` what was not to be protected, and is not anyway; `unmatched` flags
    with their values, for what is not there.
    """
    hidden = [mask.target.removeprefix(f"{project}/") for mask in masks if mask.shown]
    sockets = list(seen.sockets) if seen else []
    return [
        *(printable(mounted(place)) for place in places[:MOST]),
        *([f"... and {len(places) - MOST} other mounts"] if len(places) > MOST else []),
        *(f"note: {printable(note)}" for place in places for note in place.notes),
        *(
            f"note: --unprotect {printable(path)} changes nothing: no protected path of the project is there, or below"
            " (see: aisb policy show)"
            for path in in_vain
        ),
        *(f"note: {flag} {printable(value)} {_NOTHING_THERE[flag]}" for flag, value in unmatched),
        *([f"masked, so empty inside: {some(hidden)}"] if hidden else []),
        *([f"warning: not masked, for a line break or bytes in the name: {some(list(bare))}"] if bare else []),
        *([f"warning: sockets in the project, which what is inside can speak to: {some(sockets)}"] if sockets else []),
        *(
            ["note: the project is large: masks and the list at the end cover its upper parts"]
            if seen and not seen.is_whole
            else []
        ),
    ]


def mounted(place: Mounted) -> str:
    """One mount: how it was named, where its links end, where it is inside."""
    ways = " -> ".join(dict.fromkeys((place.named, place.source, place.target)))
    return f"{ways} ({'ro' if place.read_only else 'rw'})"


def some(paths: list[str]) -> str:
    rest = [f"and {len(paths) - MOST} others"] if len(paths) > MOST else []
    return ", ".join([*map(printable, paths[:MOST]), *rest])
