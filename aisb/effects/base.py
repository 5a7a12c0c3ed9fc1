"""The base image: looked up once, pinned by digest, and in podman's store when a build wants it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from aisb.domain.base_image import BOOTSTRAP, LOCAL
from aisb.domain.freshness import stamp
from aisb.domain.images import PinnedBase
from aisb.domain.registry_mirror import VARIABLE as MIRROR
from aisb.domain.registry_mirror import at_mirror, parse_registry_mirror
from aisb.effects.bootstrap import bootstrap
from aisb.effects.pins import base_pin_path, read_base_pin, write_base_pin
from aisb.effects.process import Command, run_ok
from aisb.effects.progress import step
from aisb.effects.skopeo import resolve
from aisb.effects.workshop import alone
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage
    from aisb.domain.images import ImageSpec
    from aisb.effects.lending import Lent
    from aisb.effects.workshop import Workshop

_PULL_SECONDS = 1800.0
LOOK_UP_SECONDS = 20.0


def need_base(shop: Workshop, spec: ImageSpec, lent: Lent, chosen: PinnedBase | None = None) -> PinnedBase:
    """
    The base as it is pinned, in podman's store. Raises Unavailable where it cannot be had.

    A recorded pin is kept: the tag of a registry is asked for once. An image of the local store is looked at each
    time, for that costs nothing. What was `chosen` is taken in the place of the record, which stays as it is.
    """
    name = os.path.basename(base_pin_path("", spec.base))
    with alone(shop, f"base-{name}", f"waiting for another build that prepares {spec.base.text}"):
        if chosen:
            return _fetched(shop, spec, chosen)
        known = read_base_pin(shop.directories.cache, spec.base)
        found = _need(shop, spec, lent, known)
        if found != known:
            write_base_pin(shop.directories.cache, spec.base, found)
        return found


def look_up(
    shop: Workshop, spec: ImageSpec, lent: Lent, known: PinnedBase | None, seconds: float = LOOK_UP_SECONDS
) -> PinnedBase:
    """
    What the base stands for now: a tag by its registry, a local image by the store, a bootstrapped one by making it.

    Nothing is recorded. Raises Unavailable where there is no answer.
    """
    base = spec.base
    if base.kind == BOOTSTRAP:
        made = bootstrap(shop, lent, base.tag)
        return _pin(shop, base, made.source, made.digest, known=known)
    if base.kind == LOCAL:
        return _of_store(shop, base, known)
    with step(shop.report, f"looking up {base.text}"):
        resolved = resolve(shop, at_mirror(base, _mirror(shop)), spec.platform, seconds)
    return _pin(shop, base, f"{base.name}@{resolved.digest}", resolved.digest, resolved.index_digest, known)


def _need(shop: Workshop, spec: ImageSpec, lent: Lent, known: PinnedBase | None) -> PinnedBase:
    if spec.base.kind == BOOTSTRAP:
        return known if known and _has_layer(shop, known) else look_up(shop, spec, lent, known)
    if spec.base.kind == LOCAL:
        found = _of_store(shop, spec.base, known)
        return known if known and known.digest == found.digest else found
    return _fetched(shop, spec, known or _first(shop, spec, lent))


def _has_layer(shop: Workshop, known: PinnedBase) -> bool:
    return shop.has_image(known.source) and _inspect(shop, known.source)["layers"] == [known.digest]


def _of_store(shop: Workshop, base: BaseImage, known: PinnedBase | None) -> PinnedBase:
    if not shop.has_image(base.reference):
        raise Unavailable(f"{base.text} is not in podman's image store", hint="see: podman images")
    digest = str(_inspect(shop, base.reference)["digest"])
    return _pin(shop, base, f"{base.name}@{digest}", digest, known=known)


def _first(shop: Workshop, spec: ImageSpec, lent: Lent) -> PinnedBase:
    """A pin for what was never looked up: where nobody says what it stands for, the image of that name, if any."""
    try:
        return look_up(shop, spec, lent, None)
    except Unavailable as error:
        if not shop.has_image(spec.base.reference):
            raise
        shop.report.note(f"{error.message}; building on the image of that name in podman's store, UNPINNED")
    return _of_store(shop, spec.base, None)._replace(time="", unpinned=not spec.base.digest)


def _fetched(shop: Workshop, spec: ImageSpec, pin: PinnedBase) -> PinnedBase:
    if not shop.has_image(pin.source):
        with step(shop.report, f"fetching {spec.base.text}"):
            _pull_by_mirror(shop, spec.base, pin)
    return pin


def _mirror(shop: Workshop) -> str:
    return parse_registry_mirror(shop.environ.get(MIRROR, ""))


def _pull_by_mirror(shop: Workshop, base: BaseImage, pin: PinnedBase) -> None:
    """Fetch what was pinned; from a mirror it gets the name that it has everywhere, which the tags depend on."""
    mirrored = at_mirror(base, _mirror(shop))
    if mirrored == base:
        _pull(shop, pin.source)
        return
    source = f"{mirrored.name}@{pin.digest}"
    _pull(shop, source)
    run_ok(shop.runner, shop.podman_command("tag", source, f"{base.name}:aisb-{pin.digest[7:19]}"))


def _pull(shop: Workshop, source: str) -> None:
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        shop.report.tick()

    argv = (shop.podman, "pull", "--quiet", source)
    command = Command(argv=argv, timeout_seconds=_PULL_SECONDS, environment=shop.network)
    code = shop.runner.stream(command, on_line, shop.report.tick)
    if code != 0:
        raise Unavailable(f"{source} could not be fetched: podman exited {code}", hint="\n".join(lines[-5:]))


def _inspect(shop: Workshop, name: str) -> dict[str, object]:
    """An image's manifest digest and the digests of its layers."""
    template = '{"digest":{{json .Digest}},"layers":{{json .RootFS.Layers}}}'
    finished = run_ok(shop.runner, shop.podman_command("image", "inspect", "--format", template, name))
    document = json.loads(finished.stdout)
    return {"digest": document["digest"], "layers": document["layers"]}


def _pin(
    shop: Workshop, base: BaseImage, source: str, digest: str, index: str = "", known: PinnedBase | None = None
) -> PinnedBase:
    pin = PinnedBase(reference=base.text, source=source, digest=digest, index_digest=index, time=stamp(shop.now))
    return pin._replace(generation=known.generation, node=known.node, agent=known.agent) if known else pin
