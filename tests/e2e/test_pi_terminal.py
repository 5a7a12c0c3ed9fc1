"""pi in a terminal: typed into, resized, interrupted and left, and continued another day; and it calls nobody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.e2e.sandbox import outside
from tests.e2e.test_pi_config import MODELS, SETTINGS, config, provider, tokens_at

if TYPE_CHECKING:
    from tests.e2e.lab import Lab, Result

PREPARE = """
mkdir -p ~/.pi/agent
printf %s "$MODELS" >~/.pi/agent/models.json
printf %s "$SETTINGS" >~/.pi/agent/settings.json
cat >~/tmux.py
"""
RUN = "aisb --allow llm.test"
START = [("see", "^host>"), ("type", f'{RUN}; echo "ended with $?"'), ("press", "Enter")]
# The last line of its screen names the model. It is drawn before pi takes a message: hence `enter` for the first.
IS_UP = ("see", r" stub$")
LEAVE = [("press", "C-d"), ("see", r"^ended with 0$"), ("see", r"^host>$")]


def in_tmux(lab: Lab, *sessions: list[tuple[str, str]], after: str = "") -> Result:
    """Take the steps, each session in a shell of its own; then a command of `sh`."""
    files = config({"defaultProvider": "gw", "defaultModel": "stub"}, gw=provider("llm.test"))
    names = [f"STEPS_{number}" for number in range(len(sessions))]
    lines = [f'printf %s "${name}" | python3 ~/tmux.py 100 30 || exit' for name in names]
    variables = {
        "MODELS": files[MODELS],
        "SETTINGS": files[SETTINGS],
        "AI_API_TOKEN": "a-token-of-ours",
        **{name: json.dumps(steps) for name, steps in zip(names, sessions, strict=True)},
    }
    script = "\n".join([PREPARE, *lines, after])
    return lab.run(script, stdin=outside("tmux").encode(), env=variables, timeout=240)


def line(columns: int) -> tuple[str, str]:
    """Its box is as wide as the terminal."""
    return "see", rf"^─{{{columns}}}$"


def test_pi_in_a_terminal_is_typed_into_resized_interrupted_and_left(lab: Lab) -> None:
    """The answer comes, the box has the new width, ^C takes the draft away, ^D ends it, and the shell is back."""
    steps = [
        *START,
        IS_UP,
        line(100),
        ("type", "Say: `echo answer-$((6*7))`"),
        ("enter", "The tool said: answer-42"),
        ("resize", "70 20"),
        line(70),
        ("type", "a draft that nobody sends"),
        ("see", "^a draft that nobody sends"),
        ("press", "C-c"),
        ("miss", "a draft that nobody sends"),
        IS_UP,
        *LEAVE,
        ("type", "stty -a | grep -o -E '(-?icanon|-?echo) '; echo 'still'' here'"),
        ("press", "Enter"),
        ("see", "^still here$"),
    ]

    result = in_tmux(lab, steps)

    assert result.code == 0, result.text + result.errors
    assert [word.strip() for word in result.text.splitlines()[-5:] if "icanon" in word or "echo " in word] != []
    assert "-icanon" not in result.text.rpartition("ended with 0")[2]
    assert tokens_at(lab) == [("llm.test", "Bearer a-token-of-ours")]


def test_a_conversation_is_continued_another_day(lab: Lab) -> None:
    """The project's home keeps it; the second run has another gate and another sandbox. Nothing counts as edited."""
    first = [
        *START,
        IS_UP,
        ("type", "Say: `echo first-$((6*7))`"),
        ("enter", "said: first-42"),
        *LEAVE,
    ]
    second = [
        ("see", "^host>"),
        ("type", f'{RUN} --continue; echo "ended with $?"'),
        ("press", "Enter"),
        ("see", "The tool said: first-42"),
        IS_UP,
        *LEAVE,
    ]

    result = in_tmux(lab, first, second)

    assert result.code == 0, result.text + result.errors
    assert "edited inside" not in result.text


def test_pi_calls_nobody_when_it_starts(lab: Lab) -> None:
    """Neither for news of itself nor to be counted: nothing is refused. Without PI_OFFLINE its own host is."""
    quiet = [*START, IS_UP, ("type", "`echo asked`"), ("enter", "said: asked"), *LEAVE]
    denied = "aisb logs --denied 2>&1"
    calls = [
        ("see", "^host>"),
        ("type", f'{RUN.replace("aisb", "aisb --env PI_OFFLINE=")}; echo "ended with $?"'),
        ("press", "Enter"),
        IS_UP,
        ("run", f"{denied} | grep -q pi.dev"),
        *LEAVE,
    ]

    silent = in_tmux(lab, quiet, after=denied)
    loud = in_tmux(lab, calls)

    assert silent.code == 0, silent.text + silent.errors
    assert "aisb: denied" not in silent.text
    assert "nothing like that is on record" in silent.text
    assert loud.code == 0, loud.text + loud.errors
    assert "aisb: denied pi.dev" in loud.text
