"""`aisb build --why`: what is different from the images that are there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisb.domain.images import GATE, SANDBOX, read_label
from aisb.domain.printing import printable
from aisb.domain.why import differences
from aisb.effects.image_inputs import known_inputs
from aisb.effects.look import images_labelled
from aisb.render.images import image_inputs, image_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.effects.build import BuildRequest
    from aisb.effects.workshop import Workshop


def reasons(shop: Workshop, request: BuildRequest) -> list[str]:
    """A line for each image, and below it what differs from the one that is nearest to it. No network is asked."""
    inputs = known_inputs(shop.directories.cache, request.spec)
    if inputs is None:
        return [f"{request.spec.base.text}, or node for it, was never looked up here: both images are built"]
    named = zip((SANDBOX, GATE), image_names(inputs), strict=True)
    return [line for role, name in named for line in _reasons(shop, role, name, image_inputs(role, inputs))]


def _reasons(shop: Workshop, role: str, name: str, listed: dict[str, object]) -> Iterator[str]:
    if shop.has_image(name):
        yield f"{role}: {name} is there, and nothing is to be built"
        return
    # Through JSON, as a label has it: tuples and lists are the same there.
    wanted = json.loads(json.dumps(listed))
    found = [(differences(inputs, wanted), other) for other, inputs in _others(shop, role)]
    if not found:
        yield f"{role}: {name} is not there, nor any other"
        return
    lines, nearest = min(found, key=lambda item: len(item[0]))
    yield f"{role}: {name} is not there; {nearest} differs:"
    # Whoever made the other image has written its label.
    yield from (f"  {printable(line)}" for line in lines)


def _others(shop: Workshop, role: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for seen in images_labelled(shop, f"aisb.role={role}"):
        inputs = read_label(seen.labels.get("aisb.inputs", ""))
        if inputs:
            yield seen.name, inputs
