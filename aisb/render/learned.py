"""What was learnt, as an allow list for a person to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.printing import printable
from aisb.domain.rules import SENTENCES
from aisb.render.cures import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.learned import Learned, Reached

_LONGEST_COMMAND = 100
_MOST_FAILED = 20
# As many entries as fit a line that somebody may want to type.
_MOST_ON_A_LINE = 5


def proposal(found: Learned, command: Sequence[str]) -> str:
    """The list, in the form of `.ai-sandbox/allow`, with what it is and how often each entry was needed."""
    lines = [f"# What this reached while everything public was open: {_shown(command)}"]
    lines += ["# Nothing of it is allowed yet. Take out what you do not know."]
    if not found.is_whole:
        lines += ["# The record was full: what came later is not here."]
    width = max((len(item.entry) for item in found.reached), default=0)
    lines += [f"{item.entry:<{width}}  # {_times(item)}" for item in found.reached]
    if not found.reached:
        lines += ["# Nothing that was not allowed already."]
    lines += _section(
        "Shorter, and wider",
        [f"{item.entry}  # in the place of {item.instead_of}" for item in found.wider],
    )
    failed = [f"{item.place} {SENTENCES.get(item.word, printable(item.word))}" for item in found.failed]
    lines += _section("Not proposed, because nothing came of it", failed[:_MOST_FAILED])
    if len(failed) > _MOST_FAILED:
        lines += [f"# ... and {len(failed) - _MOST_FAILED} more"]
    return "".join(f"{line}\n" for line in lines)


def command_with(found: Learned, flags: Sequence[str], command: Sequence[str]) -> str:
    """
    The same line with the list, to be pasted; "" where that would be too much for a line.

    `command` begins with its `--`.
    """
    if not 0 < len(found.reached) <= _MOST_ON_A_LINE:
        return ""
    entries = ",".join(item.entry for item in found.reached)
    line = quoted(("aisb", *flags, "--allow", entries, *command))
    return line if line.isprintable() and len(line) <= 2 * _LONGEST_COMMAND else ""


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"# {title}:", *(f"#   {line}" for line in lines)] if lines else []


def _times(item: Reached) -> str:
    ports = " and ".join(map(str, item.ports))
    return f"{item.times} {'time' if item.times == 1 else 'times'}, port {ports}"


def _shown(command: Sequence[str]) -> str:
    text = printable(quoted(command))
    return text if len(text) <= _LONGEST_COMMAND else f"{text[:_LONGEST_COMMAND]}..."
