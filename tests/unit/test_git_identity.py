"""Who commits inside: what git says for every repository of the caller, asked once, and nowhere near a project."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from aisb.effects.git_identity import git_identity
from aisb.effects.process import Command, Finished, SystemRunner
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/usr/bin:/bin"
ADA = {
    b"GIT_AUTHOR_NAME": b"Ada Example",
    b"GIT_AUTHOR_EMAIL": b"ada@example.com",
    b"GIT_COMMITTER_NAME": b"Ada Example",
    b"GIT_COMMITTER_EMAIL": b"ada@example.com",
}


class Counting(SystemRunner):
    """The system, and what it was asked."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def run(self, command: Command) -> Finished:
        self.commands.append(command)
        return super().run(command)


class Box:
    """A caller with a home and a cache of their own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        self.home = home
        self.path = PATH
        self.runner = Counting()

    def config(self, text: str, name: str = ".gitconfig") -> None:
        (self.home / name).parent.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text(text)

    def asked(self, project: str = "/p") -> dict[bytes, bytes]:
        environ = {"HOME": str(self.home), "PATH": self.path}
        return git_identity(environ, str(self.home / "cache"), self.runner, project)

    @property
    def questions(self) -> int:
        return len(self.runner.commands)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    return Box(tmp_path, monkeypatch)


def test_git_is_asked_once_in_the_root_and_again_when_a_file_of_its_has_changed(box: Box) -> None:
    """An included file counts, also one that is not there yet."""
    box.config("[user]\n name = Ada Example\n[include]\n path = ~/more\n path = later\n")
    box.config("[user]\n email = ada@example.com\n", "more")

    assert [box.asked(), box.asked()] == [ADA, ADA]
    assert [(command.argv, command.cwd) for command in box.runner.commands] == [
        (("/usr/bin/git", "config", "--global", "--includes", "--list", "--show-origin", "--null"), "/")
    ]
    box.config("[user]\n email = ada@example.org\n", "more")
    assert box.asked()[b"GIT_COMMITTER_EMAIL"] == b"ada@example.org"
    box.config("[user]\n name = Ada\n", "later")
    assert box.asked()[b"GIT_AUTHOR_NAME"] == b"Ada"
    assert (box.questions, box.asked(), box.questions) == (3, box.asked(), 3)


def test_the_other_place_of_the_configuration_counts_too(box: Box) -> None:
    box.config("[user]\n name = Ada Example\n", ".config/git/config")

    assert box.asked() == {name: value for name, value in ADA.items() if name.endswith(b"NAME")}


def test_nobody_is_nobody_and_a_start_asks_nothing(box: Box) -> None:
    """Without a configuration, without git, or where git fails."""
    assert (box.asked(), box.questions) == ({}, 0)
    box.config("[user\n")
    assert (box.asked(), box.asked(), box.questions) == ({}, {}, 1)
    box.config("[user]\n name = Ada Example\n")
    box.path = str(box.home)
    assert (box.asked(), box.questions) == ({}, 1)


def test_a_git_that_an_agent_could_have_put_there_is_not_run(box: Box) -> None:
    box.config("[user]\n name = Ada Example\n")
    planted = box.home / "p" / "bin" / "git"
    planted.parent.mkdir(parents=True)
    shutil.copy("/bin/true", planted)
    box.path = f"{planted.parent}:{PATH}"

    with pytest.raises(Unavailable, match="git lies in the project, where the agent can write it"):
        box.asked(str(box.home / "p"))
    os.chmod(planted.parent, 0o777)
    with pytest.raises(Unavailable, match="can be written by others"):
        box.asked("/elsewhere")
    assert box.questions == 0


def test_a_preview_asks_nothing(box: Box) -> None:
    box.config("[user]\n name = Ada Example\n")
    environ = {"HOME": str(box.home), "PATH": PATH}

    assert git_identity(environ, str(box.home / "cache"), None, "/p") == {}
    box.asked()
    assert git_identity(environ, str(box.home / "cache"), None, "/p") != {}
