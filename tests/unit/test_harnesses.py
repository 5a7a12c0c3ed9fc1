"""The agents that an image can hold: their rows, the command, the image, and what is said of one without its key."""

from __future__ import annotations

import pytest

from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.entries import parse_entry
from aisb.domain.harnesses import HARNESSES, PI, parse_harness
from aisb.domain.images import SANDBOX, labels
from aisb.domain.presets import PRESETS
from aisb.domain.variables import is_name
from aisb.errors import UsageError
from aisb.render.agent import agent_lines, model_lines
from aisb.render.images import containerfile, image_inputs
from tests.image_values import make_inputs

CLAUDE = HARNESSES["claude"]


@pytest.mark.parametrize("name", HARNESSES)
def test_every_row_is_whole(name: str) -> None:
    """A token has a header and a host that takes it, and each variable is one."""
    row = HARNESSES[name]

    assert row.name == name
    assert all(map(is_name, (*row.variables, *([row.token] if row.token else []))))
    assert bool(row.token) == bool(row.header) == bool(row.preset)
    assert row.bridge or row.preset in PRESETS


@pytest.mark.parametrize(
    ("line", "held", "harness", "command"),
    [
        (["hello"], PI, PI, ("pi", "hello")),
        (["--harness", "claude", "-p", "hello"], "claude", "claude", ("claude", "-p", "hello")),
        (["--harness", "claude", "--", "claude", "-p"], "claude", "", ("claude", "-p")),
        (["--harness=claude", "--shell"], "claude", "", ("/bin/bash", "-l")),
    ],
)
def test_the_command_is_the_agent_that_the_image_holds(
    line: list[str], held: str, harness: str, command: tuple[str, ...]
) -> None:
    request = read_request(split(["--net", "none", *line], frozenset()), {})

    assert (request.wanted.harness, request.harness, request.command) == (held, harness, command)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cluade", "write: claude"),
        ("codex", "one of: claude pi"),
        ("", "one of: claude pi"),
        ("pi; x", "one of: claude pi"),
    ],
)
def test_another_name_is_refused_with_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_harness(text, "c:3: harness")
    assert (caught.value.message, caught.value.hint) == (
        f"c:3: harness {text!r} is no agent that an image can hold",
        hint,
    )


def test_an_image_says_which_agent_it_holds() -> None:
    images = {}
    for name, row in HARNESSES.items():
        inputs = make_inputs(harness=row)
        images[name] = {
            key: value for key, value in labels(SANDBOX, inputs, {}) if key.startswith(("aisb.ha", "aisb.pi-"))
        }
        assert image_inputs(SANDBOX, inputs)["agent"] == f"{inputs.agent_package}@{row.version}"

    assert images == {
        "claude": {"aisb.harness": "claude", "aisb.harness-version": CLAUDE.version},
        "pi": {
            "aisb.harness": "pi",
            "aisb.harness-version": "1.6.0",
            "aisb.pi-package": "@earendil-works/pi-coding-agent",
            "aisb.pi-version": "1.6.0",
        },
    }


@pytest.mark.parametrize(("platform", "word"), [("linux/amd64", "linux-x64"), ("linux/arm64", "linux-arm64")])
def test_a_program_of_a_platform_is_that_ones(platform: str, word: str) -> None:
    text = containerfile(SANDBOX, make_inputs(harness=CLAUDE, platform=platform))

    package = f"@anthropic-ai/claude-code-{word}"
    assert f" {package} {CLAUDE.version} claude claude\n" in text
    assert f" finish sandbox claude {CLAUDE.version}\n" in text


KEY = (
    "note: ANTHROPIC_API_KEY is set here and stays out; to leave it in the gate: "
    "--inject ANTHROPIC_API_KEY@api.anthropic.com:X-Api-Key"
)
CLOSED = "note: claude speaks to {}, which nothing allows; to allow it: --allow @anthropic"
HOSTS = ("api.anthropic.com", "platform.claude.com")


@pytest.mark.parametrize(
    ("passed", "has_key_here", "allowed", "lines"),
    [
        ((), False, HOSTS, []),
        ((), True, HOSTS, [KEY]),
        (("ANTHROPIC_API_KEY",), True, HOSTS, []),
        ((), False, (), [CLOSED.format(" and ".join(HOSTS))]),
        ((), True, HOSTS[1:], [KEY, CLOSED.format(HOSTS[0])]),
        (("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"), True, (), []),
        (("ANTHROPIC_BASE_URL",), True, (), [KEY.replace(HOSTS[0], "HOST")]),
    ],
)
def test_a_start_says_what_an_agent_lacks(
    passed: tuple[str, ...], has_key_here: bool, allowed: tuple[str, ...], lines: list[str]
) -> None:
    found = agent_lines(CLAUDE, passed, has_key_here=has_key_here, opened=lambda place: place[0] in allowed)

    assert list(found) == lines


def test_what_it_says_can_be_typed() -> None:
    entry = KEY.rpartition("--inject ")[2]
    request = read_request(split(["--allow", "@anthropic", "--inject", entry, "x"], frozenset()), {})

    assert [(item.variable, item.host, item.header) for item in request.wanted.injections] == [
        ("ANTHROPIC_API_KEY", "api.anthropic.com", "X-Api-Key")
    ]
    assert parse_entry("@anthropic").text() == "@anthropic"


def test_a_pi_without_models_is_told_where_they_come_from() -> None:
    """Not where a key goes in: pi has models of its own for that."""
    (line,) = model_lines({"LANG", "GIT_AUTHOR_NAME"})

    assert "cp config/examples/models.json ~/.pi/agent" in line
    assert model_lines({"LANG", "ANTHROPIC_API_KEY"}) == ()
