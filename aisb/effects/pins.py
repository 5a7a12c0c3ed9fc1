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
    NODE_LINE,
    NODE_PLATFORMS,
    NPM,
    TARBALL,
    ImageSpec,
    NodePin,
    PinnedBase,
    node_version,
    parse_platform,
)
from aisb.effects.state import make_private, read_if_there, write_whole

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage

_SOURCE = re.compile(r"[a-z0-9][a-z0-9._:/-]*[:@][A-Za-z0-9._:-]+")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GENERATION = re.compile(r"0|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:\.[1-9][0-9]{0,5})?")
_MOMENT = re.compile(f"|{TIME.pattern}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}")
_FOUND = re.compile(rf"|{_VERSION.pattern}")
_ORIGIN = re.compile(f"{NPM}|{TARBALL}")


def base_pin_path(cache: str, base: BaseImage) -> str:
    """Where the record of a base lies: a readable name, and a hash that tells `a/b:c` from `a-b:c`."""
    reference = base.text if base.kind == BOOTSTRAP else base.reference
    readable = re.sub(r"[^a-zA-Z0-9.]+", "-", reference)[-80:]
    return f"{cache}/base/{readable}-{hashlib.sha256(reference.encode()).hexdigest()[:8]}.json"


def previous_pin_path(cache: str, base: BaseImage) -> str:
    """Where the record lies that the one of a base has replaced."""
    return base_pin_path(cache, base).removesuffix(".json") + ".previous.json"


def node_pin_path(cache: str, platform: str, version: str) -> str:
    """Where the record of an archive of Node's lies."""
    return f"{cache}/downloads/node-{version}-{NODE_PLATFORMS[platform]}.json"


def read_base_pin(cache: str, base: BaseImage) -> PinnedBase | None:
    """The recorded pin of a base, or None where there is none that can be read."""
    return _read_pin(base_pin_path(cache, base), base)


def read_previous_pin(cache: str, base: BaseImage) -> PinnedBase | None:
    """The pin before that one, or None."""
    return _read_pin(previous_pin_path(cache, base), base)


def _read_pin(path: str, base: BaseImage) -> PinnedBase | None:
    return parse_base_pin(_read(path), base)


def parse_base_pin(fields: dict[str, Any], base: BaseImage) -> PinnedBase | None:
    """A pin from what a record or a label holds, or None where that cannot be one."""
    try:
        pin = PinnedBase(**fields)
        _need(_SOURCE, pin.source)
        _need(_DIGEST, pin.digest)
        _need(_GENERATION, pin.generation)
        for moment in (pin.time, pin.tried):
            _need(_MOMENT, moment)
        for version in (pin.node, pin.agent):
            _need(_FOUND, version)
        pin = pin._replace(unpinned=bool(pin.unpinned), held=bool(pin.held))
    except (TypeError, ValueError):
        return None
    # The same image may have been asked for by another text: what is shown is today's.
    return pin._replace(reference=base.text)


def write_base_pin(cache: str, base: BaseImage, pin: PinnedBase) -> None:
    """Record a pin."""
    _write(base_pin_path(cache, base), pin._asdict())


def replace_base_pin(cache: str, base: BaseImage, pin: PinnedBase) -> None:
    """Record a pin, and keep the one that it replaces: `aisb update --rollback` goes back to it."""
    known = read_base_pin(cache, base)
    if known is not None:
        _write(previous_pin_path(cache, base), known._asdict())
    write_base_pin(cache, base, pin)


def read_node_pin(cache: str, spec: ImageSpec, base: PinnedBase | None) -> NodePin | None:
    """
    The recorded archive of the Node that belongs to the base's record.

    None where there is none that comes from where it was asked for.
    """
    version = node_version(spec.node_line, base)
    return parse_node_pin(_read(node_pin_path(cache, spec.platform, version)), spec, base)


def parse_node_pin(fields: dict[str, Any], spec: ImageSpec, base: PinnedBase | None) -> NodePin | None:
    """Node's archive from what a record or a label holds, or None where that cannot be it."""
    version = node_version(spec.node_line, base)
    try:
        pin = NodePin(**fields)
        archives = tuple((_need(_FILE, name), _need(_SHA256, digest)) for name, digest in pin.archives)
        pin = NodePin(_need(_VERSION, pin.version), _need(_ORIGIN, pin.origin), archives)
    except (TypeError, ValueError):
        return None
    return pin if spec.node_origin in ("", pin.origin) and pin.version == version else None


def write_node_pin(cache: str, platform: str, pin: NodePin) -> None:
    """Record what was downloaded."""
    _write(node_pin_path(cache, platform, pin.version), pin._asdict())


def read_pins(cache: str, base_image: str, node_line: str = NODE_LINE) -> str:
    """
    A text that changes when the records that decide an image do: cheap enough for every start.

    When the registry was last asked decides nothing.
    """
    pin = read_base_pin(cache, parse_base_image(base_image))
    decides = json.dumps(pin._replace(time="", tried="") if pin else None).encode()
    node = read_if_there(node_pin_path(cache, this_platform(), node_version(node_line, pin))) or b"-"
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
