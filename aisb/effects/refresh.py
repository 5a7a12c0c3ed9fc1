"""
A base whose record has outlived its time, before a run: looked up again, and built on where it has moved.

A stale pin beats a mutable tag: whatever goes wrong is said, and the run goes on with what is there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.domain.freshness import is_due, stale_words, stamp
from aisb.effects.base import look_up
from aisb.effects.build import build_images
from aisb.effects.lending import read_lent
from aisb.effects.pins import base_pin_path, read_base_pin, replace_base_pin, write_base_pin
from aisb.effects.workshop import alone
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from aisb.domain.images import PinnedBase
    from aisb.effects.build import BuildRequest
    from aisb.effects.workshop import Workshop

_SECONDS = 3.0


def refresh_base(shop: Workshop, request: BuildRequest) -> None:
    """Record what the base stands for now, once both images are built on it. Of several runs one asks."""
    base = request.spec.base
    name = os.path.basename(base_pin_path("", base))
    with alone(shop, f"refresh-{name}", f"waiting for another start that looks {base.text} up again"):
        known = read_base_pin(shop.directories.cache, base)
        if known is None or not is_due(known, shop.freshness, shop.now):
            return
        try:
            found = _refreshed(shop, request, known)
        except Unavailable as error:
            shop.report.note(f"note: {error.message}")
            shop.report.note(f"note: {stale_words(known, shop.now)}")
            found = known._replace(tried=stamp(shop.now))
        if found.digest == known.digest:
            write_base_pin(shop.directories.cache, base, found)
        else:
            replace_base_pin(shop.directories.cache, base, found)


def _refreshed(shop: Workshop, request: BuildRequest, known: PinnedBase) -> PinnedBase:
    lent = read_lent(shop.runner, shop.environ, request.ca_bundle)
    found = look_up(shop, request.spec, lent, known, _SECONDS)
    if found.digest != known.digest:
        shop.report.note(
            f"{known.reference} has moved from {known.digest[:19]} to {found.digest[:19]}: building on that first"
        )
    if found.digest != known.digest or known.unpinned:
        build_images(request._replace(base=found), shop)
    return found
