"""`aisb clean` in words, and as the commands that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.clean import CONTAINER, IMAGE, VOLUME
from aisb.domain.images import SANDBOX
from aisb.domain.printing import printable, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisb.domain.clean import Removal

# Without --force: what a container has meanwhile stays.
_WORDS = {IMAGE: ("rmi",), VOLUME: ("volume", "rm"), CONTAINER: ("rm", "--force", "--volumes", "--time", "0")}


def removal_argv(podman: str, removal: Removal) -> tuple[str, ...]:
    """podman's argv that takes one thing away."""
    return (podman, *_WORDS[removal.kind], removal.name)


def removal_line(removal: Removal) -> str:
    """One thing, as it is listed."""
    size = f", {size_text(removal.size)}" if removal.size else ""
    # podman keeps a second copy of what sandboxes are made from, as its files belong to other ids there.
    copy = ", and podman's copy of it" if removal.about == SANDBOX else ""
    return f"{removal.kind} {removal.name} ({printable(removal.about)}{size}{copy})"


def clean_json(removals: Sequence[Removal], stays: Mapping[str, str], freed: int) -> dict[str, object]:
    """What was taken away, or would be, for programs; `stays` says of what could not be why, by its name."""
    return {
        "removals": [removal._asdict() | {"stays": stays.get(removal.name, "")} for removal in removals],
        "freed": freed,
    }


def clean_lines(removals: Sequence[Removal]) -> list[str]:
    """What would be taken away."""
    return [f"would remove {removal_line(removal)}" for removal in removals] or ["nothing to remove"]
