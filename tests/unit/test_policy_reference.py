"""What docs/policy-reference.md lists is what the code's tables hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aisb.domain.addresses import AddressEntry
from aisb.domain.entries import parse_entry
from aisb.domain.entry_kinds import HostPortEntry, PresetEntry, RuleEntry
from aisb.domain.layers import PROJECT_LISTS, PROJECT_SCALARS
from aisb.domain.limits import PROJECT_CAPS
from aisb.domain.names import NameEntry
from aisb.domain.presets import PRESETS, REGISTRIES
from aisb.domain.trust import CONFIG_FILE
from aisb.domain.verdict import SENTENCES, Failure, Reason
from aisb.errors import UsageError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/policy-reference.md").read_text()


def section(title: str, page: str = PAGE) -> str:
    """What stands below a title, up to the next of the same rank or above."""
    rank = title.partition(" ")[0]
    return re.split(rf"^#{{1,{len(rank)}}} ", page.partition(f"\n{title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, less its head."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words_of(table: type) -> set[str]:
    return {value for name, value in vars(table).items() if name.isupper()}


def test_every_word_for_a_reason_is_there_in_its_own_words() -> None:
    found = {word.strip("`"): means for word, means, _ in rows(section("### Reasons"))}

    assert found == SENTENCES
    assert set(SENTENCES) == words_of(Reason) | words_of(Failure)


def test_every_preset_is_there_and_no_other() -> None:
    found = set(re.findall(r"`@([a-z]+)`", section("## Presets")))

    assert found == {*PRESETS, *REGISTRIES}


KINDS = {
    NameEntry: "name",
    AddressEntry: "address",
    HostPortEntry: "host's port",
    PresetEntry: "preset",
    RuleEntry: "rule",
}


@pytest.mark.parametrize("path", ["docs/policy-reference.md", "README.md"])
def test_every_form_of_an_entry_can_be_meant_and_every_kind_has_one(path: str) -> None:
    page = (ROOT / path).read_text()
    table = page.partition("| entry")[2].partition("\n\n")[0]
    entries = [entry for first, *_ in rows(table) for entry in re.findall(r"`([^`]*)`", first)]

    assert {KINDS[type(parse_entry(entry))] for entry in entries} == set(KINDS.values())


def test_what_the_table_of_forms_says_is_refused_is() -> None:
    refused = re.findall(r"`([^`]*)`", section("## Entries").partition("Refused is")[2])

    assert len(refused) == 4
    for entry in refused:
        with pytest.raises(UsageError):
            parse_entry(entry)


def test_the_keys_of_a_project_are_those_that_it_may_set() -> None:
    (row,) = [cells for cells in rows(section("## Sources")) if cells[0] == f"`{CONFIG_FILE}`"]

    assert set(re.findall(r"`([^`]*)`", row[1])) == PROJECT_SCALARS | PROJECT_LISTS | set(PROJECT_CAPS)
