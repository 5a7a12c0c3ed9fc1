"""
`aisb update`: a new generation of the two images, beside the one that runs go on in; and the way back.

The records change at the very end: whatever goes wrong before leaves everything as it is.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.freshness import stamp
from aisb.domain.images import FIRST_GENERATION, is_own, next_generation
from aisb.domain.manifest import changes
from aisb.domain.updates import NEWER
from aisb.effects.base import look_up
from aisb.effects.build import build_images
from aisb.effects.check_updates import check_contents
from aisb.effects.image_inputs import known_inputs
from aisb.effects.lending import read_lent
from aisb.effects.look import images_labelled, packages_of
from aisb.effects.pins import (
    base_pin_path,
    read_base_pin,
    read_previous_pin,
    replace_base_pin,
    write_base_pin,
)
from aisb.effects.progress import step
from aisb.effects.workshop import alone
from aisb.errors import Unavailable
from aisb.render.images import image_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.domain.images import ImageNames, PinnedBase
    from aisb.domain.updates import Found
    from aisb.effects.build import BuildRequest
    from aisb.effects.workshop import Workshop


class Updated(NamedTuple):
    """
    Two generations, the one before and the one that runs begin in from now on; the images' names, and what has changed
    in each, "" for a first one.
    """

    before: PinnedBase | None
    after: PinnedBase
    names: ImageNames
    changed: tuple[tuple[str, ...], ...] | None


def update(shop: Workshop, request: BuildRequest) -> Updated:
    """Build a new generation of both images and record it. Raises Unavailable where something cannot be had."""
    with _alone(shop, request):
        known = read_base_pin(shop.directories.cache, request.spec.base)
        before = _built(shop, request, known)
        lent = read_lent(shop.runner, shop.environ, request.ca_bundle)
        # First, for where nobody answers everything else would be in vain.
        base = look_up(shop, request.spec, lent, known)
        base = _next(shop, base, check_contents(shop, request, lent) if before else {})
        names = build_images(request._replace(base=base), shop)
        replace_base_pin(shop.directories.cache, request.spec.base, base)
        changed = _changed(shop, before, names) if before else None
        _drop_older(shop, request, {base.generation, known.generation if known else FIRST_GENERATION})
        return Updated(known, base, names, changed)


def refreshed(shop: Workshop, request: BuildRequest) -> ImageNames:
    """Both images on what the base stands for now, and that on record. The generation stays."""
    if not shop.may_fetch:
        raise Unavailable("nothing may be looked up (--pull=never)", hint="leave one of the two out")
    with _alone(shop, request):
        known = read_base_pin(shop.directories.cache, request.spec.base)
        lent = read_lent(shop.runner, shop.environ, request.ca_bundle)
        base = look_up(shop, request.spec, lent, known)
        names = build_images(request._replace(base=base), shop)
        if known and known.digest == base.digest:
            write_base_pin(shop.directories.cache, request.spec.base, base)
        else:
            replace_base_pin(shop.directories.cache, request.spec.base, base)
        return names


def roll_back(shop: Workshop, request: BuildRequest) -> Updated:
    """Record what was recorded before; done twice, everything is as it was. Raises Unavailable where it is gone."""
    cache, base = shop.directories.cache, request.spec.base
    with _alone(shop, request):
        known, previous = read_base_pin(cache, base), read_previous_pin(cache, base)
        if known is None or previous is None:
            raise Unavailable(f"of {base.text} there is no generation before this one", hint="see: aisb inspect")
        names = _built(shop, request, previous)
        if names is None:
            raise Unavailable(
                f"the images of generation {previous.generation} are not in podman's store any more",
                hint="with another --install, or another aisb, than at that time they would be other images",
            )
        # No start looks up again what somebody went back to.
        back = previous._replace(held=not known.held)
        replace_base_pin(cache, base, back)
        return Updated(known, back, names, None)


@contextmanager
def _alone(shop: Workshop, request: BuildRequest) -> Iterator[None]:
    base = request.spec.base
    name = os.path.basename(base_pin_path("", base))
    with alone(shop, f"refresh-{name}", f"waiting for another update of {base.text}"):
        yield


def _built(shop: Workshop, request: BuildRequest, base: PinnedBase | None) -> ImageNames | None:
    """The names of both images on this base, where they are in podman's store."""
    inputs = known_inputs(shop.directories.cache, request.spec, base) if base else None
    names = image_names(inputs) if inputs else None
    return names if names and all(shop.has_image(name) for name in names) else None


def _next(shop: Workshop, base: PinnedBase, found: dict[str, Found]) -> PinnedBase:
    """What the next generation is built on: the base, with its date and the versions that were found to be newer."""
    newer = {name: item.newest for name, item in found.items() if item.state == NEWER}
    return base._replace(
        generation=next_generation(base.generation, stamp(shop.now)[:10]),
        node=newer.get("node", base.node),
        agent=newer.get("harness", base.agent),
    )


def _changed(shop: Workshop, before: ImageNames, after: ImageNames) -> tuple[tuple[str, ...], ...]:
    with step(shop.report, "comparing what is in them"):
        pairs = zip(before, after, strict=True)
        return tuple(tuple(changes(packages_of(shop, old), packages_of(shop, new))) for old, new in pairs)


def _drop_older(shop: Workshop, request: BuildRequest, kept: set[str]) -> None:
    """Remove the images of generations before these; one that a run still uses stays until the next update."""
    for seen in images_labelled(shop, f"aisb.base-ref={request.spec.base.text}"):
        if is_own(seen.name, seen.labels.get("aisb.role", "")) and seen.labels.get("aisb.generation") not in kept:
            shop.runner.run(shop.podman_command("rmi", seen.name))
