"""What an image holds, as its `/etc/aisb/manifest.txt` lists it, and what is different between two."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/etc/aisb/manifest.txt"
# It is shown as it is: what could do something to a terminal is no name of a package.
_LINE = re.compile(r"(deb|node|npm) ([!-~]+) ([!-~]+)")


class Package(NamedTuple):
    """One package: `deb`, `npm` or `node` itself, its name and its version."""

    kind: str
    name: str
    version: str


def parse_manifest(text: str) -> tuple[Package, ...]:
    """The packages in the order of the text; a line that is none is left out."""
    return tuple(Package(*match.groups()) for line in text.splitlines() if (match := _LINE.fullmatch(line)))


def changes(before: tuple[Package, ...], after: tuple[Package, ...]) -> list[str]:
    """What is different, a line a package: `curl 8.1 -> 8.2`, `+ jq 1.7`, `- jq 1.7`. npm's are named as such."""
    return list(_changes(_versions(before), _versions(after)))


def _versions(packages: tuple[Package, ...]) -> dict[str, tuple[str, ...]]:
    """npm may have one package in several versions."""
    found: dict[str, tuple[str, ...]] = {}
    for kind, name, version in packages:
        key = f"npm:{name}" if kind == "npm" else name
        found[key] = (*found.get(key, ()), version)
    return found


def _changes(before: dict[str, tuple[str, ...]], after: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = (", ".join(versions.get(name, ())) for versions in (before, after))
        if old and new and old != new:
            yield f"{name} {old} -> {new}"
        elif old != new:
            yield f"+ {name} {new}" if new else f"- {name} {old}"
