"""`aisb logs`: what a run was allowed and refused, while it runs and afterwards."""

from __future__ import annotations

import os
import select
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.output import answer, answer_some, colour, say
from aisb.domain.answers import answer_text
from aisb.domain.records import Record, is_wanted, parse_since, read_record
from aisb.effects.records import follow, recorded
from aisb.effects.situation import need_directory
from aisb.effects.state import preview_directories
from aisb.errors import UsageError
from aisb.render.log import log_line, summary_json, summary_lines, summary_markdown, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.effects.records import Recorded

# A line is seen that much later at most.
_PAUSE_MILLISECONDS = 500
# Where nobody knows yet which destinations come.
_WIDTH_TO_FOLLOW = 32
_MOST_NAMED = 5


class Wish(NamedTuple):
    """What is to be shown of a record, and how."""

    follow: bool = False
    denied: bool = False
    json: bool = False
    summary: bool = False
    markdown: bool = False
    since: str = ""


def logs_verb(run: str, project: str, wish: Wish) -> int:
    """Print the record of a run: the one that is named, or the last one of the project that is here."""
    if wish.json and wish.markdown:
        raise UsageError("--json and --markdown exclude each other", hint="leave one of the two out")
    if wish.markdown and not wish.summary:
        raise UsageError("--markdown is a form of the summary", hint="write: aisb logs --summary --markdown")
    wish = wish._replace(since=parse_since(wish.since, datetime.now(UTC)) if wish.since else "")
    # A run that is named by its id is found from anywhere, also from a directory that is gone.
    is_asked = project != os.curdir or run in ("", os.curdir)
    place = _place_of(project) if is_asked else ""
    if is_asked:
        need_directory(place)
    found = recorded(preview_directories(os.environ))
    chosen = _named(run, place, found) if run else _last(place, found)
    if chosen is None:
        say(f"no run of {place} has a record yet")
        if wish.summary and wish.json:
            answer(answer_text({"run": "", "destinations": []}))
        return 0
    if not _show(chosen, wish):
        still = "so far " if chosen.session else ""
        say(f"run {chosen.run}: {still}nothing {'like that ' if _is_narrow(wish) else ''}is on record")
    return 0


def _place_of(project: str) -> str:
    try:
        return os.path.realpath(project)
    except FileNotFoundError:
        hint = "change to one that does, or name the project (--project DIR) or a run (aisb logs ID)"
        raise UsageError("the current directory no longer exists", hint=hint) from None


def _is_narrow(wish: Wish) -> bool:
    return wish.denied or bool(wish.since)


def _last(project: str, found: list[Recorded]) -> Recorded | None:
    return next((item for item in reversed(found) if item.project == project), None)


def _named(run: str, project: str, found: list[Recorded]) -> Recorded:
    """
    The run whose id begins so; `.` is this project's only one that runs. Raises UsageError for none, and for many.
    """
    if run == ".":
        known = [item for item in found if item.project == project]
        candidates = [item for item in known if item.session]
        near, said = [], f"of {project} goes on"
    else:
        known, candidates = found, [item for item in found if item.run.startswith(run)]
        near, said = _nearest(run, found), f"is named {run!r}"
    if len(candidates) == 1:
        return candidates[0]
    how_many = "more than one run" if candidates else "no run with a record"
    raise UsageError(f"{how_many} {said}", hint=_others_line([item.run for item in candidates], near, known))


def _others_line(meant: list[str], near: list[str], known: list[Recorded]) -> str:
    """Which runs there are in the place of what was named."""
    first = "they are" if meant else "the nearest:" if near else "the last ones:"
    named = meant or near or [item.run for item in reversed(known)]
    shown = ", ".join(named[:_MOST_NAMED]) + (", ..." if len(named) > _MOST_NAMED else "")
    return f"{first} {shown}" if shown else "see what runs: aisb ps"


def _nearest(run: str, found: list[Recorded]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(run, [item.run for item in reversed(found)], n=3, cutoff=0.4)


def _show(chosen: Recorded, wish: Wish) -> bool:
    """Print what is wanted of it; whether there was anything."""
    lines = _lines(chosen, wish)
    if wish.summary:
        records = (record for _, record in lines)
        if wish.json:
            answer(answer_text({"run": chosen.run, "destinations": summary_json(records)}))
            return True
        rows = summary_markdown(records) if wish.markdown else summary_lines(records, colour=colour())
        answer("".join(f"{row}\n" for row in rows))
        return bool(rows)
    if wish.json:
        return _print(line for line, _ in lines)
    if wish.follow and chosen.session:
        return _print(log_line(record, _WIDTH_TO_FOLLOW, colour=colour()) for _, record in lines)
    decisions = [record for _, record in lines]
    width = width_of(decisions)
    return _print(log_line(record, width, colour=colour()) for record in decisions)


def _print(lines: Iterable[str]) -> bool:
    is_any = False
    for line in lines:
        is_any = True
        answer_some(f"{line}\n")
    answer("")
    return is_any


def _lines(chosen: Recorded, wish: Wish) -> Iterator[tuple[str, Record]]:
    """The lines that are wanted, as they stand in the file and as values. What a start itself tries is only in JSON."""
    for line in _whole_lines(chosen, wish):
        record = read_record(line)
        if record is None or (record.is_probe and (wish.summary or not wish.json)):
            continue
        if is_wanted(record, denied=wish.denied, since=wish.since):
            yield line, record


def _whole_lines(chosen: Recorded, wish: Wish) -> Iterator[str]:
    """Lines as the gate writes them: what is no printable ASCII is none of its."""
    wait = _wait if wish.follow else None
    try:
        yield from map(_text, follow(chosen, wait))
    except FileNotFoundError:
        # It ended between the look around and this one.
        again = [item for item in recorded(preview_directories(os.environ)) if item.run == chosen.run]
        for item in again:
            yield from map(_text, follow(item, wait))


def _text(line: bytes) -> str:
    text = line.decode("ascii", "replace")
    return text if text.isascii() and text.isprintable() else ""


def _wait() -> None:
    """Let what is known be seen, and wait a while; BrokenPipeError as soon as nobody reads any more."""
    answer("")
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    if output.poll(_PAUSE_MILLISECONDS):
        raise BrokenPipeError
