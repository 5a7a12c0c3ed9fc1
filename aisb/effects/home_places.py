"""Places for mounts below a named home: made by podman they would be root's, for as long as the home is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.effects.process import Command, run_ok
from aisb.effects.tree import Tree
from aisb.render.argv import HOME_TARGET
from aisb.render.images import first_mount_argv

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.effects.mounts import Placed
    from aisb.effects.process import Runner

_INSPECT_SECONDS = 30
_START_SECONDS = 120


def below_home(places: Iterable[Placed]) -> list[tuple[str, bool]]:
    """Path from the home on, and whether a directory goes there."""
    inside = f"{HOME_TARGET}/"
    return [
        (place.target.removeprefix(inside), place.is_directory) for place in places if place.target.startswith(inside)
    ]


def make_places(podman: str, volume: str, image: str, places: Iterable[tuple[str, bool]], runner: Runner) -> None:
    """
    Make what is missing of these in a home volume, as its user's own.

    What the image has in its home goes into a volume when it is mounted for the first time, and only where nothing is
    in it: that comes before.
    """
    where = _mount_point(podman, volume, runner)
    with Tree(where) as tree:
        # One that an agent has closed to everybody is in use already.
        if not tree.entries("") and os.access(where, os.R_OK):
            run_ok(runner, Command(argv=first_mount_argv(podman, volume, image), timeout_seconds=_START_SECONDS))
        for path, is_directory in places:
            _make(tree, path, is_directory=is_directory)


def _mount_point(podman: str, volume: str, runner: Runner) -> str:
    argv = (podman, "volume", "inspect", "--format", "{{.Mountpoint}}", volume)
    return run_ok(runner, Command(argv=argv, timeout_seconds=_INSPECT_SECONDS)).stdout.decode().rstrip("\n")


def _make(tree: Tree, path: str, *, is_directory: bool) -> None:
    """What cannot be made here, because an agent has put something else in its way, is left to podman."""
    steps = path.split("/")
    for count in range(1, len(steps)):
        tree.make("/".join(steps[:count]))
    if is_directory:
        tree.make(path)
    else:
        tree.make_file(path)
