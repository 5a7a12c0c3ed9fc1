"""claude as the agent: the real program, its key in the gate, with a prompt and in a terminal."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING

from aisb.domain.options import BY_FLAG, SHORT_FLAGS
from tests.e2e.sandbox import outside
from tests.e2e.test_pi_config import LEAKED, OF_THE_HOST

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

RUN = "aisb --harness claude --allow @anthropic --inject ANTHROPIC_API_KEY@api.anthropic.com:X-Api-Key"
# A prompt whose command the model has it run.
ASK = "run `printenv ANTHROPIC_API_KEY >seen; id -u`"


def key() -> str:
    return f"sk-ant-api03-{secrets.token_urlsafe(70)}"


def keys_told(lab: Lab) -> set[tuple[str, str | None]]:
    return {
        (item["path"].partition("?")[0], item["headers"].get("x-api-key"))
        for item in lab.sinks("request", sink="api.anthropic.com")
        if item["method"] == "POST"
    }


def test_claude_answers_and_its_key_stays_in_the_gate(lab: Lab) -> None:
    """Nothing else is asked of the network, at its start neither."""
    value = key()

    result = lab.run(
        f"printf '%s' '{ASK}' >ask; {RUN} -p --allowedTools Bash <ask; cat seen", env={"ANTHROPIC_API_KEY": value}
    )

    *said, seen = result.text.splitlines()
    assert said == ["The tool said: 1000"], result.errors
    assert (seen == value, seen[:7], len(seen)) == (False, value[:7], len(value))
    assert keys_told(lab) == {("/v1/messages", value)}
    assert "denied" not in result.errors


def test_the_hosts_ways_out_and_certificates_are_not_claudes(lab: Lab) -> None:
    """The bundle that was given once is in each variable, and claude trusts it. (B24, C19)"""
    value = key()

    result = lab.run(
        f'printf "%s" "$ASK" >ask; {RUN} -p --allowedTools Bash <ask',
        env=OF_THE_HOST | {"ANTHROPIC_API_KEY": value, "ASK": f"run `{LEAKED}`"},
    )

    assert result.text == "The tool said: looked\n", result.errors
    assert keys_told(lab) == {("/v1/messages", value)}


def test_no_flag_of_ours_is_an_agents(lab: Lab) -> None:
    """What begins an agent's arguments is no flag of ours by chance, but for the three that every program has."""
    helps = [lab.run(f"aisb -q --net none {flags} --help") for flags in ("-- pi", "--harness claude -- claude")]

    ours = {*BY_FLAG, *SHORT_FLAGS}
    flags = [set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", shown.text)) for shown in helps]
    assert [("-p" in theirs, ours & theirs - {"-h", "--help", "--version"}) for theirs in flags] == [(True, set())] * 2


def test_claude_in_a_terminal(lab: Lab) -> None:
    """From its very first start: a colour, the key, the project, a question, its answer, a resize, and the way out."""
    value = key()
    steps = [
        ("see", "^host>"),
        ("type", f'{RUN}; echo "ended with $?"'),
        ("press", "Enter"),
        ("see", "text style"),
        ("press", "Enter"),
        ("see", "No .recommended"),
        ("press", "Up"),
        ("see", "❯ (1. )?Yes"),
        ("press", "Enter"),
        ("see", "Security notes"),
        ("press", "Enter"),
        ("see", "❯ No, exit"),
        # It takes no answer from anybody who cannot have read the question yet.
        ("run", "sleep 4"),
        ("press", "Down"),
        ("see", "❯ Yes, I trust this folder"),
        ("press", "Enter"),
        ("see", "effort"),
        ("type", "How long is this?"),
        ("see", "How long is this"),
        ("press", "Enter"),
        ("see", "letters:17"),
        ("resize", "80 30"),
        ("see", "^─{80}$"),
        ("press", "C-c"),
        ("see", "again to exit"),
        ("press", "C-c"),
        ("see", "^ended with 0$"),
    ]

    result = lab.run(
        'cat >~/tmux.py; printf %s "$STEPS" | python3 ~/tmux.py 100 40',
        stdin=outside("tmux").encode(),
        env={"ANTHROPIC_API_KEY": value, "STEPS": json.dumps(steps)},
        timeout=240,
    )

    assert result.code == 0, result.text + result.errors
    assert ("/v1/messages", value) in keys_told(lab)


def test_an_image_holds_one_agent(lab: Lab) -> None:
    result = lab.run(
        "for name in pi claude; do aisb -q --harness $name --net none -- sh -c 'ls /usr/local/bin | grep -x -e pi -e claude'; done"
    )

    assert result.text.split() == ["pi", "claude"]


def test_a_start_says_what_claude_lacks(lab: Lab) -> None:
    """Its key is not passed in by itself, and no host is opened by naming it."""
    result = lab.run("aisb --harness claude --allow cdn.test -v", env={"ANTHROPIC_API_KEY": key()})

    assert result.text.startswith("2."), result.errors
    assert "ANTHROPIC_API_KEY is set here and stays out" in result.errors
    assert "to allow it: --allow @anthropic" in result.errors
