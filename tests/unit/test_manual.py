"""The generated documents are what the tables say, and the tables know every verb, flag and exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aisb import errors
from aisb.cli.completion import all_verbs
from aisb.cli.help import run_help
from aisb.cli.main import VERBS
from aisb.cli.manual import ENDINGS, documents, entries, write_all
from aisb.cli.request import variable_of
from aisb.domain.options import CONFIGURABLE, OPTIONS
from aisb.render.manual import EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGES = documents()


@pytest.mark.parametrize("path", sorted(PAGES))
def test_a_committed_file_is_what_is_generated(path: str) -> None:
    """Else: make docs."""
    assert (ROOT / path).read_text() == PAGES[path]


def test_no_schema_is_left_of_an_earlier_form() -> None:
    assert sorted(path for path in PAGES if path.startswith("config/")) == sorted(
        f"config/schemas/{path.name}" for path in (ROOT / "config/schemas").iterdir()
    )


def test_what_is_written_is_all_of_it(tmp_path: Path) -> None:
    for path in PAGES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)

    write_all(str(tmp_path))

    assert {path: (tmp_path / path).read_text() for path in PAGES} == PAGES


def test_every_verb_has_a_section_and_says_how_it_ends() -> None:
    """As completion knows them, which main's own list is held against."""
    known = [entry.name for entry in entries()]

    assert sorted(known) == sorted(verb.words for verb in all_verbs())
    assert {name.partition(" ")[0] for name in known} == VERBS
    assert sorted(ENDINGS) == sorted(known)


def test_every_flag_of_a_verb_is_in_its_section() -> None:
    flags = {verb.words: {flag.name for flag in verb.flags} for verb in all_verbs()}
    found = {
        entry.name: set(re.findall(r"--([a-z-]+)", "\n".join(row.written for part in entry.parts for row in part.rows)))
        for entry in entries()
    }
    # Those of a run are not said once more.
    flags["learn"] -= flags["run"]
    flags["serve"] -= flags["run"]

    assert found == flags


def test_what_else_sets_a_flag_is_said() -> None:
    said = {row.written: row.layers for part in entries()[0].parts for row in part.rows}

    for option in OPTIONS:
        (layers,) = [found for written, found in said.items() if re.search(rf"--{option.name}(?: |$)", written)]
        assert (variable_of(option.name) in layers) == ("env" in option.layers), option.name
        assert ("config.yaml" in layers) == (option.name in CONFIGURABLE), option.name


def test_every_class_of_errors_has_its_exit_code_in_the_table() -> None:
    """And the help and the README name each."""
    classes = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, errors.AisbError)]
    codes = {str(item.exit_code) for item in classes}
    readme = (ROOT / "README.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]

    assert codes - {code for code, _ in EXIT_CODES} == set()
    assert [code for code in codes if not re.search(rf"\b{code}\b", readme)] == []
    assert [code for code in codes if not re.search(rf"\b{code}\b", run_help().partition("Exit codes:")[2])] == []


def test_a_cell_with_a_bar_stays_one() -> None:
    """`SRC[:DST][:ro|rw]` is no two columns."""
    rows = [line for line in PAGES["docs/cli.md"].splitlines() if line.startswith("| `--mount")]

    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 4
