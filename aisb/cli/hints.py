"""Hints for a command line that may not mean what it says. They change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.cli.splitter import first_unknown_flag
from aisb.domain.options import BY_FLAG

if TYPE_CHECKING:
    from aisb.cli.splitter import Split


def hints_for(split: Split) -> list[str]:
    """What a person who typed this may want to know."""
    if not split.harness:
        return []
    return [hint for hint in (_close_flag(split), _late_flag(split), _looks_like_a_command(split)) if hint]


def _close_flag(split: Split) -> str | None:
    flag = first_unknown_flag(split.harness)
    nearest = flag and nearest_flag(flag)
    return f"{flag} goes to the agent; aisb's own flag is {nearest}" if nearest else None


def nearest_flag(flag: str) -> str | None:
    """The flag of ours that was probably meant, or None."""
    from difflib import get_close_matches

    name = flag.partition("=")[0]
    return next(iter(get_close_matches(name, BY_FLAG, n=1, cutoff=0.75)), None)


def _late_flag(split: Split) -> str | None:
    late = next((word for word in split.harness[1:] if word.partition("=")[0] in BY_FLAG), None)
    return (
        f"{late} comes after the agent's arguments began, so it goes to the agent; aisb's flags come first"
        if late
        else None
    )


def _looks_like_a_command(split: Split) -> str | None:
    import shutil

    word = split.harness[0]
    if word.startswith("-") or " " in word or len(split.harness) < 2 or shutil.which(word) is None:
        return None
    return f"this goes to the agent as a prompt; to run {word} itself: aisb -- {' '.join(split.harness)}"
