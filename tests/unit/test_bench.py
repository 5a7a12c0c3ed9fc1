"""The bench without a laboratory: its statistics, targets, tables, document, and drawings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench import plot
from tests.bench.client import rates
from tests.bench.figures import (
    FORMS,
    SCHEMA,
    STAGES,
    Figure,
    difference,
    figures_of,
    growth,
    least,
    lines,
    markdown,
    median,
    most,
    parse_timings,
    percentile,
    ratio,
    rounded,
    unmet,
)

TIMINGS = """\
aisb: ~/project at /project
aisb: python      60.1 ms
aisb: host        10.0 ms
aisb: plan        15.5 ms
aisb: gate         8.0 ms
aisb: begun      150.0 ms
aisb: checked      2.0 ms
aisb: rules       12.0 ms
aisb: launcher    30.0 ms
aisb: relay        4.0 ms
aisb: proved       9.0 ms
aisb: exec         1.0 ms
aisb: command     40.0 ms
aisb: clean-up     6.0 ms
"""
FIGURES = [
    ratio(
        "kept",
        "kept, over mitmproxy",
        {"aisb": [10.0, 30.0, 20.0], "mitmproxy": [5.0, 5.0, 5.0]},
        least(8),
        wish=least(9),
    ),
    difference(
        "warm", "a warm start, over podman", "ms", {"aisb": [400.0, 300.0], "podman": [200.0, 200.0]}, most(250)
    ),
    median("stage.python", "of a warm start: python", "ms", [61.0, 60.0, 65.0]),
    Figure("many", "answered", "", 500, least(500)),
]


def document(**hosts: list[Figure]) -> dict[str, Any]:
    """As tests/bench/run writes it, and as it is read again."""
    made = {
        "schema": SCHEMA,
        "date": "2026-01-02T03:04:05Z",
        "machine": {"processor": "A <fast> one", "cores": 2, "memory_mb": 2048, "kernel": "6.1"},
        "hosts": {
            name: {
                "versions": {"podman": "podman version 5.4.2", "srt": "0.0.1", "pasta": ""},
                "absent": {},
                "parts": {
                    "start": {"pairs": 5, "load": [0.5, 2.0], "figures": [figure.as_json() for figure in figures]}
                },
            }
            for name, figures in hosts.items()
        },
    }
    read: dict[str, Any] = json.loads(json.dumps(made))
    return read


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([1.0], 0.99, 1.0),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 201)), 0.99, 198),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], share: float, found: float) -> None:
    assert percentile(values, share) == found


def test_there_is_none_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_pairs_are_compared_round_by_round() -> None:
    """The median of the ratios, not the ratio of the medians: a round that is slow is so for both."""
    slow = {"one": [1.0, 10.0, 3.0], "other": [1.0, 5.0, 1.0]}

    assert ratio("", "", slow).value == 2.0
    assert difference("", "", "ms", slow).value == 2.0


def test_a_round_that_only_one_side_has_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        ratio("", "", {"one": [1.0], "other": [1.0, 2.0]})


def test_the_bound_itself_is_met() -> None:
    assert [least(2).is_met(2), least(2).is_met(1.9), most(2).is_met(2), most(2).is_met(2.1)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_figure_is_the_same_once_it_was_written_and_read() -> None:
    assert [Figure.of_json(json.loads(json.dumps(figure.as_json()))) for figure in FIGURES] == FIGURES


def test_the_document_has_these_fields() -> None:
    """Whoever reads it by `schema` finds them under these names."""
    assert FIGURES[0].as_json() == {
        "key": "kept",
        "words": "kept, over mitmproxy",
        "unit": "x",
        "value": 4.0,
        "target": {"at_least": 8},
        "wish": {"at_least": 9},
        "met": False,
        "rounds": {"aisb": [10.0, 30.0, 20.0], "mitmproxy": [5.0, 5.0, 5.0]},
    }
    assert SCHEMA == 1


def test_figures_have_five_digits() -> None:
    assert [rounded(value) for value in (123456.7, 0.123456789, 3)] == [123460.0, 0.12346, 3.0]


def test_the_stages_of_a_start_are_read_off_its_timings() -> None:
    assert parse_timings(TIMINGS) == {
        "python": 60.1, "policy": 25.5, "gate": 8.0, "podman": 150.0, "entrypoint": 2.0, "nft": 12.0, "launcher": 30.0,
        "relay": 4.0, "probe": 9.0, "command": 41.0, "clean-up": 6.0,
    }  # fmt: skip
    assert list(parse_timings(TIMINGS)) == list(STAGES)


@pytest.mark.parametrize(
    ("text", "words"),
    [(f"{TIMINGS}aisb: dancing      1.0 ms\n", "'dancing'"), ("aisb: python 60.0 ms\n", "no timings")],
)
def test_timings_that_are_not_understood_are_an_error(text: str, words: str) -> None:
    """A phase that is new, and a run that came to no command."""
    with pytest.raises(ValueError, match=words):
        parse_timings(text)


def test_a_table_says_both_sides_the_target_and_whether_it_is_met() -> None:
    assert lines(FIGURES) == [
        "  kept, over mitmproxy          4.00x  aisb 20, mitmproxy 5  at least 8.00x: MISSED",
        "  a warm start, over podman  150.0 ms  aisb 350, podman 200  at most 250.0 ms: met",
        "  of a warm start: python     61.0 ms",
        "  answered                        500                        at least 500: met",
    ]


def test_every_unit_can_be_shown() -> None:
    assert {figure.unit for figure in FIGURES} <= FORMS.keys()


def test_what_is_missed_what_failed_and_who_is_absent_is_left() -> None:
    """An empty cell is no success."""
    made = document(debian13=FIGURES, debian12=[])
    made["hosts"]["debian12"]["parts"]["gate"] = {"figures": [], "fault": "exited 1"}
    made["hosts"]["debian12"]["absent"]["srt"] = "bwrap: no"

    assert unmet(made) == ["debian13: kept, over mitmproxy", "debian12: gate: exited 1", "debian12: srt: bwrap: no"]
    assert figures_of(made, "debian13") == FIGURES


def test_a_page_has_a_column_for_each_host() -> None:
    assert markdown(document(debian13=FIGURES[:2], debian12=[FIGURES[1], FIGURES[3]])) == [
        "| figure | target | debian13 | debian12 |",
        "|---|---|---|---|",
        "| kept, over mitmproxy | ≥ 8.00x | **4.00x: missed** | not measured |",
        "| a warm start, over podman | ≤ 250.0 ms | 150.0 ms | 150.0 ms |",
        "| answered | ≥ 500 | not measured | 500 |",
    ]


@pytest.mark.parametrize(
    ("values", "found"),
    [({1: 1.0, 5: 5.0, 20: 20.0}, 1.0), ({1: 1.0, 5: 10.0, 20: 20.0}, 2.0), ({1: 4.0, 20: 20.0}, 0.25)],
)
def test_growth_is_that_of_the_worst_step(values: dict[int, float], found: float) -> None:
    assert growth(values) == found


def test_what_is_drawn_is_well_formed_and_says_all_of_it() -> None:
    import xml.etree.ElementTree as ET

    stages = [Figure(f"stage.{name}", name, "ms", 10.0 * number) for number, name in enumerate(STAGES, start=1)]
    paths = [Figure(f"path.{path}.{what}", path, "/s", 1234.0) for path in plot.PATHS for what in plot.PANELS]
    made = document(debian13=[*FIGURES, *stages, *paths], debian12=[])

    texts = [
        [element.text for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")]
        for drawn in (plot.stages_drawing(made), plot.paths_drawing(made))
    ]

    assert [text for text in texts[0] if text in STAGES] == list(STAGES)
    assert texts[1].count("1,234") == len(plot.PATHS) * len(plot.PANELS)


def test_what_is_drawn_depends_on_the_document_alone() -> None:
    made = document(debian13=FIGURES)

    assert plot.stages_drawing(made) == plot.stages_drawing(json.loads(json.dumps(made)))


def test_the_page_says_when_on_what_with_what_and_under_which_load() -> None:
    assert plot.block(document(debian13=[])).splitlines()[:3] == [
        "Measured on 2026-01-02 at 03:04 UTC, on 2 cores of A <fast> one, 2 GB, kernel 6.1.",
        "",
        "- debian13: podman 5.4.2, srt 0.0.1; load 0.5 to 2.0.",
    ]


def test_a_page_without_its_marks_is_not_written() -> None:
    page = f"before\n{plot.BEGIN}\nold\n{plot.END}\nafter\n"

    assert plot.with_block(page, "new") == f"before\n{plot.BEGIN}\nnew\n{plot.END}\nafter\n"
    with pytest.raises(ValueError, match="both marks"):
        plot.with_block("before\nafter\n", "new")


def committed() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((plot.FOLDER / "figures.json").read_text())
    return read


def test_the_page_and_its_drawings_are_those_of_the_document() -> None:
    """Nobody has written a figure by hand: tests/bench/plot.py makes all of it."""
    made = committed()
    page = plot.PAGE.read_text()

    assert plot.with_block(page, plot.block(made)) == page
    assert (plot.FOLDER / "stages.svg").read_text() == plot.stages_drawing(made)
    assert (plot.FOLDER / "paths.svg").read_text() == plot.paths_drawing(made)


def test_both_hosts_have_all_figures() -> None:
    """An empty cell would be a figure that nobody missed."""
    made = committed()
    keys = {host: [figure.key for figure in figures_of(made, host)] for host in made["hosts"]}

    assert made["schema"] == SCHEMA
    assert list(keys) == ["debian13", "debian12"]
    assert keys["debian13"] == keys["debian12"]
    assert [part for host in made["hosts"].values() for part in host["parts"].values() if "fault" in part] == []


def test_rates_are_those_of_all_that_was_asked() -> None:
    assert rates(4, 2.0, [0.001, 0.003, 0.002, 0.1]) == {"rate": 2.0, "p50": 2.0, "p99": 100.0}
