"""What an update says when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisb.domain.images import ImageNames, PinnedBase

_DIGITS = 19


def update_lines(
    before: PinnedBase | None,
    after: PinnedBase,
    names: ImageNames,
    changed: tuple[tuple[str, ...], ...] | None,
) -> list[str]:
    """The new generation, its base, and for each image its name and what has changed in it by package."""
    return [
        f"generation {after.generation}" + (f" (was {before.generation})" if before else ""),
        _base_line(before, after),
        *(
            line
            for number, (role, name) in enumerate(names._asdict().items())
            for line in (f"{role} {name}", *_changes(changed[number] if changed else None))
        ),
        *(["to go back: aisb update --rollback"] if before else []),
    ]


def update_json(
    before: PinnedBase | None,
    after: PinnedBase,
    names: ImageNames,
    changed: tuple[tuple[str, ...], ...] | None,
) -> dict[str, Any]:
    """The same for programs; what has changed is not known of a first generation."""
    lists = [list(found) for found in changed] if changed else [None] * len(names)
    return {
        "generation": after.generation,
        "was": before.generation if before else "",
        "base": after.reference,
        "digest": after.digest,
        "images": names._asdict(),
        "changed": dict(zip(names._fields, lists, strict=True)),
    }


def rollback_json(after: PinnedBase, names: ImageNames) -> dict[str, Any]:
    """Where one is now, for programs."""
    return update_json(None, after, names, None)


def _base_line(before: PinnedBase | None, after: PinnedBase) -> str:
    if before is None or before.digest == after.digest:
        return f"base {after.reference} {after.digest[:_DIGITS]}" + (" (unchanged)" if before else "")
    return f"base {after.reference} {before.digest[:_DIGITS]} -> {after.digest[:_DIGITS]}"


def _changes(changed: tuple[str, ...] | None) -> list[str]:
    if changed is None:
        return []
    return [f"  {line}" for line in changed or ("no package has changed",)]


def rollback_lines(after: PinnedBase, names: ImageNames) -> list[str]:
    """Where one is now, and that it stays so."""
    held = "it is not looked up again before the next: aisb update" if after.held else "it is the newest again"
    return [
        f"generation {after.generation}",
        f"base {after.reference} {after.digest[:_DIGITS]} ({held})",
        *(f"{role} {name}" for role, name in names._asdict().items()),
    ]
