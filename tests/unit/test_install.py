"""install.sh: what it makes, that doing it twice changes nothing, and that it takes back exactly that."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.unit.install_box import Box, make_box

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = ".local/share/ai-sandbox"
LAUNCHER = """\
#!{home}/.local/share/ai-sandbox/venv/bin/python -I
# Written by the install.sh of aisb, which takes it back: ./install.sh --uninstall
from aisb.__main__ import main

main()
"""
FOREIGN = """\
install.sh: {path} is there, and was not written by this script or was changed since
install.sh: move it away first (of pipx or uv? pipx uninstall ai-sandbox, uv tool uninstall ai-sandbox)
"""
LAUNCHER_BY_SH = """\
#!/bin/sh
# Written by the install.sh of aisb, which takes it back: ./install.sh --uninstall
exec '{interpreter}' -I -c 'from aisb.__main__ import main; main()' "$@"
"""


@pytest.fixture
def box() -> Iterator[Box]:
    """A machine on which nothing is missing."""
    yield from make_box()


@pytest.fixture
def odd_box() -> Iterator[Box]:
    """The same, with a home whose name needs quoting."""
    yield from make_box("it's a home")


def paths(box: Box) -> list[str]:
    """What is in the home, with the environments' names made alike."""
    return [re.sub(r"venvs/\w{8}", "venvs/X", path) for path in box.tree()]


def test_it_makes_an_environment_and_two_commands(box: Box) -> None:
    """Nothing else appears in the home."""
    ended = box.install()

    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == f"aisb 1.0 is in {box.home}/.local/bin; see: aisb --help"
    assert paths(box) == [
        ".local",
        ".local/bin",
        ".local/bin/ai-sandbox",
        ".local/bin/aisb",
        ".local/share",
        DATA,
        f"{DATA}/manifest",
        f"{DATA}/venv",
        f"{DATA}/venvs",
        f"{DATA}/venvs/X",
        f"{DATA}/venvs/X/bin",
        f"{DATA}/venvs/X/bin/python",
        f"{DATA}/venvs/X/version",
    ]
    assert box.tree()[".local/bin/aisb"] == f"0755 {LAUNCHER.format(home=box.home)}"
    assert box.tree()[".local/bin/ai-sandbox"] == f"0755 {LAUNCHER.format(home=box.home)}"
    assert box.run("aisb", "a b", "", "--x").stdout == "<a b><><--x>"


@pytest.mark.parametrize("below", [".local/share", "/".join(["long"] * 30)], ids=["blanks and a quote", "too long"])
def test_a_path_that_no_first_line_can_hold_is_run_by_sh(odd_box: Box, below: str) -> None:
    """The kernel splits a first line at blanks, and cuts a long one."""
    odd_box.environment["XDG_DATA_HOME"] = f"{odd_box.home}/{below}"

    assert odd_box.install().code == 0

    interpreter = f"{odd_box.home}/{below}/ai-sandbox/venv/bin/python".replace("'", "'\\''")
    assert odd_box.tree()[".local/bin/aisb"] == f"0755 {LAUNCHER_BY_SH.format(interpreter=interpreter)}"
    assert odd_box.run("aisb", "a b", "", "$HOME").stdout == "<a b><><$HOME>"


def test_a_data_directory_that_is_not_absolute_does_not_count(box: Box) -> None:
    """The XDG specification says so."""
    box.environment["XDG_DATA_HOME"] = "data"

    box.install()

    assert f"{DATA}/venv" in box.tree()


def test_twice_changes_nothing(box: Box) -> None:
    """Not even the environment is made again."""
    box.install("--alias", "sandboxed")
    once = box.tree()

    ended = box.install("--alias", "sandboxed")

    assert ended.stdout.splitlines()[0] == "nothing to do for aisb 1.0: it was installed from this very checkout"
    assert box.tree() == once


def test_an_upgrade_replaces_the_environment(box: Box) -> None:
    """The old one is gone, and the command is the same."""
    box.install()
    before, old = paths(box), os.readlink(f"{box.home}/{DATA}/venv")
    box.change("aisb/version", "2.0\n")

    assert box.install().code == 0

    assert box.run("aisb", "--x").code == 0
    assert box.read(f"{DATA}/venv/version") == "2.0\n"
    assert os.readlink(f"{box.home}/{DATA}/venv") != old
    assert paths(box) == before


