"""`aisb logs`: what a run was allowed and refused, while it runs and afterwards."""

from __future__ import annotations

import os
import select
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.output import answer, answer_some, colour, say
from aisb.domain.answers import answer_text
from aisb.domain.printing import printable
from aisb.domain.records import Record, is_wanted, parse_since, read_record
from aisb.effects.records import follow, recorded, recorded_or_without_gate
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
    place = _place_of(project) if is_asked else _place_if_there(project)
    if is_asked:
        need_directory(place)
    found = recorded_or_without_gate(preview_directories(os.environ))
    chosen = _named(run, place, found) if run else _last(place, found)
    if chosen is None:
        say(f"no run of {place} has a record yet")
        if wish.summary and wish.json:
            answer(answer_text({"run": "", "destinations": []}))
        return 0
    if not chosen.has_gate:
        return _say_without_gate(chosen, wish)
    # Of the lines in JSON each names its run.
    heading = "" if run or wish.json else f"{_titled(chosen)}, the last one of {place}:"
    if not _show(chosen, wish, heading):
        still = "so far " if chosen.session else ""
        say(f"run {chosen.run}: {still}nothing {'like that ' if _is_narrow(wish) else ''}is on record")
    return 0


def _titled(chosen: Recorded) -> str:
    """The run and when it began."""
    when = printable(chosen.started[:16].replace("T", " "))
    return f"run {chosen.run} ({when} UTC)" if when else f"run {chosen.run}"


def _say_without_gate(chosen: Recorded, wish: Wish) -> int:
    """That no older run's record is meant in the place of this one's, which it has not."""
    say(f"{_titled(chosen)}: it {'has' if chosen.session else 'had'} no gate, so nothing is recorded")
    if wish.summary and wish.json:
        answer(answer_text({"run": chosen.run, "destinations": []}))
    return 0


def _place_of(project: str) -> str:
    try:
        return os.path.realpath(project)
    except FileNotFoundError:
        hint = "change to one that does, or name the project (--project DIR) or a run (aisb logs ID)"
        raise UsageError("the current directory no longer exists", hint=hint) from None


def _place_if_there(project: str) -> str:
    try:
        return os.path.realpath(project)
    except FileNotFoundError:
        return ""


def _is_narrow(wish: Wish) -> bool:
    return wish.denied or bool(wish.since)


def _last(project: str, found: list[Recorded]) -> Recorded | None:
    return next((item for item in reversed(found) if item.project == project), None)


def _named(run: str, project: str, found: list[Recorded]) -> Recorded:
    """
    The run whose id begins so; `.` is this project's only one that runs. Raises UsageError for none, and for many.
    """
    # What other projects ran is nothing to propose here.
    known = [item for item in found if item.project == project]
    if run == ".":
        candidates, said = [item for item in known if item.session], f"of {project} goes on"
    else:
        candidates, said = [item for item in found if item.run.startswith(run)], f"is named {run!r}"
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        named = ", ".join(item.run for item in candidates[:_MOST_NAMED])
        more = ", ..." if len(candidates) > _MOST_NAMED else ""
        raise UsageError(f"more than one run {said}", hint=f"they are {named}{more}")
    raise UsageError(f"no run with a record {said}", hint=_other_line(run, [item.run for item in known]))


def _other_line(run: str, runs: list[str]) -> str:
    """The line for the run of this project whose id is the nearest, or else for its last one."""
    from difflib import get_close_matches

    if near := get_close_matches(run, runs[::-1], n=1, cutoff=0.4):
        return f"did you mean: aisb logs {near[0]}"
    return f"the last one here: aisb logs {runs[-1]}" if runs else "see what ran: aisb ps --all"


def _show(chosen: Recorded, wish: Wish, heading: str) -> bool:
    """Print what is wanted of it, the heading on stderr before it; whether there was anything."""
    lines = _lines(chosen, wish)
    if wish.summary:
        records = (record for _, record in lines)
        if wish.json:
            answer(answer_text({"run": chosen.run, "destinations": summary_json(records)}))
            return True
        rows = summary_markdown(records) if wish.markdown else summary_lines(records, colour=colour())
        return _print(rows, heading)
    if wish.json:
        return _print(line for line, _ in lines)
    if wish.follow and chosen.session:
        return _print((log_line(record, _WIDTH_TO_FOLLOW, colour=colour()) for _, record in lines), heading)
    decisions = [record for _, record in lines]
    width = width_of(decisions)
    return _print((log_line(record, width, colour=colour()) for record in decisions), heading)


def _print(lines: Iterable[str], heading: str = "") -> bool:
    is_any = False
    for line in lines:
        if heading and not is_any:
            say(heading)
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
