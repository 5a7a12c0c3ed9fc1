"""Why an image has to be built: what differs between two lists of inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Of these the value says nothing to a person.
_HASHES = {"containerfile": "the Containerfile", "fragment": "your own part of the Containerfile"}


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """
    What differs, a line a thing. That the Containerfile does is left out where something else explains it: each
    package and version is in it.
    """
    found = {key: list(_of(key, before.get(key), after.get(key))) for key in sorted(before.keys() | after.keys())}
    told = [line for key, lines in found.items() if key != "containerfile" for line in lines]
    return told or found.get("containerfile", [])


def _of(key: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    if key in ("files", "archives"):
        yield from _of_files(_named(old), _named(new))
    elif isinstance(old, list) and isinstance(new, list):
        yield f"{key}: {' '.join([*(f'- {item}' for item in old if item not in new), *_added(old, new)])}"
    elif key in _HASHES:
        yield f"{_HASHES[key]} is another"
    else:
        yield f"{key}: {_shown(old)} -> {_shown(new)}"


def _added(old: list[object], new: list[object]) -> list[str]:
    return [f"+ {item}" for item in new if item not in old]


def _named(listed: object) -> dict[str, object]:
    """A list of files by their paths, each with what is said of it."""
    items = listed if isinstance(listed, list) else []
    return {str(item[0]): item[1:] for item in items if isinstance(item, list) and item}


def _of_files(old: dict[str, object], new: dict[str, object]) -> Iterator[str]:
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            yield f"{path} is new"
        elif path not in new:
            yield f"{path} is gone"
        elif old[path] != new[path]:
            yield f"{path} has changed"


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)