def test_a_broken_environment_is_made_again(box: Box) -> None:
    """Its Python may be gone with an upgrade of the system."""
    box.install()
    before = paths(box)
    os.unlink(f"{box.home}/{DATA}/venv/bin/python")

    assert box.install().code == 0
    assert paths(box) == before


@pytest.mark.parametrize("fault", ["broken", "dumb"], ids=["pip fails", "the new one does not start"])
def test_an_upgrade_that_fails_leaves_the_old_one(box: Box, fault: str) -> None:
    """Byte for byte, and working."""
    box.install()
    before = box.tree()
    box.change("aisb/version", "2.0\n")
    box.change(fault, "")

    ended = box.install("--alias", "sandboxed")

    assert ended.code == 69
    assert box.tree() == before
    assert box.run("aisb", "--x").stdout == "<--x>"


@pytest.mark.parametrize("fault", ["broken", "dumb"], ids=["pip fails", "the new one does not start"])
def test_a_first_installation_that_fails_leaves_nothing(box: Box, fault: str) -> None:
    """The user can try again from where they were."""
    box.change(fault, "")

    assert box.install("--alias", "sandboxed").code == 69
    assert box.tree() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_installation_that_is_interrupted_leaves_nothing(box: Box, number: signal.Signals) -> None:
    """As Ctrl-C does it, to the whole group."""
    box.change("says", "waiting\n")
    os.mkfifo(f"{box.checkout}/waits")
    with subprocess.Popen(
        box.argv("env", f"--default-signal={number.name[3:]}", f"{box.checkout}/install.sh"),
        env=box.environment,
        cwd=box.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == b"  waiting\n":
                break
        os.killpg(process.pid, number)

        assert process.wait(30) == 128 + number
    assert box.tree() == {}


def test_two_at_once_do_not_meet(box: Box) -> None:
    """The second one says so, and touches nothing."""
    box.install()
    before = box.tree()
    box.change("aisb/version", "2.0\n")
    held = os.open(f"{box.home}/{DATA}", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = box.install()
    finally:
        os.close(held)

    assert (ended.code, ended.stderr) == (69, "install.sh: another install.sh is at work; wait until it is done\n")
    assert box.tree() == before


def test_nobody_else_may_write_to_what_is_installed(box: Box) -> None:
    """Whatever the umask is; and a tighter umask stays as tight as it is."""
    box.install("--alias", "sandboxed", umask=0)
    loose = [path for path in box.tree() if os.lstat(f"{box.home}/{path}").st_mode & 0o022]
    box.install("--uninstall")
    box.install(umask=0o077)
    open_to_others = [path for path in box.tree() if os.lstat(f"{box.home}/{path}").st_mode & 0o007]

    links = [path for path in loose if os.path.islink(f"{box.home}/{path}")]
    assert loose == links == [f"{DATA}/venv"]
    assert open_to_others == [".local/bin/ai-sandbox", ".local/bin/aisb", f"{DATA}/venv"]


@pytest.mark.parametrize("name", ["aisb", "ai-sandbox"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_foreign_command_is_not_replaced(box: Box, name: str, kind: str) -> None:
    """pipx and uv put links there."""
    if kind == "file":
        box.write(f".local/bin/{name}", "#!/bin/sh\necho mine\n")
    else:
        box.write("elsewhere/aisb", "")
        os.makedirs(f"{box.home}/.local/bin")
        os.symlink("../../elsewhere/aisb", f"{box.home}/.local/bin/{name}")
        box.give_home()
    before = box.tree()

    ended = box.install()

    assert (ended.code, ended.stderr) == (69, FOREIGN.format(path=f"{box.home}/.local/bin/{name}"))
    assert box.tree() == before


def test_a_foreign_environment_is_not_replaced(box: Box) -> None:
    """Without a manifest nothing there is ours."""
    box.write(f"{DATA}/venv/pyvenv.cfg", "mine")
    before = box.tree()

    ended = box.install()

    assert (ended.code, ended.stderr.splitlines()[0]) == (
        69,
        f"install.sh: {box.home}/{DATA} holds an environment that was not made by this script",
    )
    assert box.tree() == before
    assert box.install("--uninstall").code == 0
    assert box.tree() == before


def test_uninstall_leaves_the_home_as_it_was(box: Box) -> None:
    """Also the directories that were there before, and what others put into ours."""
    box.write(".local/bin/mine", "x")
    box.write(".bashrc", "export A=1\n")
    before = box.tree()
    box.install("--alias", "sandboxed")
    box.change("aisb/version", "2.0\n")
    box.install()

    ended = box.install("--uninstall")

    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "aisb is uninstalled. Volumes, images and records of your sandboxes are kept; these commands remove them:",
        "  podman ps -aq --filter label=aisb.role | xargs -r podman rm -f",
        "  podman volume ls -q --filter label=aisb.role | xargs -r podman volume rm",
        "  podman image ls -q --filter label=aisb.role | xargs -r podman rmi -f",
        f"  rm -rf '{box.home}/.local/state'/ai-sandbox '{box.home}/.cache'/ai-sandbox",
    ]
    assert box.tree() == before


def test_uninstall_leaves_an_empty_home_empty(odd_box: Box) -> None:
    """Every directory on the way was ours; and what it says can be pasted."""
    odd_box.install("--alias", "sandboxed")

    ended = odd_box.install("--uninstall")

    assert odd_box.tree() == {}
    odd_box.write(".cache/ai-sandbox/x", "")
    odd_box.write(".local/state/ai-sandbox/x", "")
    odd_box.run("sh", "-c", ended.stdout.splitlines()[-1])
    assert list(odd_box.tree()) == [".cache", ".local", ".local/state"]


def test_uninstall_keeps_what_others_put_into_our_directories(box: Box) -> None:
    """A directory goes only when it is empty."""
    box.install()
    box.write(".local/bin/mine", "x")

    box.install("--uninstall")

    assert list(box.tree()) == [".local", ".local/bin", ".local/bin/mine"]


def test_uninstall_leaves_a_command_that_was_changed(box: Box) -> None:
    """And says so, also when it is asked again."""
    box.install()
    box.write(".local/bin/aisb", "#!/bin/sh\necho mine\n")

    first, second = box.install("--uninstall"), box.install("--uninstall")

    assert first.stderr == f"install.sh: {box.home}/.local/bin/aisb was changed since, and is left alone\n"
    assert list(box.tree()) == [".local", ".local/bin", ".local/bin/aisb"]
    assert second.stdout.splitlines() == [
        f"nothing to take back: there is no {box.home}/{DATA}/manifest",
        f"{box.home}/.local/bin/aisb was not written by this script, and is left alone",
    ]


def test_a_command_that_is_not_on_the_path_is_said(box: Box) -> None:
    """And so is another one that comes first."""
    off = box.install(environment={"PATH": box.path})
    box.program("aisb", "#!/bin/sh\n")
    shadowed = box.install()

    assert off.stdout.splitlines()[-1] == (
        f"{box.home}/.local/bin is not on your PATH: log in anew, or put it there in your shell's start file"
    )
    assert shadowed.stdout.splitlines()[-1] == f"another aisb comes first on your PATH: {box.path}/aisb"


@pytest.mark.parametrize("missing", ["templates", "README.md"])
def test_half_a_checkout_is_refused(box: Box, missing: str) -> None:
    """The script alone, or a part of the tree, installs nothing."""
    os.rename(f"{box.checkout}/{missing}", f"{box.checkout}/elsewhere")

    ended = box.install()

    assert ended == (69, "", f"install.sh: {box.checkout} is not a whole checkout: there is no {missing}\n")
    assert box.tree() == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--frce"], "--frce is not known here", id="an unknown flag"),
        pytest.param(["now"], "now is not known here", id="a word"),
        pytest.param(["--alias"], "--alias needs a name", id="no name"),
        pytest.param(["--uninstall", "--deps"], "--uninstall stands alone", id="uninstall and packages"),
        pytest.param(["--alias", "x", "--uninstall"], "--uninstall stands alone", id="uninstall and an alias"),
    ],
)
def test_a_command_line_that_cannot_be_meant(box: Box, arguments: list[str], message: str) -> None:
    """2, one sentence, and nothing is made."""
    ended = box.install(*arguments)

    assert (ended.code, ended.stdout, ended.stderr.splitlines()[0]) == (2, "", f"install.sh: {message}")
    assert box.tree() == {}


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_an_answer(box: Box, flag: str) -> None:
    """On stdout, and it names every flag."""
    ended = box.install(flag)

    assert (ended.code, ended.stderr) == (0, "")
    assert re.findall(r"^  (-[^ ]*)", ended.stdout, re.MULTILINE) == ["--alias", "--deps", "--uninstall", "-h,"]


def test_a_home_that_is_no_path_is_refused(box: Box) -> None:
    """Everything is made below it."""
    ended = box.install(environment={"HOME": "home"})

    assert ended == (69, "", "install.sh: HOME is not set to an absolute path\n")
