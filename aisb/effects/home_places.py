"""
Mounts below a named home, which an agent has written.

podman follows what leads from there on: a link that an agent has put in the way of a mount would lay what it wrote over
the programs that enclose this sandbox. So while podman mounts, no part of a way is a link, there is no run that could
make one, and none begins.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.process import Command, run_ok
from aisb.effects.session import living
from aisb.effects.state import read_if_there
from aisb.effects.tree import Tree, is_directory, is_file
from aisb.errors import Unprotected
from aisb.render.argv import HOME_TARGET, as_in_mountinfo
from aisb.render.images import first_mount_argv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.effects.process import Runner

_ASK_SECONDS = 30
_START_SECONDS = 120
_RUN = "aisb-run-"


class Home(NamedTuple):
    """A named home, and the podman and image that it is for."""

    podman: str
    volume: str
    image: str


def make_places(home: Home, places: Sequence[tuple[str, bool]], runtime: str, runner: Runner) -> None:
    """
    Make what is missing of these in the home, as its user's own: podman's would be root's for ever.

    Nobody else may be starting with the home. Raises Unprotected where an agent has put a link there, or still could.
    """
    _need_nobody_else(home, [f"{HOME_TARGET}/{path}" for path, _ in places], runtime, runner)
    where = _ask(runner, home.podman, "volume", "inspect", "--format", "{{.Mountpoint}}", home.volume)
    with Tree(where) as tree:
        # What the image has in its home goes into a volume when it is mounted for the first time, and only where it is
        # empty. One that an agent has closed to everybody is in use already.
        if not tree.entries("") and os.access(where, os.R_OK):
            argv = first_mount_argv(home.podman, home.volume, home.image)
            run_ok(runner, Command(argv=argv, timeout_seconds=_START_SECONDS))
        for path, is_one in places:
            _make(tree, path, is_one=is_one)
            status = tree.status(path)
            if not (is_directory(status) if is_one else is_file(status)):
                raise _in_the_way(path, home.volume)


def _need_nobody_else(home: Home, targets: Sequence[str], runtime: str, runner: Runner) -> None:
    """Raise Unprotected for a container that has the home, unless it has the same mounts: they cannot be moved."""
    names = _ask(runner, home.podman, "ps", "--filter", f"volume={home.volume}", "--format", "{{.Names}}").split()
    if not names:
        return
    mounted = {session.run: read_if_there(f"{session.files}/mounts") or b"" for session in living(runtime)}
    at_top = all(os.path.dirname(target) == HOME_TARGET for target in targets)
    for name in names:
        lines = mounted.get(name.removeprefix(_RUN), b"").decode("utf-8", "surrogateescape").split("\n")
        if not (at_top and set(map(as_in_mountinfo, targets)) <= set(lines)):
            raise _in_use(home.volume, name)


def _ask(runner: Runner, *argv: str) -> str:
    return run_ok(runner, Command(argv=argv, timeout_seconds=_ASK_SECONDS)).stdout.decode().rstrip("\n")


def _make(tree: Tree, path: str, *, is_one: bool) -> None:
    steps = path.split("/")
    for count in range(1, len(steps)):
        tree.make("/".join(steps[:count]))
    if is_one:
        tree.make(path)
    else:
        tree.make_file(path)


def _in_use(volume: str, container: str) -> Unprotected:
    run = container.removeprefix(_RUN)
    return Unprotected(
        f"run {run} has the home {volume} too, and its agent could lead a mount below ~ elsewhere",
        hint=f"end it first: aisb stop {run}; or use a home of its own: --ephemeral-home; or mount at /mnt/NAME",
    )


def _in_the_way(path: str, volume: str) -> Unprotected:
    return Unprotected(
        f"~/{path} in the home {volume} is no place for a mount: something else was put there, or on the way there",
        hint="look at it in a run without that mount, or use a home that ends with the run: --ephemeral-home",
    )
