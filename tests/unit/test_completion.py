"""Completion: the files are what the tables say, and a real bash completes by them."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
import pytest

from aisb.cli.completion import all_verbs, completions
from aisb.cli.main import VERBS
from aisb.domain.harnesses import HARNESSES
from aisb.domain.images import NODE_VERSIONS
from aisb.domain.presets import PRESETS, REGISTRIES
from aisb.domain.run_record import COMMAND, End
from aisb.effects.run_record import ABOUT, RunRecord, new_fields, record_text
from aisb.effects.session import open_session
from aisb.render.completion import CHOICES

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "config/completions"
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


def completed(typed: str, directory: Path, environ: Mapping[str, str] | None = None) -> str:
    """What is offered after TAB, and the line that stands there then."""
    env = {**os.environ, **(environ or {})}
    flags = ["--norc", "--noprofile", "-i"]
    shell = pexpect.spawn("bash", flags, cwd=str(directory), encoding="utf-8", timeout=20, env=env)
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
        ("aisb hel", "aisb help "),
        ("aisb help doc", "aisb help doctor "),
        ("aisb help policy ch", "aisb help policy check "),
        ("aisb stop --pro", "aisb stop --project "),
    ],
)
def test_a_real_bash_completes(tmp_path: Path, typed: str, seen: str) -> None:
    (tmp_path / "something.yaml").write_text("")

    assert seen in completed(typed, tmp_path)


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("aisb stop ", "aisb stop 0a111111 "),
        ("aisb exec 0a", "aisb exec 0a111111 "),
        ("aisb allow --run ", "aisb allow --run 0a111111 "),
        ("aisb deny --run=0", "aisb deny --run=0a111111 "),
        ("aisb logs 0b", "aisb logs 0b222222 "),
        ("aisb inspect ", "0a111111  0b222222"),
    ],
)
def test_the_ids_of_runs_are_offered(tmp_path: Path, typed: str, seen: str) -> None:
    """Those that go on, and where what has ended is meant too those on record, by what `aisb` on the PATH says."""
    with tempfile.TemporaryDirectory(prefix="run-") as runtime:
        environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": runtime, "PYTHONPATH": str(ROOT)}
        state = f"{tmp_path}/.local/state/ai-sandbox"
        over = RunRecord(state, new_fields("0b222222", "/p"))
        over.begin()
        over.end(End(0, COMMAND, ""))
        open_session(f"{runtime}/aisb/r", "0a111111", {}, "{}", {ABOUT: record_text(new_fields("0a111111", "/p"))})
        (tmp_path / "aisb").write_text(f'#!/bin/sh\nexec {sys.executable} -m aisb "$@"\n')
        (tmp_path / "aisb").chmod(0o755)

        assert seen in completed(typed, tmp_path, {**environ, "PATH": f"{tmp_path}:{os.defpath}"})


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("aisb gate down ", "aisb gate down 0123456789ab "),
        ("aisb gate logs 01", "aisb gate logs 0123456789ab "),
        ("aisb clean --volume ", "aisb clean --volume aisb-home-web-0123ab "),
        ("aisb clean --volume=aisb", "aisb clean --volume=aisb-home-web-0123ab "),
    ],
)
def test_gates_and_homes_are_offered(tmp_path: Path, typed: str, seen: str) -> None:
    """The gates that have a directory, and what podman says of volumes that are homes."""
    (tmp_path / "aisb/g/0123456789ab").mkdir(parents=True)
    asked = "volume ls --quiet --filter label=aisb.role=home"
    (tmp_path / "podman").write_text(f'#!/bin/sh\n[ "$*" = "{asked}" ] && echo aisb-home-web-0123ab\n')
    (tmp_path / "podman").chmod(0o755)
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}"}

    assert seen in completed(typed, tmp_path, environ)
