"""`aisb update` and `aisb inspect`: what the images are, what is newer, and the next generation of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from aisb.cli.images import images_meant
from aisb.cli.output import answer
from aisb.domain.answers import answer_text
from aisb.domain.updates import as_json as found_as_json
from aisb.domain.updates import exit_code, lines
from aisb.effects.check_updates import check_updates
from aisb.effects.image_inputs import known_inputs
from aisb.effects.look import described, packages_of
from aisb.effects.registries import registries_of
from aisb.effects.update import roll_back, update
from aisb.errors import Unavailable, UsageError
from aisb.render.images import image_names
from aisb.render.updates import rollback_json, rollback_lines, update_json, update_lines

if TYPE_CHECKING:
    from aisb.cli.images import ImageFlags
    from aisb.effects.workshop import Workshop

_ROLE = "aisb.role"
# A name that podman takes, and no flag of its.
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]{0,255}")


def update_verb(flags: ImageFlags, *, check: bool, as_json: bool, rollback: bool) -> int:
    """Update, or one of its other two: look only, or go back. The code of a look is 0, 10 or 69."""
    if check and rollback:
        raise UsageError("--check and --rollback exclude each other", hint="leave one of the two out")
    request, shop = images_meant(flags)
    if not (shop.may_fetch or rollback):
        raise Unavailable("nothing may be looked up (--pull=never)", hint="leave one of the two out")
    if check:
        found = check_updates(shop, request)
        answer(found_as_json(found) if as_json else "".join(f"{line}\n" for line in lines(found)))
        return exit_code(found.values())
    if rollback:
        done = roll_back(shop, request)
        told, fields = rollback_lines(done.after, done.names), rollback_json(done.after, done.names)
    else:
        done = update(shop, request)
        told = update_lines(done.before, done.after, done.names, done.changed)
        fields = update_json(done.before, done.after, done.names, done.changed)
    registries_of(shop, done.names.sandbox)
    answer(answer_text(fields) if as_json else "".join(f"{line}\n" for line in told))
    return 0


def inspect_verb(flags: ImageFlags, *, packages: bool) -> None:
    """Print both images as one JSON object."""
    request, shop = images_meant(flags)
    inputs = known_inputs(shop.directories.cache, request.spec)
    names = image_names(inputs) if inputs else None
    if inputs is None or names is None or not all(shop.has_image(name) for name in names):
        raise Unavailable("these images are not built yet", hint="build them: aisb build")
    images = {role: _described(shop, name, packages=packages) for role, name in names._asdict().items()}
    answer(answer_text({"record": inputs.base._asdict(), **images}))


def inspect_image_verb(flags: ImageFlags, image: str, *, packages: bool) -> None:
    """Print one image of aisb's as a JSON object, be it of this generation or another."""
    _, shop = images_meant(flags)
    found = _described(shop, image, packages=False) if _IMAGE.fullmatch(image) and shop.has_image(image) else {}
    if _ROLE not in found.get("labels", {}):
        raise UsageError(
            f"{image} is no image of aisb's", hint=f"see which there are: podman images --filter label={_ROLE}"
        )
    answer(answer_text({"image": _described(shop, image, packages=True) if packages else found}))


def _described(shop: Workshop, name: str, *, packages: bool) -> dict[str, Any]:
    image = described(shop, name)
    return image | ({"packages": [item._asdict() for item in packages_of(shop, name)]} if packages else {})
