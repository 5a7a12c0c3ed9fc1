"""`aisb ps` in words: a line a run, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisb.domain.net import ALLOW, PINNED
from aisb.domain.printing import printable, size_text
from aisb.domain.run_record import ended_words
from aisb.render.gates import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = ("RUN", "UP", "MEMORY", "DENIED", "GATE", "POLICY", "COMMAND", "PROJECT")
_HEAD_OF_ALL = ("RUN", "STARTED", "STATE", "TIME", *_HEAD[2:], "REASON")
_LONGEST_REASON = 100
# What does not apply, and what could not be told.
_NONE, _UNTOLD = "-", "unknown"


def run_lines(runs: Sequence[dict[str, Any]], *, everything: bool) -> list[str]:
    """A head and a line each; nothing where there is none. Ports have a column where a run publishes any."""
    if not runs:
        return []
    rows = [_HEAD_OF_ALL if everything else _HEAD, *(_row(run, everything=everything) for run in runs)]
    if any(run["publish"] for run in runs):
        cells = ("PORTS", *(printable(" ".join(run["publish"])) or _NONE for run in runs))
        place = rows[0].index("COMMAND")
        rows = [(*row[:place], cell, *row[place:]) for row, cell in zip(rows, cells, strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(run: dict[str, Any], *, everything: bool) -> tuple[str, ...]:
    lasted = _UNTOLD if run["seconds"] is None else duration(run["seconds"])
    return (
        run["run"],
        *((printable(run["started"]), ended_words(run)) if everything else ()),
        lasted,
        _memory(run),
        _denied(run),
        _gate(run),
        _policy(run),
        printable(run["command"]) or _NONE,
        printable(run["project"]) or _NONE,
        *((_reason(run),) if everything else ()),
    )


def _reason(run: dict[str, Any]) -> str:
    """Why it ended so, where its exit code alone does not say it; all of it is in the record."""
    if run["state"] == "running" or run["exit"] == 0:
        return _NONE
    text = printable(run["reason"])
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _memory(run: dict[str, Any]) -> str:
    if run["state"] != "running":
        return _NONE
    return _UNTOLD if run["memory"] is None else size_text(run["memory"])


def _denied(run: dict[str, Any]) -> str:
    """Without a gate nothing counts what the kernel refuses."""
    if run["gate"] is None:
        return _NONE
    if run["denials"] is None:
        return _UNTOLD
    return f"{run['denials']}{'+' if run['isRecordFull'] else ''}"


def _gate(run: dict[str, Any]) -> str:
    if run["gate"] is None:
        return _NONE
    if run["state"] != "running" or run["gateListens"]:
        return str(run["gate"])
    return f"{run['gate']} ({'ended' if run['gateListens'] is False else _UNTOLD})"


def _policy(run: dict[str, Any]) -> str:
    """The mode of its network, and how many entries open something in it."""
    if run["net"] not in (ALLOW, PINNED):
        return printable(run["net"]) or _UNTOLD
    if run["allows"] is None:
        return f"{run['net']} {_UNTOLD}"
    return f"{run['net']} {run['allows']} {'entry' if run['allows'] == 1 else 'entries'}"
