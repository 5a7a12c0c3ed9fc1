"""
Node's archive: from a mirror, checked against its SHASUMS256.txt, or from npm's registry, checked by npm.

What was fetched stays in the cache, under a record of its sha256, and is checked again each time it is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.domain.images import NPM, TARBALL, NodePin, PinnedBase, node_package, node_version
from aisb.effects.node_mirror import NoMirror, fetch_from_mirror, parse_mirror
from aisb.effects.node_npm import fetch_from_npm
from aisb.effects.pins import read_node_pin, write_node_pin
from aisb.effects.workshop import alone, sha256_of
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from aisb.domain.images import ImageSpec
    from aisb.effects.lending import Lent
    from aisb.effects.workshop import Workshop


def need_node(shop: Workshop, spec: ImageSpec, lent: Lent, base: PinnedBase) -> NodePin:
    """Node's archive in the cache, checked. Raises Unavailable where it cannot be had or is not what it should be."""
    with alone(shop, "node", "waiting for another build that fetches node"):
        known = read_node_pin(shop.directories.cache, spec, base)
        if known and _is_whole(shop, known):
            return known
        pin = _fetch(shop, spec, lent, base)
        write_node_pin(shop.directories.cache, spec.platform, pin)
        return pin


def _is_whole(shop: Workshop, pin: NodePin) -> bool:
    for name, sha256 in pin.archives:
        path = shop.archive(name)
        if not os.path.exists(path):
            return False
        if sha256_of(path) != sha256:
            shop.report.note(f"node: {name} in the cache has changed since it was checked, and is fetched again")
            os.unlink(path)
            return False
    return True


def _fetch(shop: Workshop, spec: ImageSpec, lent: Lent, base: PinnedBase) -> NodePin:
    """From where it was asked for; else from the mirror, and where that is out of reach from npm's registry."""
    if spec.node_origin == NPM:
        return fetch_from_npm(shop, spec, lent, base)
    mirror = parse_mirror(shop.environ.get("AISB_NODE_MIRROR", ""))
    version = node_version(spec.node_line, base)
    try:
        return fetch_from_mirror(shop, spec, lent, mirror, version)
    except NoMirror as error:
        if spec.node_origin == TARBALL:
            raise Unavailable(
                f"node {version} could not be fetched: {error}",
                hint="name a mirror that can be reached: AISB_NODE_MIRROR=https://...",
            ) from error
        shop.report.note(f"node: {error}; taking npm's package {node_package(spec.platform)} instead")
    return fetch_from_npm(shop, spec, lent, base)
