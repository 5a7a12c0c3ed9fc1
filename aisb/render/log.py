"""A run's record for people: an aligned line a decision, or a line a destination with what would allow it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import show_authority
from aisb.domain.live import CLOSING
from aisb.domain.printing import printable, size_text
from aisb.render.cures import cure_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.records import Record

# The longest word of a reason; a destination that is longer than its column pushes the rest to the right.
_WORD = len("secret-wrong-host")
_LONGEST_DESTINATION = 48
_FULL = "the record is full: what came later is not in it"
_RED, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"


class _Row(NamedTuple):
    """What decisions have in common that are one line of a summary."""

    allowed: bool
    word: str
    destination: str
    entry: str
    # The word of a user's that closed it while the run went on.
    closed_by: str = ""

    @property
    def cure(self) -> str:
        """The flag with the entry, to be pasted; "" where none would help."""
        return quoted(("--allow", self.entry)) if self.entry else ""

    @property
    def about(self) -> str:
        """What is said behind it."""
        return f"by {self.closed_by}" if self.closed_by else self.cure


def destination_of(record: Record) -> str:
    """Host and port, as far as they were understood."""
    host = printable(record.host)
    return (show_authority(host, record.port) if record.port else host) or "-"


def width_of(records: Iterable[Record]) -> int:
    """The column that holds most of these destinations."""
    return min(max((len(destination_of(record)) for record in records), default=0), _LONGEST_DESTINATION)


def log_line(record: Record, width: int, *, colour: bool) -> str:
    """One decision. Whatever was asked for, it is one line and moves no cursor."""
    if record.is_cut_off:
        return _FULL
    time = printable(record.time).replace("T", " ").removesuffix("Z")
    place = f"{destination_of(record):<{width}}"
    line = f"{time}  {_decision(record)}  {_word(record):<{_WORD}}  {place}  {_rest(record)}".rstrip()
    return _coloured(line, record) if colour else line


def summary_lines(records: Iterable[Record], *, colour: bool) -> list[str]:
    """Each destination once for each answer, the refused ones first, then what was asked for most often."""
    found = _count(records)
    count_width = max((len(str(count)) for _, count in found.rows), default=0)
    width = min(max((len(row.destination) for row, _ in found.rows), default=0), _LONGEST_DESTINATION)
    lines = [_summary_line(row, count, count_width, width, colour=colour) for row, count in found.rows]
    return [*([_FULL] if found.is_cut_off else []), *lines]


def summary_json(records: Iterable[Record]) -> list[dict[str, object]]:
    """The same for programs; `allow` is the entry that would open what was refused, "" where none would."""
    return [
        {
            "count": count,
            "decision": "allow" if row.allowed else "deny",
            "destination": row.destination,
            "reason": "" if row.word == "-" else row.word,
            "allow": row.entry,
        }
        for row, count in _count(records).rows
    ]


def summary_markdown(records: Iterable[Record]) -> list[str]:
    """The same as a table for the page of a CI job."""
    found = _count(records)
    if not found.rows:
        return []
    rows = [
        f"| {count} | {'allowed' if row.allowed else '**denied**'} | {_cell(row.destination)} "
        f"| {_cell('' if row.word == '-' else row.word)} | {_cell(row.about)} |"
        for row, count in found.rows
    ]
    note = ["", _FULL] if found.is_cut_off else []
    return ["| count | | destination | reason | would allow it |", "|---:|---|---|---|---|", *rows, *note]


def _cell(text: str) -> str:
    """Somebody else's text in a table: as code, which is no markup, and in one cell."""
    shown = text.replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown else ""


class _Counted(NamedTuple):
    rows: list[tuple[_Row, int]]
    is_cut_off: bool


def _count(records: Iterable[Record]) -> _Counted:
    found = list(records)
    counts = Counter(_row(record) for record in found if not record.is_cut_off)
    rows = sorted(counts.items(), key=lambda item: (item[0].allowed, -item[1], item[0]))
    return _Counted(rows, any(record.is_cut_off for record in found))


def _summary_line(row: _Row, count: int, count_width: int, width: int, *, colour: bool) -> str:
    start = f"{count:>{count_width}}  {'allow' if row.allowed else 'deny '}  {row.word:<{_WORD}}"
    line = f"{start}  {row.destination:<{width}}  {row.about}".rstrip()
    return f"{_RED}{line}{_PLAIN}" if colour and not row.allowed else line


def _row(record: Record) -> _Row:
    is_closed = record.allowed or record.rule.startswith(CLOSING)
    entry = "" if is_closed else cure_of(record.host, record.port, record.reason, record.add)
    closed_by = printable(record.rule) if is_closed and not record.allowed else ""
    return _Row(record.allowed, _word(record), destination_of(record), entry, closed_by)


def _decision(record: Record) -> str:
    return "allow" if record.allowed else "deny "


def _word(record: Record) -> str:
    """Why, or what became of it."""
    return printable(record.failed if record.allowed else record.reason) or "-"


def _rest(record: Record) -> str:
    return "  ".join(part for part in (_request(record), _sizes(record), _decided(record)) if part)


def _request(record: Record) -> str:
    named = f" (it named {printable(record.named)})" if record.named else ""
    return f"{printable(record.method)} {printable(record.path)}".strip() + named


def _sizes(record: Record) -> str:
    if not record.allowed:
        return ""
    return f"{size_text(record.bytes_out)} out, {size_text(record.bytes_in)} in, {record.seconds:.1f} s"


def _decided(record: Record) -> str:
    """The rule that decided, and where it was written."""
    rule, origin = printable(record.rule), printable(record.origin)
    return f"by {rule} ({origin})" if rule and origin else f"by {rule}" if rule else ""


def _coloured(line: str, record: Record) -> str:
    if not record.allowed:
        return f"{_RED}{line}{_PLAIN}"
    return f"{_YELLOW}{line}{_PLAIN}" if record.failed else line
