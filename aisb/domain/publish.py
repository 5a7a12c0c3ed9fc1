"""Published ports: which port of this machine's loopback leads to which port of the sandbox."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.layers import Setting

ADDRESS = "127.0.0.1"
# The relay's own; gate/relay.py has the same, and a test compares them.
TAKEN_INSIDE = (3128, 3129, 3130)
_FLAG = "--publish"
_FORM = f"write: {_FLAG} 8080:3000, or {_FLAG} 3000 for one number on both sides"
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_FIRST = 1024
_LAST = 65535
# Of a port that is the system's: 80 becomes 8080, and 443 8443.
_FURTHER = 8000


class Published(NamedTuple):
    """A port of this machine's loopback, and the one inside that it leads to."""

    host: int
    port: int

    def text(self) -> str:
        """The shortest form that says it all."""
        return f"{self.host}:{self.port}"


def parse_published(settings: Iterable[Setting]) -> tuple[Published, ...]:
    """What the flags ask for, in their order. Raises UsageError for what cannot be, or not twice."""
    found: list[Published] = []
    for setting in settings:
        item = _parse(setting.value)
        for other in found:
            if item.host == other.host:
                what = f"port {item.host} of this machine leads to port {other.port} inside already"
                raise UsageError(f"{_FLAG} {setting.value}: {what}", hint="give each flag ports of its own")
            if item.port == other.port:
                what = f"port {item.port} inside is at {ADDRESS}:{other.host} already"
                raise UsageError(f"{_FLAG} {setting.value}: {what}", hint="leave one of the two out")
        found.append(item)
    return tuple(found)


def _parse(text: str) -> Published:
    address, host, port = _parts(text)
    if not (_NUMBER.fullmatch(port) and (_NUMBER.fullmatch(host) or host == "0")):
        raise UsageError(f"{_FLAG} {text!r} is no port, nor two", hint=_FORM)
    item = Published(int(host), int(port))
    if max(item) > _LAST:
        raise UsageError(f"{_FLAG} {text!r}: ports end at {_LAST}", hint=_FORM)
    if item.port in TAKEN_INSIDE:
        what = f"{_FLAG} {text!r}: port {item.port} of a sandbox is aisb's own"
        raise UsageError(what, hint="have the server inside take another")
    hint = f"write: {_FLAG} {_nearest(item).text()}"
    if address != ADDRESS:
        raise UsageError(f"{_FLAG} {text!r}: a server is published on {ADDRESS} and nowhere else", hint=hint)
    if item.host < _FIRST:
        raise UsageError(f"{_FLAG} {text!r}: the ports of this machine below {_FIRST} are not yours to take", hint=hint)
    return item


def _parts(text: str) -> tuple[str, str, str]:
    """The address, the host's port and the sandbox's, as they are written."""
    parts = text.rsplit(":", 2)
    if len(parts) == 1:
        return ADDRESS, text, text
    # As other programs take it: an address, and one number.
    if len(parts) == 2 and parts[0] and not parts[0].isdigit():
        return parts[0], parts[1], parts[1]
    address, host, port = parts if len(parts) == 3 else (ADDRESS, *parts)
    return address, host, port


def _nearest(item: Published) -> Published:
    """What may be meant by it."""
    if item.host >= _FIRST:
        return item
    host = item.host or item.port
    return item._replace(host=host if host >= _FIRST else host + _FURTHER)
