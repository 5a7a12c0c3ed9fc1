"""podman's own settings, as far as they add something to every container: a run finds it there, and refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE = "containers"
_ADDS = ("devices", "volumes")
# Tried: podman 4.3 does not heed these, 5.4 does.
_ADDS_LATER = ("env_host", "mounts", "privileged", "read_only")
_LATER = (5, 0)


class Setting(NamedTuple):
    """A setting of the table `[containers]` in a file of podman's; `counts` where the podman here heeds it."""

    file: str
    key: str
    counts: bool

    def __str__(self) -> str:
        return f"{self.key} in {self.file}"


def settings_in_the_way(documents: Mapping[str, Mapping[str, Any]], podman: tuple[int, int]) -> list[Setting]:
    """The settings with which runs are refused, those that count first. `documents` are podman's files, by path."""
    found = []
    for path, document in documents.items():
        table = document.get(_TABLE)
        if isinstance(table, dict):
            found += [Setting(path, key, True) for key in _ADDS if table.get(key)]
            found += [Setting(path, key, podman >= _LATER) for key in _ADDS_LATER if table.get(key)]
    return sorted(found, key=lambda setting: not setting.counts)
