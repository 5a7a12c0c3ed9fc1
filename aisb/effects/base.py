"""The base image: looked up once, pinned by digest, and in podman's store when a build wants it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aisb.domain.base_image import BOOTSTRAP, LOCAL
from aisb.domain.images import PinnedBase
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


def need_base(shop: Workshop, spec: ImageSpec, lent: Lent) -> PinnedBase:
    """
    The base as it is pinned, in podman's store. Raises Unavailable where it cannot be had.

    A recorded pin is kept: the tag of a registry is asked for once. An image of the local store is looked at each
    time, for that costs nothing.
    """
    name = os.path.basename(base_pin_path("", spec.base))
    with alone(shop, f"base-{name}", f"waiting for another build that prepares {spec.base.text}"):
        known = read_base_pin(shop.directories.cache, spec.base)
        found = _need(shop, spec, lent, known)
        if found != known:
            write_base_pin(shop.directories.cache, spec.base, found)
        return found


def _need(shop: Workshop, spec: ImageSpec, lent: Lent, known: PinnedBase | None) -> PinnedBase:
    if spec.base.kind == BOOTSTRAP:
        return _need_bootstrapped(shop, spec.base, lent, known)
    if spec.base.kind == LOCAL:
        return _need_local(shop, spec.base, known)
    return _need_pulled(shop, spec, known)


def _need_bootstrapped(shop: Workshop, base: BaseImage, lent: Lent, known: PinnedBase | None) -> PinnedBase:
    if known and shop.has_image(known.source) and _inspect(shop, known.source)["layers"] == [known.digest]:
        return known
    made = bootstrap(shop, lent, base.tag)
    return _pin(base, made.source, made.digest, known=known)


def _need_local(shop: Workshop, base: BaseImage, known: PinnedBase | None) -> PinnedBase:
    if not shop.has_image(base.reference):
        raise Unavailable(f"{base.text} is not in podman's image store", hint="see: podman images")
    digest = str(_inspect(shop, base.reference)["digest"])
    if known and known.digest == digest:
        return known
    return _pin(base, f"{base.name}@{digest}", digest, known=known)


def _need_pulled(shop: Workshop, spec: ImageSpec, known: PinnedBase | None) -> PinnedBase:
    base = spec.base
    if known is None:
        with step(shop.report, f"looking up {base.text}"):
            resolved = resolve(shop, base, spec.platform)
        known = _pin(base, f"{base.name}@{resolved.digest}", resolved.digest, index=resolved.index_digest)
    if not shop.has_image(known.source):
        with step(shop.report, f"fetching {base.text}"):
            _pull(shop, known.source)
    return known


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


def _pin(base: BaseImage, source: str, digest: str, *, index: str = "", known: PinnedBase | None = None) -> PinnedBase:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pin = PinnedBase(reference=base.text, source=source, digest=digest, index_digest=index, time=now)
    return pin._replace(generation=known.generation) if known else pin
