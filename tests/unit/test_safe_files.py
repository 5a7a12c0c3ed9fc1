"""A project's files are read as they are, or not at all: no link, pipe, device or stranger decides what is read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.effects import safe_files
from aisb.effects.safe_files import (
    LARGEST_FILE,
    ProjectDirectory,
    is_reached_through,
    read_in_project,
    read_outside,
    read_project_directory,
)
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HINT = "it must be a regular file of your own, or not be there"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an empty `.ai-sandbox`, beside a file that is none of its business."""
    (tmp_path / "secret").write_text("secret.test\n")
    (tmp_path / "p" / ".ai-sandbox").mkdir(parents=True)
    return tmp_path / "p"


def test_what_counts_is_read_in_one_order_with_its_bytes_as_they_are(project: Path) -> None:
    directory = project / ".ai-sandbox"
    (directory / "config.yaml").write_bytes(b"")
    (directory / "allow").write_bytes(b"\xff\xfea.test\r\n")
    (directory / "README").write_text("not read")
    (directory / "allow.proposed").write_text("not read")

    read = read_project_directory(str(project))

    status = directory.stat()
    assert read.identity == f"{status.st_dev} {status.st_ino}\n"
    assert [(file.name, file.data()) for file in read.files] == [
        (".ai-sandbox/allow", b"\xff\xfea.test\r\n"),
        (".ai-sandbox/config.yaml", b""),
    ]


def test_what_is_not_there_is_nothing(project: Path) -> None:
    (project / ".ai-sandbox").rmdir()

    assert read_project_directory(str(project)) == ProjectDirectory()
    assert read_project_directory("") == ProjectDirectory()


def link(path: Path) -> None:
    path.symlink_to(path.parent.parent.parent / "secret")


def a_socket(path: Path) -> None:
    # The whole path is longer than a socket's may be.
    here = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


NOT_A_FILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (link, "it is a link"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "it is a link"),
    "pipe": (os.mkfifo, "it is a pipe"),
    "socket": (a_socket, "it is a socket"),
    "directory": (os.mkdir, "it is a directory"),
    "large file": (
        lambda path: path.write_bytes(b"x" * (LARGEST_FILE + 1)),
        f"it is larger than {LARGEST_FILE} bytes",
    ),
}


@pytest.mark.parametrize(("make", "why"), NOT_A_FILE.values(), ids=NOT_A_FILE)
@pytest.mark.parametrize("name", ["allow", "policy.yaml", "config.yaml"])
def test_what_is_no_regular_file_is_an_error_that_names_it(
    project: Path, name: str, make: Callable[[Path], object], why: str
) -> None:
    """(C04, A59) At once: opening a pipe does not wait for its writer."""
    make(project / ".ai-sandbox" / name)

    with pytest.raises(UsageError) as caught:
        read_project_directory(str(project))
    assert (caught.value.message, caught.value.hint) == (f".ai-sandbox/{name} cannot be read: {why}", HINT)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda path: path.symlink_to(path.parent.parent), "it is a link", id="link to a directory"),
        pytest.param(lambda path: path.write_text("x"), "it is a file", id="file"),
        pytest.param(os.mkfifo, "it is a pipe", id="pipe"),
    ],
)
def test_the_directory_is_one_of_its_own(project: Path, make: Callable[[Path], object], why: str) -> None:
    """What a link there leads to would be mounted, and shown to the agent."""
    (project / ".ai-sandbox").rmdir()
    make(project / ".ai-sandbox")

    with pytest.raises(UsageError) as caught:
        read_project_directory(str(project))
    assert caught.value.message == f".ai-sandbox cannot be read: {why}"


@pytest.mark.parametrize("shown", [".ai-sandbox", ".ai-sandbox/allow"])
def test_what_belongs_to_somebody_else_is_an_error(project: Path, monkeypatch: pytest.MonkeyPatch, shown: str) -> None:
    (project / ".ai-sandbox" / "allow").write_text("a.test\n")
    real = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(shown):
            return os.stat_result((*status[:4], 4242, *status[5:10]))
        return status

    monkeypatch.setattr(safe_files.os, "fstat", fstat)

    with pytest.raises(UsageError) as caught:
        read_project_directory(str(project))
    assert caught.value.message == f"{shown} cannot be read: it belongs to somebody else (uid 4242)"


