"""`install.sh --alias NAME`: once, in the right file, and taken out again without touching anything else."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from tests.unit.install_box import Box, make_box

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN = "# >>> alias written by the install.sh of aisb >>>\n"
END = "# <<< alias written by the install.sh of aisb <<<\n"
BLOCK = f"{BEGIN}alias sandboxed='aisb run'\n{END}"


@pytest.fixture
def box() -> Iterator[Box]:
    """A machine on which nothing is missing."""
    yield from make_box()


@pytest.mark.parametrize(
    ("environment", "file"),
    [
        pytest.param({"SHELL": "/bin/bash"}, ".bashrc", id="bash"),
        pytest.param({"SHELL": "/usr/bin/zsh"}, ".zshrc", id="zsh"),
        pytest.param({"SHELL": "zsh", "ZDOTDIR": "{home}/zsh"}, "zsh/.zshrc", id="zsh elsewhere"),
        pytest.param({"SHELL": "/usr/bin/fish"}, ".config/fish/config.fish", id="fish"),
        pytest.param({"SHELL": "fish", "XDG_CONFIG_HOME": "{home}/c"}, "c/fish/config.fish", id="fish elsewhere"),
    ],
)
def test_it_goes_into_the_file_of_the_shell(box: Box, environment: dict[str, str], file: str) -> None:
    """Made, with its directory, where there is none; and gone with them."""
    box.environment |= {name: value.format(home=box.home) for name, value in environment.items()}

    ended = box.install("--alias", "sandboxed")

    assert box.read(file) == BLOCK
    assert f"sandboxed means 'aisb run' in a new shell ({box.home}/{file})" in ended.stdout.splitlines()
    box.install("--uninstall")
    assert box.tree() == {}


def test_the_shell_reads_it(box: Box) -> None:
    """An interactive bash knows the name."""
    box.install("--alias=sandboxed")

    ended = box.run("bash", "-c", "shopt -s expand_aliases; . ~/.bashrc; alias sandboxed")

    assert ended == (0, "alias sandboxed='aisb run'\n", "")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"export A=1\n", id="a line"),
        pytest.param(b"export A=1", id="a last line without its end"),
        pytest.param(b"\n\n", id="empty lines at the end"),
        pytest.param(b"# \xff\x00\r\nx", id="bytes of all kinds"),
    ],
)
def test_the_file_is_as_before_byte_for_byte(box: Box, content: bytes) -> None:
    """The block is on lines of its own in between."""
    box.write(".bashrc", content)

    box.install("--alias", "sandboxed")
    with open(f"{box.home}/.bashrc", "rb") as file:
        between = file.read()
    box.install("--uninstall")

    joint = b"\n" if content and not content.endswith(b"\n") else b""
    assert between == content + joint + BLOCK.encode()
    with open(f"{box.home}/.bashrc", "rb") as file:
        assert file.read() == content


def test_what_was_written_after_it_stays(box: Box) -> None:
    """Also where the line before had no end of its own."""
    box.write(".bashrc", "export A=1")
    box.install("--alias", "sandboxed")
    box.write(".bashrc", box.read(".bashrc") + "export B=2")

    box.install("--uninstall")

    assert box.read(".bashrc") == "export A=1\nexport B=2"


def test_the_files_mode_stays_and_a_link_stays_a_link(box: Box) -> None:
    """Dotfiles are often kept in a repository elsewhere."""
    box.write("dotfiles/bashrc", "export A=1\n")
    os.chmod(f"{box.home}/dotfiles/bashrc", 0o640)
    os.symlink("dotfiles/bashrc", f"{box.home}/.bashrc")
    box.give_home()
    before = box.tree()

    box.install("--alias", "sandboxed")

    assert box.tree()[".bashrc"] == "-> dotfiles/bashrc"
    assert box.tree()["dotfiles/bashrc"] == f"0640 export A=1\n{BLOCK}"
    box.install("--uninstall")
    assert box.tree() == before
    assert stat.S_IMODE(os.stat(f"{box.home}/.bashrc").st_mode) == 0o640


def test_another_name_takes_the_place_of_the_first(box: Box) -> None:
    """There is one alias a file."""
    box.write(".bashrc", "export A=1")
    box.install("--alias", "first")

    box.install("--alias", "sandboxed")

    assert box.read(".bashrc") == f"export A=1\n{BLOCK}"
    box.install("--uninstall")
    assert box.read(".bashrc") == "export A=1"


def test_an_upgrade_without_the_flag_keeps_the_alias(box: Box) -> None:
    """And the uninstallation still knows of it."""
    box.install("--alias", "sandboxed")
    box.change("aisb/version", "2.0\n")

    box.install()

    assert box.read(".bashrc") == BLOCK
    box.install("--uninstall")
    assert box.tree() == {}


def test_an_alias_that_the_user_took_out_is_made_again_when_asked_for(box: Box) -> None:
    """What the user removed is not ours to remove."""
    box.install("--alias", "sandboxed")
    box.write(".bashrc", "export A=1\n")

    box.install()
    assert box.read(".bashrc") == "export A=1\n"
    box.install("--alias", "sandboxed")
    assert box.read(".bashrc") == f"export A=1\n{BLOCK}"
    box.install("--uninstall")
    assert box.read(".bashrc") == "export A=1\n"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(f"{BEGIN}alias sandboxed='aisb run --net none'\n{END}", id="another command"),
        pytest.param(f"{BEGIN}alias sandboxed='aisb run'\n", id="no end"),
        pytest.param(f"{END}alias sandboxed='aisb run'\n{BEGIN}", id="the wrong way round"),
        pytest.param(BLOCK + BLOCK, id="twice"),
    ],
)
def test_a_block_that_was_changed_is_left_alone(box: Box, changed: str) -> None:
    """By a new installation and by the uninstallation, and both say so."""
    box.install("--alias", "sandboxed")
    box.write(".bashrc", changed)

    again, gone = box.install("--alias", "other"), box.install("--uninstall")

    said = f"install.sh: {box.home}/.bashrc: the alias there is not as this script wrote it, and is left alone\n"
    assert (again.code, again.stderr, gone.code, gone.stderr) == (0, said, 0, said)
    assert box.tree() == {".bashrc": f"0644 {changed}"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a'b",
        "$(id)",
        "-x",
        "1st",
        "a=b",
        "a/b",
        "a\nb",
        "n" * 33,
        "ümlaut",
        "aisb",
        "ai-sandbox",
        "if",
        "end",
    ],
)
def test_a_name_that_is_none_is_refused(box: Box, name: str) -> None:
    """It goes into a shell's file: letters, digits, - and _; and no word that the shell or aisb has a use for."""
    ended = box.install("--alias", name)

    assert (ended.code, ended.stderr.splitlines()[-1]) == (
        2,
        "install.sh: write a short name of your own: --alias sandboxed",
    )
    assert box.tree() == {}


def test_a_shell_that_is_not_known_gets_the_line(box: Box) -> None:
    """Before anything is made."""
    ended = box.install("--alias", "sandboxed", environment={"SHELL": "/usr/bin/nu"})

    assert (ended.code, ended.stdout, ended.stderr.splitlines()) == (
        2,
        "",
        [
            "install.sh: --alias knows bash, zsh and fish; your shell is '/usr/bin/nu'",
            "install.sh: write this into its start file: alias sandboxed='aisb run'",
        ],
    )
    assert box.tree() == {}
