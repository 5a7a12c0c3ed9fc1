"""Whatever stands in a record, it is shown as text that does nothing to a terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.records import read_record
from aisb.render.log import log_line, summary_lines, width_of
from gate.audit import Decision

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


def test_every_field_of_a_decision_is_read() -> None:
    """What the gate writes and what is read here have the same names."""
    assert set(Decision._fields) - {"rule_index"} < set(KEYS) | {"allowed", "bytes_out"}
