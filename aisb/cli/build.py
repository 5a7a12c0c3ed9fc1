"""`aisb build`: the two images, built where they are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.cli.images import images_meant
from aisb.cli.output import answer
from aisb.domain.answers import answer_text
from aisb.effects.build import build_images
from aisb.effects.registries import registries_of

if TYPE_CHECKING:
    from aisb.cli.images import ImageFlags


def build_verb(flags: ImageFlags, *, refresh_base: bool, no_cache: bool, why: bool, as_json: bool) -> None:
    """Build, and print the names of the images on stdout; or print why there is something to build."""
    request, shop = images_meant(flags)
    if why:
        from aisb.effects.why import reasons

        lines = reasons(shop, request)
        answer(answer_text({"reasons": lines}) if as_json else "".join(f"{line}\n" for line in lines))
        return
    if refresh_base:
        from aisb.effects.update import refreshed

        names = refreshed(shop, request._replace(no_cache=no_cache))
    else:
        names = build_images(request._replace(no_cache=no_cache), shop)
    registries_of(shop, names.sandbox)
    answer(answer_text(names._asdict()) if as_json else f"{names.sandbox}\n{names.gate}\n")
