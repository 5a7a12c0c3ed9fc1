"""
Presets: names for lists of entries.

Those of services are data, each entry with its reason. Those of registries are read off the image when it is built:
the hosts that its own npm, pip and apt are configured to use, a company's mirrors included.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import AddressEntry, is_guarded
from aisb.domain.entries import parse_entry
from aisb.domain.entry_kinds import PresetEntry
from aisb.domain.names import EXACT, NameEntry
from aisb.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from aisb.domain.entry_kinds import Entry


class Item(NamedTuple):
    """An entry of a preset, and what it is there for."""

    entry: str
    reason: str


PRESETS: Mapping[str, tuple[Item, ...]] = {
    "anthropic": (
        Item("exact:api.anthropic.com", "the models, with an API key"),
        Item("exact:platform.claude.com", "claude, at its first start in a terminal, asks whether it is there"),
    ),
    "github": (
        Item("exact:github.com", "clone, fetch and push over HTTPS; pages"),
        Item("exact:api.github.com", "the API: issues, pull requests, releases"),
        Item("exact:codeload.github.com", "archives of a revision, where downloads lead"),
        Item("exact:raw.githubusercontent.com", "single files of a repository"),
        Item("exact:objects.githubusercontent.com", "files of Git LFS"),
        Item("exact:release-assets.githubusercontent.com", "files of a release, where downloads lead"),
    ),
    "openai": (Item("exact:api.openai.com", "the models, with an API key"),),
    "pi": (Item("exact:pi.dev", "pi asks whether there is a newer one"),),
}
# Preset -> the tool of the image that is asked.
REGISTRIES = {"apt": "apt", "npm": "npm", "pypi": "pip"}
REGISTRIES_LABEL = "aisb.registries"
# The package of the tool that an image has only where it was asked for.
_PACKAGES = {"pypi": "python3-pip"}
Registries = dict[str, tuple[str, ...]]


def preset_names() -> list[str]:
    """All that there are, sorted."""
    return sorted([*PRESETS, *REGISTRIES])


def need_preset(name: str, shown: str) -> None:
    """Raises UsageError for a name that is none. `shown` is what the error begins with."""
    if name in PRESETS or name in REGISTRIES:
        return
    near = get_close_matches(name, preset_names(), 1, cutoff=0.65)
    hint = f"write: @{near[0]}" if near else "see what there is: aisb policy presets"
    raise UsageError(f"{shown}: there is no preset of that name", hint=hint)


def parse_registries(text: str) -> Registries:
    """What an image's label says. Raises Unavailable for what no build of ours has written."""
    try:
        found = {str(name): tuple(map(str, entries)) for name, entries in json.loads(text).items()}
        for entry in (entry for entries in found.values() for entry in entries):
            _need_registry(parse_entry(entry))
    except (ValueError, AttributeError, TypeError, RecursionError, UsageError) as error:
        raise Unavailable(
            "what the image says of its registries cannot be read", hint="build it again: aisb build"
        ) from error
    return found


def _need_registry(entry: Entry) -> None:
    """
    Raises ValueError for an entry that no registry needs: the image may be somebody else's, and say anything.

    Ports of this machine, networks, all ports of an address, and what hands out its credentials are asked for
    by their own entries alone.
    """
    is_name = isinstance(entry, NameEntry) and entry.match == EXACT
    is_address = isinstance(entry, AddressEntry) and entry.is_single and entry.port is not None
    if not (is_name or is_address) or (isinstance(entry, AddressEntry) and is_guarded(entry.network)):
        raise ValueError(f"{entry.text()} is no place of a registry")


def items_of(name: str, registries: Callable[[], Registries]) -> tuple[Item, ...]:
    """The entries of a preset; none for a registry whose tool is not in the image, or fetches from nowhere."""
    if name in PRESETS:
        return PRESETS[name]
    reason = f"{REGISTRIES[name]} in the image is configured to use it"
    return tuple(Item(entry, reason) for entry in registries().get(name, ()))


def nothing_of(name: str) -> str:
    """What to say of a preset that stands for nothing here."""
    install = f"; with --install {_PACKAGES[name]} it has some" if name in _PACKAGES else ""
    return f"@{name} stands for nothing: {REGISTRIES[name]} in this image fetches from nowhere{install}"


def lacking(name: str, registries: Registries | None, installed: Collection[str]) -> str:
    """
    What to say of a registry's preset that stands for nothing here, "" of one that stands for something.

    `registries` are None where nobody has asked the image yet; of what will be in it then, the packages are known.
    """
    if registries is not None:
        return "" if registries.get(name) else nothing_of(name)
    package = _PACKAGES.get(name)
    if package is None or package in installed:
        return ""
    return f"@{name} stands for nothing without {REGISTRIES[name]} in the image: --install {package} puts it there"


def expanded(entries: Iterable[tuple[Entry, str]], registries: Callable[[], Registries]) -> Iterator[tuple[Entry, str]]:
    """The entries with those of presets in their places, each with its origin: where that stands, and its name."""
    for entry, origin in entries:
        if isinstance(entry, PresetEntry):
            for item in items_of(entry.name, registries):
                yield parse_entry(item.entry), f"{origin} {entry.text()}"
        else:
            yield entry, origin
