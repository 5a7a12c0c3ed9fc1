"""What the presets of registries stand for: read off an image when it is built, and off its label afterwards."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.domain.presets import REGISTRIES_LABEL, Registries, parse_registries
from aisb.effects.process import Command, run_ok
from aisb.effects.state import make_private, read_if_there, write_whole
from aisb.errors import Unavailable
from aisb.render.images import registries_argv

if TYPE_CHECKING:
    from aisb.effects.workshop import Workshop

_LOOK_SECONDS = 300.0


def look_for_registries(shop: Workshop, image: str) -> str:
    """Ask the tools of an image that was just built; their answer as the label's text."""
    argv = registries_argv(shop.podman, image)
    text = run_ok(shop.runner, Command(argv=argv, timeout_seconds=_LOOK_SECONDS)).stdout.decode("utf-8", "replace")
    parse_registries(text)
    return text.strip()


def registries_of(shop: Workshop, image: str) -> Registries:
    """What the label of an image says, remembered for who asks without podman."""
    shown = f'{{{{index .Labels "{REGISTRIES_LABEL}"}}}}'
    finished = run_ok(shop.runner, shop.podman_command("image", "inspect", "--format", shown, image))
    text = finished.stdout.decode("utf-8", "replace").strip()
    found = parse_registries(text)
    path = _path(shop.directories.cache, image)
    make_private(os.path.dirname(path))
    write_whole(path, text.encode())
    return found


def recorded_registries(cache: str, image: str) -> Registries:
    """The same from the record. Raises Unavailable where nobody has asked podman yet."""
    data = read_if_there(_path(cache, image))
    if data is None:
        raise Unavailable(
            "what a preset of a registry stands for is read off the image, and that is not built yet",
            hint="build it: aisb build, with the --install and --base-image of the run",
        )
    return parse_registries(data.decode("utf-8", "replace"))


def _path(cache: str, image: str) -> str:
    return f"{cache}/registries/{image.rpartition('/')[2].replace(':', '-')}.json"
