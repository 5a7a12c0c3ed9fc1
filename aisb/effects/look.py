"""Looks at images that are there: what they say they are, and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.domain.images import parse_label
from aisb.domain.manifest import Package, parse_manifest
from aisb.effects.process import Command, run_json, run_ok
from aisb.render.images import manifest_argv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisb.effects.workshop import Workshop

_SECONDS = 120.0


class Seen(NamedTuple):
    """An image with a name, and its labels."""

    name: str
    labels: Mapping[str, str]


def images_labelled(shop: Workshop, *labels: str) -> list[Seen]:
    """The images of the store that have these labels, the newest first, once for each name."""
    filters = (word for label in labels for word in ("--filter", f"label={label}"))
    found = run_json(shop.runner, shop.podman_command("images", *filters, "--format", "json")) or []
    found.sort(key=lambda image: int(image.get("Created") or 0), reverse=True)
    return [Seen(name, image.get("Labels") or {}) for image in found for name in image.get("Names") or ()]


def packages_of(shop: Workshop, image: str) -> tuple[Package, ...]:
    """Every package of an image, as it was built."""
    finished = run_ok(shop.runner, Command(argv=manifest_argv(shop.podman, image), timeout_seconds=_SECONDS))
    return parse_manifest(finished.stdout.decode("utf-8", "replace"))


def described(shop: Workshop, image: str) -> dict[str, Any]:
    """What an image is: its name, id, size in bytes, time and labels; its inputs as data."""
    (found,) = run_json(shop.runner, shop.podman_command("image", "inspect", image))
    labels = dict(found.get("Labels") or {})
    data = {name.removeprefix("aisb."): parse_label(labels.pop(name, "")) for name in ("aisb.inputs", "aisb.pins")}
    return {
        "name": image,
        "id": found["Id"],
        "digest": found.get("Digest", ""),
        "created": found["Created"],
        "size": found["Size"],
        "platform": f"{found.get('Os', '')}/{found.get('Architecture', '')}",
        "labels": labels,
        **{key: value for key, value in data.items() if value is not None},
    }
