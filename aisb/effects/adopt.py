"""
Images that came by `podman load`, on a machine that has no record of what they were made from.

Their labels say it. It counts where it leads to the very names of images that are there: then they were made from
what this machine's aisb would make them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisb.domain.images import SANDBOX, read_label
from aisb.effects.image_inputs import read_inputs
from aisb.effects.look import images_labelled
from aisb.effects.pins import parse_base_pin, parse_node_pin, write_base_pin, write_node_pin
from aisb.render.images import image_names

if TYPE_CHECKING:
    from aisb.domain.images import ImageInputs, ImageSpec
    from aisb.effects.workshop import Workshop


def adopted_inputs(shop: Workshop, spec: ImageSpec) -> ImageInputs | None:
    """The inputs of two images that are there and answer `spec`, put on record; None where there are none."""
    for seen in images_labelled(shop, f"aisb.role={SANDBOX}", f"aisb.base-ref={spec.base.text}"):
        inputs = _inputs(spec, read_label(seen.labels.get("aisb.pins", "")))
        if inputs is not None and all(shop.has_image(name) for name in image_names(inputs)):
            write_base_pin(shop.directories.cache, spec.base, inputs.base)
            write_node_pin(shop.directories.cache, spec.platform, inputs.node)
            shop.report.note(f"{seen.name} is there without a record: its labels say what it was made from")
            return inputs
    return None


def _inputs(spec: ImageSpec, pins: dict[str, Any]) -> ImageInputs | None:
    try:
        base = parse_base_pin(pins["base"], spec.base)
        node = parse_node_pin(pins["node"], spec, base)
    except (ValueError, TypeError, KeyError):
        return None
    return read_inputs(spec, base, node) if base and node else None
