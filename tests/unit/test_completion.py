"""Completion: the files are what the tables say, and a real bash completes by them."""

from __future__ import annotations

from pathlib import Path

import pexpect
import pytest

from aisb.cli.completion import all_verbs, completions
from aisb.cli.main import VERBS
from aisb.domain.harnesses import HARNESSES
from aisb.domain.images import NODE_VERSIONS
from aisb.domain.presets import PRESETS, REGISTRIES
from aisb.render.completion import CHOICES

DIRECTORY = Path(__file__).parents[2] / "config/completions"
PROMPT = "at the prompt> "


@pytest.mark.parametrize("name", ["aisb.bash", "_aisb", "aisb.fish"])
def test_a_file_is_what_the_tables_say(name: str) -> None:
    """Else: make completions."""
    assert (DIRECTORY / name).read_text() == completions()[name]


def test_every_verb_is_there() -> None:
    assert {verb.words.partition(" ")[0] for verb in all_verbs()} == VERBS


def test_values_that_are_offered_are_those_that_are_known() -> None:
    assert CHOICES["allow"] == tuple(sorted(f"@{name}" for name in (*PRESETS, *REGISTRIES)))
    assert CHOICES["harness"] == tuple(sorted(HARNESSES))
    assert CHOICES["node"] == tuple(sorted(NODE_VERSIONS))


SET_UP = (
    "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'",
    f"source {DIRECTORY}/aisb.bash",
    f"PS1='{PROMPT[:5]}''{PROMPT[5:]}'",
)


def completed(typed: str, directory: Path) -> str:
    """What is offered after TAB, and the line that stands there then."""
    shell = pexpect.spawn("bash", ["--norc", "--noprofile", "-i"], cwd=str(directory), encoding="utf-8", timeout=20)
    try:
        shell.setwinsize(50, 200)
        for line in SET_UP:
            shell.sendline(line)
        shell.expect_exact(PROMPT)
        # The line is made an argument of nothing, and printed from the history.
        shell.send(f"{typed}\t\x01: '\x05'\r")
        shell.expect_exact(PROMPT)
        offered = str(shell.before)
        shell.sendline("fc -ln -1 -1; echo 'the'' end'")
        shell.expect_exact("the end")
        return offered + str(shell.before)
    finally:
        shell.close(force=True)


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("aisb doc", "aisb doctor "),
        ("aisb doctor --st", "aisb doctor --strict "),
        ("aisb policy ch", "aisb policy check "),
        ("aisb policy check --no-", "aisb policy check --no-gate "),
        ("aisb --no-git", "aisb --no-git-identity "),
        ("aisb run --require", "aisb run --require-limits "),
        ("aisb --net fu", "aisb --net full "),
        ("aisb --net=fu", "aisb --net=full "),
        ("aisb --policy some", "aisb --policy something.yaml "),
        ("aisb trust some", "aisb trust something.yaml "),
        ("aisb --net none -- ls some", "aisb --net none -- ls something.yaml "),
        ("aisb --allow ", "@anthropic  @apt"),
        ("aisb --allow @", "@anthropic  @apt"),
        ("aisb --allow @n", "aisb --allow @npm "),
        ("aisb --allow=@n", "aisb --allow=@npm "),
        ("aisb learn --outp", "aisb learn --output "),
        ("ai-sandbox cle", "ai-sandbox clean "),
        ("aisb --env ", "aisb --env "),
    ],
)
def test_a_real_bash_completes(tmp_path: Path, typed: str, seen: str) -> None:
    (tmp_path / "something.yaml").write_text("")

    assert seen in completed(typed, tmp_path)
