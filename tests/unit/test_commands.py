"""Every command that README and recipes show has a test that executes it, and those of this file do so."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.cli.completion import all_verbs
from aisb.domain.trust import content_hash
from aisb.effects.safe_files import read_project_directory
from aisb.effects.trust import add_to_record
from tests.commands import HOW, PAGES, PREVIEW, ROOT, Block, blocks
from tests.image_values import CERTIFICATE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = ("preview", "as it is")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_has_a_row_and_every_row_a_command(page: str) -> None:
    """Whoever writes a command says how it is executed."""
    assert {command for block in blocks(page) for command in block.commands} == set(HOW[page])


@pytest.mark.parametrize("page", PAGES)
def test_no_command_hides_in_a_block_that_is_none(page: str) -> None:
    """A command stands in a fenced block; an indented one that begins so is of pages that nothing executes."""
    known = {command for block in blocks(page) for command in block.commands}
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^ {4}(?:\$ )?((?:aisb|make|git|podman|\./install\.sh) .*)$", text, re.MULTILINE)

    assert [line for line in indented if line not in known and not is_drawn(line)] == [] or page == "docs/pi.md"


def is_drawn(line: str) -> bool:
    """Whether it is of the picture."""
    return "   " in line or "->" in line


def test_every_end_to_end_test_that_is_named_is_there() -> None:
    named = {how.what for rows in HOW.values() for how in rows.values() if how.kind == "end to end"}
    missing = []
    for what in named:
        file, _, function = what.partition(": ")
        text = (ROOT / f"tests/e2e/test_{file}.py").read_text()
        missing += [what] if f"\ndef test_{function}(" not in text else []

    assert missing == []


def test_few_commands_are_not_executed() -> None:
    """And each says why."""
    reasons = [how.what for rows in HOW.values() for how in rows.values() if how.kind == "not"]

    assert all(reasons)
    assert len(reasons) <= 2


# Verbs are themselves; a run is only shown.
SHIM = """\
#!/bin/sh
case "$1" in
    init|logs|policy|trust) exec PYTHON -m aisb "$@" ;;
    *) exec PYTHON -m aisb --dry-run "$@" ;;
esac
"""
CONFIG = "allow: [exact:llm.example.com]\nenv: [AI_API_TOKEN]\n"
MODELS = """{"providers": {"gateway": {"baseUrl": "https://llm.example.com/v1", "api": "openai-completions",
"apiKey": "x", "models": [{"id": "large"}]}}}"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with what the commands name, an agent's socket, and a repository to stand in."""
    home = tmp_path / "home"
    for directory in (
        "src/billing-api",
        "reference",
        "datasets",
        "out",
        ".ssh",
        ".pi/agent",
        "bin",
        ".config/ai-sandbox",
    ):
        (home / directory).mkdir(parents=True)
    files = {
        "token": "sk-another-token-0123\n",
        ".ssh/known_hosts": "",
        "company.pem": CERTIFICATE,
        ".pi/agent/models.json": MODELS,
        ".config/ai-sandbox/config.yaml": CONFIG,
        "bin/aisb": SHIM.replace("PYTHON", sys.executable),
    }
    for name, text in files.items():
        (home / name).write_text(text)
    (home / "bin/aisb").chmod(0o755)
    (tmp_path / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as agent:
        # A socket's path is short, whatever pytest calls its directories.
        here = os.getcwd()
        os.chdir(home)
        agent.bind("agent")
        os.chdir(here)
        yield home


def shell(home: Path, script: str, directory: Path, hashed: str) -> subprocess.CompletedProcess[str]:
    """What a shell there makes of it."""
    environ = {
        "HOME": str(home),
        "PATH": f"{home}/bin:{os.defpath}:/usr/sbin:/sbin",
        "PYTHONPATH": str(ROOT),
        "XDG_RUNTIME_DIR": str(home.parent / "run"),
        "SSH_AUTH_SOCK": str(home / "agent"),
        "GITHUB_STEP_SUMMARY": str(home / "summary"),
        "AI_API_TOKEN": "sk-a-token-of-ours-0123",
        "TRUSTED": hashed,
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    begin = "git init -q -b main .; git -c user.name=a -c user.email=a@a.test commit -q --allow-empty -m x\n"
    return subprocess.run(
        ["bash", "-euc", begin + script],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def is_here(page: str, command: str) -> bool:
    """Whether it is executed here; one without a row is another test's trouble."""
    return command in HOW[page] and HOW[page][command].kind in HERE


def of_here() -> list[Block]:
    """The commands of each block that are executed here, where there are any."""
    found = [
        block._replace(commands=tuple(command for command in block.commands if is_here(page, command)))
        for page in PAGES
        for block in blocks(page)
    ]
    return [block for block in found if block.commands]


@pytest.mark.parametrize("block", of_here(), ids=lambda block: f"{block.page} {block.title} {block.commands[0][:30]}")
def test_commands_of_a_block_are_taken(home: Path, block: Block) -> None:
    """A run is previewed in a project that has what the page says of it, and everything else is done."""
    project = home / "src/billing-api"
    (project / "config").symlink_to(ROOT / "config")
    hashed = "" if "aisb init" in block.commands else trusted(home, project)

    done = shell(home, block.script, project, hashed)

    assert done.returncode == 0, f"{block.script}\n{done.stdout[-500:]}\n{done.stderr}"
    previews = [command for command in block.commands if HOW[block.page][command] == PREVIEW]
    assert done.stdout.count("podman run --rm --name aisb-run-") == len(previews)


def trusted(home: Path, project: Path) -> str:
    """Give the project a list, trust it, and return the hash that a script would name."""
    (project / ".ai-sandbox").mkdir()
    (project / ".ai-sandbox/allow").write_text("packages.example.com        # the company's mirror\n")
    (file,) = files = read_project_directory(str(project)).files
    add_to_record(f"{home}/.local/state/ai-sandbox", str(project), file)
    return content_hash(files)


INLINE = re.compile(r"`(aisb [^`]*)`")
VERBS = {verb.words: {flag.name for flag in verb.flags} for verb in all_verbs()}


def flags_of(command: str) -> tuple[str, set[str]]:
    """The verb of a command line, and the long flags that stand in its own part."""
    words = command.partition(" -- ")[0].split()[1:]
    for taken in (2, 1):
        if " ".join(words[:taken]) in VERBS:
            return " ".join(words[:taken]), flags_in(words[taken:])
    return "run", flags_in(words)


def flags_in(words: list[str]) -> set[str]:
    return {match[1] for word in words if (match := re.match(r"\[?--([a-z][a-z-]*)", word))}


@pytest.mark.parametrize(
    "page", sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
)
def test_flags_that_are_named_in_passing_are_those_of_their_verb(page: str) -> None:
    """In sentences and in blocks, of every page: no flag that was renamed is left."""
    text = (ROOT / page).read_text()
    strange = {}
    typed = [command for block in blocks(page) for command in block.commands if command.startswith("aisb")]
    for command in [*INLINE.findall(text), *typed]:
        verb, flags = flags_of(command)
        known = VERBS[verb] | (VERBS["run"] if verb == "learn" else set())
        # What follows the first word that is none of aisb's is the agent's.
        own = set() if verb == "run" and re.search(r" (-p|WORD)\b", command) else flags - known
        strange |= {command: own} if own else {}

    assert strange == {}
