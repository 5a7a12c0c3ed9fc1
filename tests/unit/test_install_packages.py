"""install.sh on a machine where something is missing: what it says, what it runs, and that it makes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.unit.install_box import PROGRAMS, Box, make_box

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = '#!/bin/sh\nprintf "%s\\n" "$*" >> "{log}"\n'
OLD_PYTHON = "#!/bin/sh\nexit 1\n"
WITHOUT_VENV = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\n'


@pytest.fixture
def box() -> Iterator[Box]:
    """A machine of the apt family, without a way to become root."""
    for made in make_box():
        made.program("apt-get", "#!/bin/sh\nexit 1\n")
        yield made


def podman(version: str) -> str:
    """A podman that says this of itself."""
    return f"#!/bin/sh\necho '{version}'\n"


@pytest.mark.parametrize(
    ("missing", "present", "reasons", "packages"),
    [
        pytest.param(("podman",), {}, ["podman was not found"], "podman", id="no podman"),
        pytest.param(
            ("podman", "pasta", "newuidmap", "newgidmap", "python3"),
            {},
            [
                "Python 3.11 or newer was not found",
                "podman was not found",
                "no program was found that gives a container its network: pasta slirp4netns",
                "newuidmap and newgidmap were not found",
            ],
            "python3 python3-venv podman slirp4netns uidmap",
            id="nothing at all",
        ),
        pytest.param(
            (),
            {"podman": podman("podman version 3.4.4")},
            [
                "podman 3.4 is too old: 4.3 or newer is needed",
                "no program was found that gives a container its network: slirp4netns",
            ],
            "podman slirp4netns",
            id="podman of Ubuntu 22.04",
        ),
        pytest.param(
            (),
            {"podman": podman("podman version 4.3.1")},
            ["no program was found that gives a container its network: slirp4netns"],
            "slirp4netns",
            id="podman 4.3 knows no pasta",
        ),
        pytest.param(
            ("pasta",),
            {"podman": podman("podman version 5.4.2")},
            ["no program was found that gives a container its network: pasta slirp4netns"],
            "passt",
            id="podman 5 without a network",
        ),
        pytest.param(
            (),
            {"podman": podman("Docker version 27.0")},
            ["{path}/podman does not tell its version"],
            "podman",
            id="docker",
        ),
        pytest.param(("newgidmap",), {}, ["newuidmap and newgidmap were not found"], "uidmap", id="half of uidmap"),
        pytest.param(
            (),
            {"python3": OLD_PYTHON, "python3.11": OLD_PYTHON},
            ["Python 3.11 or newer was not found"],
            "python3 python3-venv",
            id="an old python",
        ),
        pytest.param(
            (), {"python3": WITHOUT_VENV}, ["python3 cannot make virtual environments"], "python3-venv", id="no venv"
        ),
        pytest.param(
            (),
            {"python3": OLD_PYTHON, "python3.12": WITHOUT_VENV},
            ["python3.12 cannot make virtual environments"],
            "python3.12-venv",
            id="no venv of the newer python",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_one_command(
    box: Box, missing: tuple[str, ...], present: dict[str, str], reasons: list[str], packages: str
) -> None:
    """69, and nothing is made."""
    box.without(*missing)
    for name, text in present.items():
        box.program(name, text)

    ended = box.install("--alias", "sandboxed")

    lines = [*reasons, "install what is missing, and try again:", f"  sudo apt-get install --yes {packages}"]
    said = "".join(f"install.sh: {line.format(path=box.path)}\n" for line in lines)
    assert ended == (69, "", said)
    assert box.tree() == {}


@pytest.mark.parametrize("version", ["4.3.0", "4.10.1", "5.0.0-rc1", "10.0"])
def test_a_podman_that_is_new_enough(box: Box, version: str) -> None:
    """Versions are numbers, not text."""
    box.program("podman", podman(f"podman version {version}"))
    box.program("slirp4netns", "#!/bin/sh\n")

    assert box.install().code == 0


@pytest.mark.parametrize("name", ["python3.13", "python3.12", "python3.11"])
def test_a_newer_python_beside_an_old_one_is_used(box: Box, name: str) -> None:
    """An old distribution often has one."""
    box.program("python3", OLD_PYTHON)
    box.program(name, PROGRAMS["python3"])

    assert box.install().code == 0
    assert box.run("aisb", "x").stdout == "<x>"


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("dnf", "sudo dnf install python3 podman passt shadow-utils"),
        ("pacman", "sudo pacman -S --needed python podman passt shadow"),
        ("zypper", "sudo zypper install python311 podman passt shadow"),
        ("", "with your package manager: python podman passt uidmap"),
    ],
)
@pytest.mark.parametrize("flag", [(), ("--deps",)], ids=["plain", "deps"])
def test_elsewhere_the_packages_are_listed(box: Box, manager: str, command: str, flag: tuple[str, ...]) -> None:
    """Only apt is run by the script itself."""
    box.without("apt-get", "podman", "pasta", "newuidmap", "python3")
    box.program("sudo", "#!/bin/sh\nexit 9\n")
    if manager:
        box.program(manager, "#!/bin/sh\nexit 9\n")

    ended = box.install(*flag)

    assert (ended.code, ended.stderr.splitlines()[-1]) == (69, f"install.sh:   {command}")


def with_apt(box: Box, *, as_root: bool, works: bool = True) -> str:
    """A machine whose apt-get installs podman, and the file that holds what was called."""
    log = f"{box.home}/log"
    box.write("log", "")
    install = (
        f'[ "$1" = update ] || {{ cp "{box.path}/later" "{box.home}/.local/bin/podman"; }}\n' if works else "exit 100\n"
    )
    box.program("later", PROGRAMS["podman"])
    box.write(".local/bin/x", "")
    box.program("apt-get", RECORD.format(log=log).replace("$*", "apt-get $*") + install)
    box.without("podman")
    if as_root:
        box.without("id")
        box.program("id", "#!/bin/sh\necho 0\n")
    else:
        box.program("sudo", RECORD.format(log=log).replace("$*", "sudo $*") + 'exec "$@"\n')
    return "log"


def test_as_a_user_apt_is_called_by_sudo(box: Box) -> None:
    """Then the installation goes on."""
    log = with_apt(box, as_root=False)

    ended = box.install("--deps")

    assert ended.code == 0
    assert box.read(log).splitlines() == [
        "sudo env DEBIAN_FRONTEND=noninteractive apt-get update",
        "apt-get update",
        "sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes podman",
        "apt-get install --yes podman",
    ]
    assert box.run("aisb", "x").stdout == "<x>"


def test_as_root_the_packages_alone_are_installed(box: Box) -> None:
    """And nothing in the home of root."""
    log = with_apt(box, as_root=True)

    ended = box.install("--deps")

    assert (ended.code, ended.stdout.splitlines()) == (
        0,
        ["installing podman", "all that aisb needs is there; now, as an ordinary user: ./install.sh"],
    )
    assert box.read(log).splitlines() == ["apt-get update", "apt-get install --yes podman"]
    assert list(box.tree()) == [".local", ".local/bin", ".local/bin/podman", ".local/bin/x", "log"]


def test_where_nothing_is_missing_nothing_is_called(box: Box) -> None:
    """`--deps` is free the second time."""
    ended = box.install("--deps")

    assert ended.code == 0


def test_packages_that_cannot_be_had(box: Box) -> None:
    """apt's own words stand above ours."""
    with_apt(box, as_root=False, works=False)

    ended = box.install("--deps")

    assert (ended.code, ended.stderr.splitlines()) == (
        69,
        [
            "install.sh: podman was not found",
            "install.sh: apt-get update failed; going on with the lists that are there",
            "install.sh: apt-get failed; see above",
        ],
    )


