"""claude as the agent: the real program, its key in the gate, with a prompt and in a terminal."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

import pexpect

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


def test_claude_in_a_terminal(lab: Lab) -> None:
    """From its very first start: a colour, the key, the project, a question, its answer, and the way out."""
    value = key()
    with lab.terminal(RUN, env={"ANTHROPIC_API_KEY": value, "TERM": "xterm-256color"}, size=(40, 100)) as terminal:
        # A word each: between words it moves the cursor. Arrows go to the answer that is not proposed.
        for shown, keys in (
            ("style", "\r"),
            ("recommended", "\x1b[A\r"),
            ("Security", "\r"),
            ("trust", "\x1b[B\r"),
            ("effort", "How long is this?"),
            ("this?", "\r"),
            ("letters:17", "\x03"),
            ("again", "\x03"),
        ):
            terminal.expect(re.escape(shown))
            terminal.send(keys)
        terminal.expect(pexpect.EOF)

    assert ("/v1/messages", value) in keys_told(lab)


def test_an_image_holds_one_agent(lab: Lab) -> None:
    result = lab.run(
        "for name in pi claude; do aisb -q --harness $name --net none -- sh -c 'command -v pi claude'; done"
    )

    assert result.text.split() == ["/usr/local/bin/pi", "/usr/local/bin/claude"]


def test_a_start_says_what_claude_lacks(lab: Lab) -> None:
    """Its key is not passed in by itself, and no host is opened by naming it."""
    result = lab.run("aisb --harness claude --allow cdn.test --version", env={"ANTHROPIC_API_KEY": key()})

    assert result.text.startswith("2."), result.errors
    assert "ANTHROPIC_API_KEY is set here and stays out" in result.errors
    assert "to allow it: --allow @anthropic" in result.errors
