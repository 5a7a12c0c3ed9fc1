"""The bridge to the host's pi: its two files read, what becomes of them, and which pi the image holds."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from aisb.domain.net import FULL
from aisb.domain.pi_values import MODELS, SETTINGS, SPELLINGS, ImagePi, PiFiles, bridge_json, read_bridge
from aisb.effects.process import run_ok
from aisb.effects.safe_files import is_reached_through, read_outside
from aisb.effects.state import make_private, read_if_there, write_whole
from aisb.errors import Unavailable, Untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisb.domain.pi_values import Bridge, Chosen, PiWish, Place
    from aisb.effects.plan import Plan
    from aisb.effects.workshop import Workshop

_LABELS = ("aisb.pi-package", "aisb.pi-version")
_POLICY = "policy.json"


def read_pi(directory: str, trees: Iterable[str]) -> PiFiles:
    """
    What the host's pi is configured with: these two files, and no other of its directory is opened.

    Raises UsageError for one that cannot be read, and Untrusted for one that an agent could change: `trees` are what
    it can write to. A file says where a token goes.
    """
    paths = {name: f"{directory}/{name}" for name in (MODELS, SETTINGS)}
    there = {name: path for name, path in paths.items() if os.path.lexists(path)}
    for path in there.values():
        for tree in trees:
            if is_reached_through(path, tree):
                raise Untrusted(
                    f"{path} leads through {tree}, where an agent can change it, and it says where pi's token goes",
                    hint="keep it elsewhere, or run without it: --no-pi-config",
                )
    found = {name: read_outside(path, path).data() for name, path in there.items()}
    return PiFiles(directory, found.get(MODELS), found.get(SETTINGS))


def bridged(cache: str, programs: str, found: PiFiles, pi: ImagePi, plan: Plan, wish: PiWish, chosen: Chosen) -> Bridge:
    """
    The bridge for these files under this plan, kept in `cache` as plans are: `programs` changes with aisb's own code.

    Reading two files and judging their hosts takes longer to import than a start may take in all.
    """
    policy = plan.session_files[_POLICY]
    path = f"{cache}/pi/{_key(found, pi, plan.net, policy, wish, chosen, programs)}.json"
    kept = read_if_there(path)
    if kept is not None:
        try:
            return read_bridge(kept.decode())
        except (ValueError, TypeError):
            os.unlink(path)
    from aisb.domain.pi_bridge import bridge

    made = bridge(found, pi, opener(plan.net, policy), wish, chosen)
    make_private(os.path.dirname(path))
    write_whole(path, bridge_json(made).encode())
    return made


def _key(found: PiFiles, *parts: object) -> str:
    files = [found.directory, *(data.hex() if data is not None else None for data in (found.models, found.settings))]
    return hashlib.sha256(json.dumps([files, *parts]).encode("utf-8", "surrogateescape")).hexdigest()


def opener(net: str, policy: str) -> Callable[[Place], bool]:
    """What says whether a place may be reached: the engine that the gate asks."""
    from aisb.domain.rules import Engine

    if net == FULL:
        # The host's loopback stays closed.
        return lambda place: place[1] != 0 and not Engine.is_host(place[0])
    engine = Engine.from_json(policy)
    return lambda place: engine.judge(*place).allowed


def pi_of(shop: Workshop, image: str) -> ImagePi:
    """Which pi an image holds, by its labels, remembered for who asks again."""
    path = f"{shop.directories.cache}/pi/image-{image.rpartition('/')[2].replace(':', '-')}"
    kept = read_if_there(path)
    if kept is not None:
        return parse_image_pi(kept.decode(), image)
    shown = " ".join(f'{{{{index .Labels "{label}"}}}}' for label in _LABELS)
    finished = run_ok(shop.runner, shop.podman_command("image", "inspect", "--format", shown, image))
    text = finished.stdout.decode("utf-8", "replace").strip()
    found = parse_image_pi(text, image)
    make_private(os.path.dirname(path))
    write_whole(path, text.encode())
    return found


def parse_image_pi(text: str, image: str) -> ImagePi:
    """Package and version. Raises Unavailable for a pi of which nobody knows how it names a variable."""
    package, _, version = text.partition(" ")
    if package not in SPELLINGS:
        raise Unavailable(
            f"the image {image} says that its pi is {text or 'nothing'}: how that names a variable is not known",
            hint="run without the host's configuration: --no-pi-config",
        )
    return ImagePi(package, version)