def test_packages_that_do_not_help(box: Box) -> None:
    """A distribution may have no newer one."""
    box.program("podman", podman("podman version 3.4.4"))
    box.program("slirp4netns", "#!/bin/sh\n")
    box.program("apt-get", "#!/bin/sh\n")
    box.program("sudo", '#!/bin/sh\nexec "$@"\n')

    ended = box.install("--deps")

    assert (ended.code, ended.stderr.splitlines()[-2:]) == (
        69,
        ["install.sh: this is still missing:", "install.sh: podman 3.4 is too old: 4.3 or newer is needed"],
    )
    assert box.tree() == {}


def test_without_sudo_root_is_asked_for(box: Box) -> None:
    """The user may have another way."""
    box.without("podman")

    ended = box.install("--deps")

    assert (ended.code, ended.stderr.splitlines()[-2:]) == (
        69,
        ["install.sh: sudo was not found; as root:", "install.sh:   ./install.sh --deps"],
    )


@pytest.mark.parametrize(
    "arguments", [(), ("--alias", "x"), ("--deps", "--alias", "x"), ("--uninstall",)], ids=lambda words: " ".join(words)
)
def test_root_is_refused(box: Box, arguments: tuple[str, ...]) -> None:
    """aisb does not run as root, so there is nothing to install for it."""
    os.unlink(f"{box.path}/id")
    box.program("id", "#!/bin/sh\necho 0\n")

    ended = box.install(*arguments)

    assert (ended.code, ended.stdout, ended.stderr.splitlines()) == (
        69,
        "",
        [
            "install.sh: aisb does not run as root: install it as the user who will run it",
            "install.sh: (as root, --deps alone installs the packages that it needs)",
        ],
    )
    assert box.tree() == {}
