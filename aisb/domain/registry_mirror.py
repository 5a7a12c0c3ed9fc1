"""Another registry in the place of docker.io, for bases that are named without one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aisb.domain.base_image import DEFAULT_REGISTRY, parse_base_image
from aisb.errors import UsageError

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage

VARIABLE = "AISB_REGISTRY_MIRROR"
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?")


def parse_registry_mirror(text: str) -> str:
    """HOST, HOST:PORT or either with a path; "" for none. Raises UsageError for anything else."""
    if not text:
        return ""
    host, slash, _ = text.partition("/")
    try:
        # A mirror is right where the reference of an image in it is.
        name = parse_base_image(f"{text}/x:1").name
    except UsageError:
        name = ""
    if not _HOST.fullmatch(host) or name != f"{text}/x":
        shown = re.sub(r"//[^/@]*@", "//", text)
        hint = f"write: {VARIABLE}=mirror.example.com:5000, without https:// and with no slash at its end"
        raise UsageError(f"{VARIABLE}={shown!r} is not a registry{'' if slash else ' with a dot or a port'}", hint=hint)
    return text


def at_mirror(base: BaseImage, mirror: str) -> BaseImage:
    """Where the image is to be asked for: at the mirror, if it is one of docker.io's."""
    if not mirror or not base.name.startswith(f"{DEFAULT_REGISTRY}/"):
        return base
    return base._replace(name=f"{mirror}{base.name.removeprefix(DEFAULT_REGISTRY)}")