READ = "import sys; from aisb.effects.safe_files import read_project_directory as r; print(r(sys.argv[1]).files)"
# root reads what it may not, unless this is taken from it.
WITHOUT_PRIVILEGE = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.getuid() == 0 else ()


def test_an_unreadable_file_is_an_error_and_not_an_empty_one(project: Path) -> None:
    """(C04)"""
    (project / ".ai-sandbox" / "allow").write_text("a.test\n")
    (project / ".ai-sandbox" / "allow").chmod(0)

    done = subprocess.run(
        [*WITHOUT_PRIVILEGE, sys.executable, "-c", READ, str(project)], capture_output=True, text=True, check=False
    )

    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith(".ai-sandbox/allow cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("policy.yml", "policy.yaml"), ("Allow", "allow"), ("alow", "allow"), ("conf.yaml", "config.yaml")],
)
def test_a_misspelt_file_is_not_passed_over(project: Path, name: str, meant: str) -> None:
    (project / ".ai-sandbox" / name).touch()

    with pytest.raises(UsageError) as caught:
        read_project_directory(str(project))
    assert (caught.value.message, caught.value.hint) == (
        f".ai-sandbox/{name} is not a file that aisb reads",
        f"name it: .ai-sandbox/{meant}",
    )


def test_a_file_deeper_in_the_project_is_read_through_no_link(project: Path) -> None:
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "rules").write_text("yes")
    (project / "l").symlink_to("a")

    assert read_in_project(str(project), "a/b/rules").text == "yes"
    with pytest.raises(UsageError, match=r"^l cannot be read: it is a link$"):
        read_in_project(str(project), "l/b/rules")


def test_a_file_elsewhere_may_be_a_link_but_not_a_pipe(project: Path) -> None:
    outside = project.parent
    (outside / "l").symlink_to("secret")
    os.mkfifo(outside / "pipe")

    assert read_outside(str(outside / "l"), "l").text == "secret.test\n"
    for path, why in ((outside / "pipe", "it is a pipe"), (outside / "none", "No such file or directory")):
        with pytest.raises(UsageError, match=f"^x cannot be read: {why}$"):
            read_outside(str(path), "x")


def test_a_file_that_opens_and_cannot_be_read_is_refused_by_its_name() -> None:
    """As on a failing disk; nothing is mapped at the start of a process's memory."""
    with pytest.raises(UsageError) as caught:
        read_outside("/proc/self/mem", "x")

    assert (caught.value.message, caught.value.hint) == ("x cannot be read: Input/output error", HINT)


def test_a_file_that_was_named_and_is_not_there_was_named_wrongly(project: Path) -> None:
    for read in (lambda: read_in_project(str(project), "none"), lambda: read_outside(str(project / "none"), "none")):
        with pytest.raises(UsageError) as caught:
            read()
        assert (caught.value.message, caught.value.hint) == (
            "none cannot be read: No such file or directory",
            "check its name",
        )


def test_the_way_into_a_tree_is_found_whatever_the_links(project: Path) -> None:
    """In by a link, out again by another, in a circle, and by `..` behind a link: where the kernel goes, not the text."""
    outside = project.parent
    (project / "out").symlink_to(outside)
    (outside / "in").symlink_to(project)
    (outside / "p2").mkdir()
    (outside / "to-p2").symlink_to("p2")

    ways = {
        "secret": False,
        "p/x": True,
        "in/x": True,
        "in/out/secret": True,
        "p/out/secret": True,
        "p2/x": False,
        "to-p2/../p/x": True,
        "in/../secret": False,
        "none/at/all": False,
    }
    assert {way: is_reached_through(str(outside / way), str(project)) for way in ways} == ways
    assert not is_reached_through(str(project / "x"), "")
    (outside / "circle").symlink_to("circle")
    with pytest.raises(UsageError, match="too many links"):
        is_reached_through(str(outside / "circle"), str(project))


def test_what_stands_in_the_place_of_the_directory_must_be_one(tmp_path: Path) -> None:
    (tmp_path / ".ai-sandbox").touch()

    with pytest.raises(UsageError) as caught:
        read_project_directory(str(tmp_path))
    assert (caught.value.message, caught.value.hint) == (
        ".ai-sandbox cannot be read: it is a file",
        "it must be a directory of your own, or not be there",
    )
