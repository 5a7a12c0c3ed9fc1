"""
The records of what a base image and Node's archive stood for when they were last looked up.

Reading one touches no network: previews and warm starts do only that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

from aisb.domain.base_image import BOOTSTRAP, parse_base_image
from aisb.domain.freshness import TIME
from aisb.domain.images import (
    NODE_PLATFORMS,
    NODE_VERSION,
    NPM,
    TARBALL,
    ImageSpec,
    NodePin,
    PinnedBase,
    parse_platform,
)
from aisb.effects.state import make_private, read_if_there, write_whole

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage

_SOURCE = re.compile(r"[a-z0-9][a-z0-9._:/-]*[:@][A-Za-z0-9._:-]+")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GENERATION = re.compile(r"0|\d{4}-\d{2}-\d{2}(?:\.[1-9]\d*)?")
_MOMENT = re.compile(f"|{TIME.pattern}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_ORIGIN = re.compile(f"{NPM}|{TARBALL}")


def base_pin_path(cache: str, base: BaseImage) -> str:
    """Where the record of a base lies: a readable name, and a hash that tells `a/b:c` from `a-b:c`."""
    reference = base.text if base.kind == BOOTSTRAP else base.reference
    readable = re.sub(r"[^a-zA-Z0-9.]+", "-", reference)[-80:]
    return f"{cache}/base/{readable}-{hashlib.sha256(reference.encode()).hexdigest()[:8]}.json"


def node_pin_path(cache: str, platform: str) -> str:
    """Where the record of Node's archive lies."""
    return f"{cache}/downloads/node-{NODE_VERSION}-{NODE_PLATFORMS[platform]}.json"


def read_base_pin(cache: str, base: BaseImage) -> PinnedBase | None:
    """The recorded pin of a base, or None where there is none that can be read."""
    try:
        pin = PinnedBase(**_read(base_pin_path(cache, base)))
        _need(_SOURCE, pin.source)
        _need(_DIGEST, pin.digest)
        _need(_GENERATION, pin.generation)
        for moment in (pin.time, pin.tried):
            _need(_MOMENT, moment)
        pin = pin._replace(unpinned=bool(pin.unpinned))
    except (TypeError, ValueError):
        return None
    # The same image may have been asked for by another text: what is shown is today's.
    return pin._replace(reference=base.text)


def write_base_pin(cache: str, base: BaseImage, pin: PinnedBase) -> None:
    """Record a pin."""
    _write(base_pin_path(cache, base), pin._asdict())


def read_node_pin(cache: str, spec: ImageSpec) -> NodePin | None:
    """The recorded archive of Node, or None where there is none that comes from where it was asked for."""
    try:
        pin = NodePin(**_read(node_pin_path(cache, spec.platform)))
        archives = tuple((_need(_FILE, name), _need(_SHA256, digest)) for name, digest in pin.archives)
        pin = NodePin(_need(_VERSION, pin.version), _need(_ORIGIN, pin.origin), archives)
    except (TypeError, ValueError):
        return None
    return pin if spec.node_origin in ("", pin.origin) else None


def write_node_pin(cache: str, platform: str, pin: NodePin) -> None:
    """Record what was downloaded."""
    _write(node_pin_path(cache, platform), pin._asdict())


def read_pins(cache: str, base_image: str) -> str:
    """
    A text that changes when the records that decide an image do: cheap enough for every start.

    When the registry was last asked decides nothing.
    """
    pin = read_base_pin(cache, parse_base_image(base_image))
    decides = json.dumps(pin._replace(time="", tried="") if pin else None).encode()
    node = read_if_there(node_pin_path(cache, this_platform())) or b"-"
    return hashlib.sha256(b"\0".join((decides, node))).hexdigest()


def this_platform() -> str:
    """The platform that images are built for here."""
    return parse_platform(os.uname().machine)


def _need(pattern: re.Pattern[str], text: str) -> str:
    """What a record holds ends up in a Containerfile, so it passes the same kind of door as an argument."""
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return text


def _read(path: str) -> dict[str, Any]:
    try:
        document = json.loads(read_if_there(path) or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _write(path: str, fields: dict[str, object]) -> None:
    make_private(os.path.dirname(path))
    write_whole(path, (json.dumps(fields, indent=1) + "\n").encode())
