"""The recipes of docs/pi.md, each executed as it stands there, with the names that are written there."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.sandbox import outside

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs/pi.md")
MODEL = "203.0.113.13"
TOKEN = "sk-a-token-of-ours-0123"
PREPARE = """
mkdir -p ~/.pi/agent
echo "$TOKEN_TEXT" >~/token
printf %s "$MODELS" >~/.pi/agent/models.json
cat >~/model.py
printf %s "$LINES" >~/recipe
"""


class Recipe(NamedTuple):
    """What a section says to write, and to type."""

    models: str
    lines: str


def recipe(title: str) -> Recipe:
    """The section of that title."""
    with open(PAGE, encoding="utf-8") as file:
        section = file.read().partition(f"\n### {title}\n")[2].partition("\n### ")[0]
    models, lines = (
        re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL) for kind in ("json", "sh")
    )
    return Recipe(*models, *lines)


def run(lab: Lab, title: str, command: str = "sh ~/recipe") -> tuple[str, str]:
    """What pi says, and aisb."""
    models, lines = recipe(title)
    variables = {"MODELS": models, "LINES": lines, "TOKEN_TEXT": TOKEN}
    result = lab.run(PREPARE + command, stdin=outside("model").encode(), env=variables)
    return result.text, result.errors


def test_a_gateway_of_your_own(lab: Lab) -> None:
    lab.names(f"llm.example.com A {MODEL}\n")

    said, errors = run(lab, "A gateway of your own", "touch listed; sh ~/recipe")

    assert said == "The tool said: listed\n\n", errors
    sent = [(item["host"], item["headers"].get("authorization")) for item in lab.sinks("request")]
    assert set(sent) == {("llm.example.com", f"Bearer {TOKEN}")}
    assert "; AI_API_TOKEN for llm.example.com stays in the gate\n" in errors


def test_a_model_on_this_machine(lab: Lab) -> None:
    said, errors = run(lab, "A model on this machine", "python3 ~/model.py 8080 sh ~/recipe")

    assert said == "the local model was told: Bearer unused\n", errors
    assert lab.sinks("request") == []


@pytest.mark.parametrize("flag", ["--pi-inject", ""], ids=["as it stands", "with the token inside"])
def test_a_vendors_api(lab: Lab, flag: str) -> None:
    """The laboratory's model does not speak this vendor's format: what counts is the key in the vendor's header."""
    lab.names(f"api.anthropic.com A {MODEL}\n")

    _, errors = run(lab, "A vendor's API", f"sed -i 's/--pi-inject/{flag}/' ~/recipe; sh ~/recipe")

    sent = [
        (item["host"], item["path"].partition("?")[0], item["headers"].get("x-api-key"))
        for item in lab.sinks("request")
    ]
    assert set(sent) == {("api.anthropic.com", "/v1/messages", TOKEN)}, errors
    where = "stays in the gate" if flag else "goes in (--pi-inject keeps it out)"
    assert f"; ANTHROPIC_API_KEY for api.anthropic.com {where}\n" in errors
