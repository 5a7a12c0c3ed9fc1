"""The lock of those that start with a home: while podman mounts something below it, nobody else begins there."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.locks import locked_within
from aisb.effects.state import make_private
from aisb.errors import Unavailable
from aisb.render.argv import HOME_TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.effects.mounts import Placed

# Runs have it for as long as they start.
_PATIENCE_SECONDS = 120.0


class Hold(NamedTuple):
    """The lock of those that start with a home. podman has it too."""

    descriptor: int

    def release(self) -> None:
        """Everything is mounted."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)


def below_home(places: Iterable[Placed], project: str) -> list[tuple[str, bool]]:
    """Path from the home on, and whether a directory goes there: of mounts, and of the project where that is inside."""
    inside = f"{HOME_TARGET}/"
    mounted = [*((place.target, place.is_directory) for place in places), (project, True)]
    return [(target.removeprefix(inside), is_one) for target, is_one in mounted if target.startswith(inside)]


@contextlib.contextmanager
def home_held(runtime: str, volume: str, *, alone: bool) -> Iterator[Hold]:
    """
    Be one of those that start with the home of that name, or the only one, until the block's end or the hold's release.

    Raises Unavailable where another does not get any further.
    """
    make_private(f"{runtime}/homes")
    descriptor = os.open(f"{runtime}/homes/{volume}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not locked_within(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, _PATIENCE_SECONDS):
            what = f"the home {volume} is held by a run that does not get any further"
            raise Unavailable(what, hint="see which: aisb ps")
        yield Hold(descriptor)
    finally:
        os.close(descriptor)
