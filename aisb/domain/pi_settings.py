"""pi's settings.json, rewritten for a sandbox: preferences go in, what points at the host's disk does not."""

from __future__ import annotations

import re
from typing import Any

from aisb.domain.pi_credentials import without_secrets
from aisb.domain.pi_models import Rewritten
from aisb.domain.pi_values import Drop

# Where a relative path starts from the directory of the host's own pi, or a package is fetched anew.
_OF_THE_HOST = frozenset({"extensions", "packages", "prompts", "sessionDir", "skills", "themes"})
# Commands that the host's pi runs, and the proxy that only the host reaches.
_OUTSIDE = {
    "httpProxy": "the sandbox has a proxy of its own",
    "npmCommand": "a command of this host",
    "selfUpdateCommand": "a command of this host",
}
_BUILT_IN = re.compile(r"[-+!]?builtin:.*")
# Every image has them.
_SHELLS = frozenset({"/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"})
_PATH = re.compile(r"(?:^|(?<=[\s'\"=:(,;|&]))(?:~|/(?!/))[^\s'\";|&)]*")


def rewrite_settings(settings: dict[str, Any], secrets: tuple[str, ...] = ()) -> Rewritten:
    """
    The settings without what is of no use, or is no business, inside.

    `secrets` are those of the other file: what holds one is left out. Raises nothing: an unknown setting stays, unless
    it names a path or holds a credential. Rewriting twice is rewriting once.
    """
    drops: list[Drop] = []
    kept = {name: value for name, value in settings.items() if not _is_outside(name, drops)}
    kept = {
        name: [item for item in value if _stays(name, item, drops)]
        if name in _OF_THE_HOST and isinstance(value, list)
        else value
        for name, value in kept.items()
    }
    kept = {name: value for name, value in kept.items() if name in settings and not _emptied(value, settings[name])}
    if isinstance(kept.get("sessionDir"), str):
        del kept["sessionDir"]
        drops.append(Drop("sessionDir", "a directory of this host"))
    kept = without_secrets(kept, secrets, (), "", drops)
    return Rewritten(_without_paths(kept, "", drops), tuple(drops))


def _is_outside(name: str, drops: list[Drop]) -> bool:
    why = _OUTSIDE.get(name)
    if why:
        drops.append(Drop(name, why))
    return why is not None


def _stays(name: str, item: object, drops: list[Drop]) -> bool:
    if isinstance(item, str) and _BUILT_IN.fullmatch(item):
        return True
    drops.append(Drop(name, "it is installed on this host, not in the sandbox"))
    return False


def _emptied(value: object, before: object) -> bool:
    return value == [] and before != []


def names_a_path(text: str) -> bool:
    """Whether the text has a path of the host in it: one that begins with `/` or `~`."""
    return any(found != "/" and found not in _SHELLS for found in _PATH.findall(text))


def _without_paths(value: Any, place: str, drops: list[Drop]) -> Any:  # noqa: ANN401  # JSON
    if isinstance(value, list):
        return [_without_paths(item, place, drops) for item in value if not _is_path(item, place, drops)]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        where = f"{place}.{name}" if place else name
        if not _is_path(item, where, drops):
            kept[name] = _without_paths(item, where, drops)
    return kept


def _is_path(value: object, place: str, drops: list[Drop]) -> bool:
    is_path = isinstance(value, str) and names_a_path(value)
    if is_path:
        drops.append(Drop(place, "it names a path of this host"))
    return is_path
