"""`make spike` without a laboratory: each fact that it measures is a row of docs/networking.md, and a difference counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.spike import FACTS, PAGE, Fact, main, rows

if TYPE_CHECKING:
    import pytest


def page() -> dict[str, str]:
    with open(PAGE, encoding="utf-8") as file:
        return rows(file.read())


def test_each_fact_is_documented_in_these_words() -> None:
    documented = page()

    assert {fact.tried: documented.get(fact.tried) for fact in FACTS} == {fact.tried: fact.found for fact in FACTS}
    assert next(iter(documented)) == FACTS[0].tried
    assert len(documented) > len(FACTS)


def test_a_difference_is_told_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be measured differs too, and what is not measured is named."""

    def fails() -> str:
        raise OSError("nobody is there")

    tried, found = FACTS[0].tried, FACTS[0].found
    codes = [
        main((Fact(tried, found, "touch", lambda: found),)),
        main((Fact(tried, found, "touch", lambda: "something else"),)),
        main((Fact(tried, found, "touch", fails),)),
        main((Fact("nobody wrote this down", found, "touch", lambda: found),)),
    ]

    lines = capsys.readouterr().out.splitlines()
    assert codes == [0, 1, 1, 1]
    assert [line for line in lines if "| touch |" in line] == [
        f"same   | {tried} | touch | {found} | {found}",
        f"DIFFERS | {tried} | touch | {found} | something else",
        f"DIFFERS | {tried} | touch | {found} | OSError: nobody is there",
        f"DIFFERS | nobody wrote this down | touch | (not documented) | {found}",
    ]
    others = [line.partition(" | ")[2] for line in lines if line.startswith("not measured again")]
    assert others[: len(page()) - 1] == list(page())[1:]
