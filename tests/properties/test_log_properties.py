"""Whatever stands in a record, it is shown as text that does nothing to a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.names import PROBED
from aisb.domain.records import Denials, count_denials, read_record
from aisb.render.log import log_line, summary_lines, width_of
from gate.audit import Audit, Decision

KEYS = (
    "time",
    "host",
    "method",
    "path",
    "reason",
    "rule",
    "origin",
    "named",
    "failed",
    "add",
    "port",
    "bytes_in",
    "seconds",
)
values = st.text() | st.integers() | st.floats() | st.none() | st.lists(st.integers(), max_size=2) | st.booleans()
lines = st.builds(
    lambda decision, fields: json.dumps({**fields, "decision": decision}),
    st.sampled_from(["allow", "deny"]),
    st.dictionaries(st.sampled_from(KEYS), values),
)


@given(st.lists(lines, min_size=1, max_size=5))
def test_each_record_is_one_printable_line(texts: list[str]) -> None:
    records = [record for text in texts if (record := read_record(text)) is not None]
    shown = [log_line(record, width_of(records), colour=False) for record in records]

    assert len(shown) == len(texts)
    assert [line for line in [*shown, *summary_lines(records, colour=False)] if not line.isprintable()] == []


@given(st.text() | st.binary())
def test_whatever_a_line_is_it_is_a_record_or_none(line: str | bytes) -> None:
    assert read_record(line) is None


# What somebody would say who wants to be counted as something else.
WORDS = ('"decision": "deny"', '"decision": "allow"', f'"host": "{PROBED[0]}"', "AUDIT", "limit", *PROBED)
said = st.text(max_size=5) | st.sampled_from(WORDS)
decisions = st.builds(
    lambda host, method, path, allowed: Decision(host, 80, method, path, allowed, "" if allowed else "not-listed", ""),
    said, said, said, st.booleans(),
)  # fmt: skip


@given(st.lists(decisions, max_size=8), st.sampled_from([500, 1 << 20]))
def test_denials_are_counted_as_they_are_read(given_decisions: list[Decision], largest: int) -> None:
    """Whatever was asked for: a quote in it is escaped. What did not fit any more is no denial."""
    with TemporaryDirectory() as directory:
        audit = Audit(f"{directory}/audit", "0000000a", largest)
        for decision in given_decisions:
            audit.write(decision)
        audit.close()
        found = Path(directory, "audit").read_bytes().splitlines(keepends=True)
    records = [record for line in found if (record := read_record(line)) is not None]
    denied = [item for item in records if not (item.allowed or item.is_probe or item.is_cut_off)]

    assert count_denials(found) == Denials(len(denied), is_whole=not any(item.is_cut_off for item in records))


def test_every_field_of_a_decision_is_read() -> None:
    """What the gate writes and what is read here have the same names."""
    assert set(Decision._fields) - {"rule_index"} < set(KEYS) | {"allowed", "bytes_out"}
