"""A run's record, as people see it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from aisb.domain.records import Record, is_wanted, parse_since, read_record
from aisb.errors import UsageError
from aisb.render.log import log_line, summary_lines, summary_markdown, width_of

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LINE = {
    "time": "2026-03-01T11:00:00.123Z", "run": "1a2b3c4d", "host": "a.test", "port": 443, "method": "CONNECT",
    "path": "", "decision": "allow", "reason": "", "rule": "a.test", "origin": ".ai-sandbox/allow:3",
    "bytes_out": 7, "bytes_in": 1234, "seconds": 1.25,
}  # fmt: skip
DENIED = {**LINE, "host": "evil.test", "decision": "deny", "reason": "not-listed", "rule": "", "origin": ""}
CUT_OFF = {**DENIED, "host": "", "port": 0, "method": "AUDIT", "reason": "limit"}


def record(line: dict[str, Any]) -> Record:
    found = read_record(json.dumps(line))
    assert found is not None
    return found


def test_a_decision_is_one_aligned_line() -> None:
    lines = [
        LINE,
        DENIED,
        {**DENIED, "port": 0, "host": "x.evil.test", "method": "RESOLVE", "reason": "dns"},
        {**LINE, "failed": "unresolved", "host": "2001:db8::5", "origin": "", "bytes_in": 0},
        {**DENIED, "method": "POST", "path": "/x", "reason": "method", "rule": "a.test rule 1: ALLOW GET /x", "origin": "p.yaml:5"},
        {**DENIED, "reason": "name-mismatch", "named": "c.test"},
        CUT_OFF,
    ]  # fmt: skip
    records = [record(line) for line in lines]
    width = width_of(records)

    assert [log_line(item, width, colour=False) for item in records] == [
        "2026-03-01 11:00:00.123  allow  -                  a.test:443         CONNECT  7 B out, 1.2 kB in, 1.2 s  by a.test (.ai-sandbox/allow:3)",
        "2026-03-01 11:00:00.123  deny   not-listed         evil.test:443      CONNECT",
        "2026-03-01 11:00:00.123  deny   dns                x.evil.test        RESOLVE",
        "2026-03-01 11:00:00.123  allow  unresolved         [2001:db8::5]:443  CONNECT  7 B out, 0 B in, 1.2 s  by a.test",
        "2026-03-01 11:00:00.123  deny   method             evil.test:443      POST /x  by a.test rule 1: ALLOW GET /x (p.yaml:5)",
        "2026-03-01 11:00:00.123  deny   name-mismatch      evil.test:443      CONNECT (it named c.test)",
        "the record is full: what came later is not in it",
    ]


def test_colour_is_for_what_was_refused_and_what_failed() -> None:
    lines = [log_line(record(line), 0, colour=True) for line in (LINE, DENIED, {**LINE, "failed": "unresolved"})]

    assert [(line[:5], line[-4:]) for line in lines] == [
        ("2026-", "w:3)"),
        ("\x1b[31m", "\x1b[0m"),
        ("\x1b[33m", "\x1b[0m"),
    ]


def test_what_was_asked_for_moves_no_cursor_and_begins_no_line() -> None:
    strange = "\x1b[2J\x07\n\u202e\x9b"
    fields = ("time", "host", "method", "path", "reason", "rule", "origin", "named", "failed", "add")
    lines = [{**line, key: strange} for line in (LINE, DENIED) for key in fields]

    shown = [log_line(record(line), 0, colour=False) for line in lines]
    shown += summary_lines(map(record, lines), colour=False)
    assert [line for line in shown if not line.isprintable()] == []
    assert "\\x1b[2J\\x07\\n\\u202e\\x9b" in shown[1]


def test_a_summary_says_each_destination_once_with_the_entry_that_would_allow_it() -> None:
    path = {**DENIED, "host": "a.test", "reason": "path", "add": "GET a.test/it's"}
    lines = [LINE] * 12 + [DENIED, path, DENIED, {**DENIED, "port": 22, "reason": "port"}, {**DENIED, "host": "com"}]

    assert summary_lines(map(record, [*lines, CUT_OFF]), colour=False) == [
        "the record is full: what came later is not in it",
        " 2  deny   not-listed         evil.test:443  --allow evil.test",
        " 1  deny   not-listed         com:443",
        " 1  deny   path               a.test:443     --allow 'GET a.test/it'\"'\"'s'",
        " 1  deny   port               evil.test:22   --allow evil.test:22",
        "12  allow  -                  a.test:443",
    ]


def test_a_summary_says_of_what_a_user_has_closed_by_which_word() -> None:
    """It is no entry that is missing, and a denial from before that word is another line."""
    lines = [DENIED, *2 * [{**DENIED, "rule": "aisb deny evil.test"}]]

    assert summary_lines(map(record, lines), colour=False) == [
        "2  deny   not-listed         evil.test:443  by aisb deny evil.test",
        "1  deny   not-listed         evil.test:443  --allow evil.test",
    ]
    assert summary_markdown(map(record, lines[1:]))[2:] == [
        "| 2 | **denied** | `evil.test:443` | `not-listed` | `by aisb deny evil.test` |"
    ]


def test_a_summary_for_a_page_is_a_table_in_which_nothing_that_was_asked_for_is_markup() -> None:
    hostile = {**DENIED, "host": "a|b`<img src=x>[l](http://x)", "add": ""}

    assert summary_markdown(map(record, [LINE, LINE, DENIED, hostile, CUT_OFF])) == [
        "| count | | destination | reason | would allow it |",
        "|---:|---|---|---|---|",
        "| 1 | **denied** | `[a\\|b'<img src=x>[l](http://x)]:443` | `not-listed` |  |",
        "| 1 | **denied** | `evil.test:443` | `not-listed` | `--allow evil.test` |",
        "| 2 | allowed | `a.test:443` |  |  |",
        "",
        "the record is full: what came later is not in it",
    ]
    assert summary_markdown([]) == []


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("30s", "2026-03-01T11:59:30.250Z"),
        ("90m", "2026-03-01T10:30:00.250Z"),
        ("2h", "2026-03-01T10:00:00.250Z"),
        ("1d", "2026-02-28T12:00:00.250Z"),
        ("2026-02-28", "2026-02-28T00:00:00.000Z"),
        ("2026-02-28T09:30", "2026-02-28T09:30:00.000Z"),
        ("2026-02-28 09:30:01Z", "2026-02-28T09:30:01.000Z"),
        ("2026-02-28T09:30:01.5", "2026-02-28T09:30:01.500Z"),
    ],
)
def test_a_time_is_a_moment_or_how_long_ago(text: str, time: str) -> None:
    assert parse_since(text, NOW) == time


@pytest.mark.parametrize(
    "text", ["2", "h", "2w", "-2h", "999999d", "2026-13-01", "09:30", "yesterday", "2h ", "\u0662h"]
)
def test_what_is_no_time_is_an_error_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="is no time") as raised:
        parse_since(text, NOW)
    assert raised.value.hint == "write: 30m, 2h, 1d, or a time in UTC: 2026-01-31T09:30"


def test_only_what_is_wanted_is_shown_but_that_it_is_full_is_always_said() -> None:
    early = {**DENIED, "time": "2026-03-01T10:59:59.999Z"}
    wanted = [
        is_wanted(record(line), denied=True, since="2026-03-01T11:00:00.000Z")
        for line in (LINE, DENIED, early, {**CUT_OFF, "time": ""})
    ]

    assert wanted == [False, True, False, True]


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "7", "{}", '{"decision": "maybe"}', "[" * 100_000, '{"time": "2026', b"\xff"]
)
def test_what_is_no_record_is_none(line: str | bytes) -> None:
    assert read_record(line) is None


def test_what_is_of_the_wrong_kind_is_empty() -> None:
    line = '{"decision": "deny", "host": 7, "port": "443", "bytes_in": -1, "bytes_out": true, "seconds": 1e999, "path": null}'

    found = read_record(line)
    assert found == read_record('{"decision": "deny"}')
    assert found is not None
    assert log_line(found, 0, colour=False) == "  deny   -                  -"
