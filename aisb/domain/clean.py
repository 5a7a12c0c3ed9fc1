"""What `aisb clean` takes away: aisb's own and nobody else's, and nothing that is in use."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.images import is_own, read_label
from aisb.domain.project import SHARED_HOME
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

IMAGE, VOLUME, CONTAINER, GATE, DIRECTORY = "image", "volume", "container", "gate", "directory"
# The current images of each kind, and those before the last update: `aisb update --rollback` goes back to them.
KEPT = 2

_GLOB = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,200}")
_HOME = re.compile(rf"{SHARED_HOME}(?:-[a-z0-9-]{{1,40}})?")


class Image(NamedTuple):
    """An image of podman's store by one of its names. `created` is in seconds since 1970, `size` in bytes."""

    name: str
    id: str
    role: str
    labels: Mapping[str, str]
    created: int
    size: int


class Home(NamedTuple):
    """
    A volume that is the home of a project's sandboxes; `project` is "" where nobody knows it any more.

    `place` is where podman has its files, "" where that is not known.
    """

    name: str
    project: str
    place: str = ""


class Removal(NamedTuple):
    """Something to take away: podman's word for its kind, its name, what it is, and its bytes where they are known."""

    kind: str
    name: str
    about: str
    size: int = 0


def parse_glob(text: str) -> str:
    """A pattern for names of volumes. Raises UsageError for one that could be anything else."""
    if not _GLOB.fullmatch(text):
        raise UsageError(
            f"--volume {text!r} is no pattern for a volume's name", hint="write: --volume 'aisb-home-web-*'"
        )
    return text


def images_to_remove(images: Sequence[Image], used: Collection[str], *, everything: bool) -> list[Removal]:
    """
    The images that nothing needs: of each kind all but the newest two, or with `everything` all.

    `used` are the ids of those that a container has.
    """
    own = [image for image in images if is_own(image.name, image.role)]
    seen: dict[str, int] = {}
    removals = []
    for image in sorted(own, key=lambda image: image.created, reverse=True):
        kind = kind_of(image)
        seen[kind] = seen.get(kind, 0) + 1
        if image.id not in used and (everything or seen[kind] > KEPT):
            removals.append(Removal(IMAGE, image.name, image.role, image.size))
    return removals


def kind_of(image: Image) -> str:
    """What two images have in common of which the newer replaces the older: all that a command line decides."""
    inputs = read_label(image.labels.get("aisb.inputs", ""))
    deciding = {
        "agent": str(inputs.get("agent", "")).rpartition("@")[0],
        "base": image.labels.get("aisb.base-ref", ""),
        "fragment": inputs.get("fragment"),
        "install": inputs.get("install"),
        "node": str(inputs.get("node", "")).partition(".")[0],
        "role": image.role,
    }
    return json.dumps(deciding, sort_keys=True)


def homes_to_remove(homes: Sequence[Home], glob: str, size_of: Callable[[str], int] = lambda _: 0) -> list[Removal]:
    """
    The homes whose names match. `homes` are those that no container has; others than homes match nothing.

    `size_of` is asked for the bytes at the place of each that goes.
    """
    chosen = [home for home in homes if _HOME.fullmatch(home.name) and fnmatchcase(home.name, glob)]
    return [
        Removal(VOLUME, home.name, f"home of {home.project}" if home.project else "a home", size_of(home.place))
        for home in sorted(chosen)
    ]
