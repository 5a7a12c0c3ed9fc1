"""The home volume of a project's first run."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from aisb.effects.home_lock import below_home, home_held
from aisb.effects.home_places import Home, make_places
from aisb.effects.process import Finished
from aisb.effects.run import Job, need_home
from aisb.effects.session import this_process
from aisb.errors import CommandError, Unprotected
from tests.fakes import FakeRunner, said
from tests.unit.jobs import JOB

if TYPE_CHECKING:
    from pathlib import Path

YES, NO = Finished(code=0), Finished(code=1)
IN_TROUBLE = Finished(code=125, stderr=b"Error: volume with name aisb-home-x already exists")
EXISTS = ("podman", "volume", "exists", "aisb-home-x")
CREATE = ("podman", "volume", "create", "--label", "aisb.role=home", "aisb-home-x")


def make_job(tmp_path: Path) -> Job:
    return JOB._replace(
        directories=JOB.directories._replace(state=f"{tmp_path}/state"), project="/x", home_volume="aisb-home-x"
    )


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        pytest.param((YES,), (CREATE,), id="made"),
        pytest.param((IN_TROUBLE, YES), (CREATE, EXISTS), id="there already"),
    ],
)
def test_a_home_is_made_once(tmp_path: Path, answers: tuple[Finished, ...], asked: tuple[tuple[str, ...], ...]) -> None:
    """And asked for once: the next run asks nothing."""
    runner = FakeRunner(*answers)

    need_home(make_job(tmp_path), runner)
    need_home(make_job(tmp_path), runner)

    assert runner.argvs == list(asked)


def test_a_home_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """Each time, with podman's own words."""
    with pytest.raises(CommandError, match=r"podman volume create .* exited 125") as caught:
        need_home(make_job(tmp_path), FakeRunner(IN_TROUBLE, NO))

    assert caught.value.hint == "Error: volume with name aisb-home-x already exists"
    assert not os.path.exists(f"{tmp_path}/state/homes/aisb-home-x")


PS = ("podman", "ps", "--filter", "volume=aisb-home-x", "--format", "{{.Names}}")
INSPECT = ("podman", "volume", "inspect", "--format", "{{.Mountpoint}}", "aisb-home-x")
PLACES = ((".ssh/deploy", False), ("tools", True), ("a/b/c", True))
HOME = Home("podman", "aisb-home-x", "localhost/i:1")


def test_places_for_mounts_are_the_users_own_in_a_home_that_has_what_its_image_gives(tmp_path: Path) -> None:
    """A new one is mounted once before: podman fills only what is empty."""
    runner = FakeRunner(said(""), said(f"{tmp_path}\n"), YES)

    make_places(HOME, PLACES, "/none", runner)

    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == [".ssh", ".ssh/deploy", "a", "a/b", "a/b/c", "tools"]
    assert runner.argvs[:2] == [PS, INSPECT]
    assert runner.argvs[2][-2:] == ("aisb-home-x:/home/sandbox", "localhost/i:1")


@pytest.mark.parametrize(
    ("place", "planted"),
    [
        pytest.param(("tools", True), ("tools", "/usr"), id="a link in its place"),
        pytest.param(("a/b/c", True), ("a", "/usr"), id="a link on the way"),
        pytest.param(("tools", True), ("tools", "nowhere"), id="a link to nothing"),
        pytest.param((".ssh/deploy", False), (".ssh/deploy", ""), id="a directory for a file"),
        pytest.param(("tools", True), ("tools", "a file"), id="a file for a directory"),
    ],
)
def test_what_an_agent_has_put_in_the_way_of_a_mount_ends_the_run(
    tmp_path: Path, place: tuple[str, bool], planted: tuple[str, str]
) -> None:
    """podman would follow it, and lay the mount over the sandbox's programs. Nothing is made where it leads."""
    path, target = tmp_path / planted[0], planted[1]
    path.parent.mkdir(exist_ok=True)
    if target == "a file":
        path.write_text("")
    elif target:
        path.symlink_to(target)
    else:
        path.mkdir()

    with pytest.raises(Unprotected, match=f"~/{place[0]} in the home aisb-home-x is no place for a mount"):
        make_places(HOME, [place], "/none", FakeRunner(said(""), said(f"{tmp_path}\n")))

    assert not os.path.exists("/usr/b")


@pytest.mark.parametrize(
    ("mounts", "place", "is_refused"),
    [
        pytest.param("/home/sandbox\n/home/sandbox/a\\040b\n", "a b", False, id="the same mount"),
        pytest.param("/home/sandbox\n/home/sandbox/other\n", "a b", True, id="another mount"),
        pytest.param("/home/sandbox\n/home/sandbox/a/b\n", "a/b", True, id="in a directory that can be moved"),
        pytest.param("", "a b", True, id="nobody knows which"),
    ],
)
def test_where_another_runs_agent_could_move_the_place_nothing_is_mounted(
    tmp_path: Path, mounts: str, place: str, *, is_refused: bool
) -> None:
    """Mounted over there as well, right in the home, it cannot."""
    other = tmp_path / "r" / "0000000a"
    (other / "run").mkdir(parents=True)
    (other / "owner").write_text(this_process())
    (other / "run" / "mounts").write_text(mounts)
    home = tmp_path / "home"
    (home / "kept").mkdir(parents=True)
    runner = FakeRunner(said("aisb-run-0000000a\n"), said(f"{home}\n"))

    with pytest.raises(Unprotected, match="run 0000000a has the home") if is_refused else contextlib.nullcontext():
        make_places(HOME, [(place, True)], str(tmp_path), runner)

    assert (home / place).is_dir() is not is_refused


def test_while_one_run_starts_with_mounts_in_a_home_no_other_begins(tmp_path: Path) -> None:
    """Several without such mounts start together; once all is mounted the others go on."""
    runtime = str(tmp_path)

    def is_free(kind: int) -> bool:
        with open(tmp_path / "homes" / "x", "rb") as lock:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    with home_held(runtime, "x", alone=True) as hold:
        during = [is_free(fcntl.LOCK_SH)]
        hold.release()
        after = [is_free(fcntl.LOCK_EX)]
    with home_held(runtime, "x", alone=False), home_held(runtime, "x", alone=False):
        together = [is_free(fcntl.LOCK_EX), is_free(fcntl.LOCK_SH)]

    assert (during, after, together) == ([False], [True], [False, True])


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("/home/sandbox/x/y", [("x/y", True)]),
        ("/home/sandboxes/x", []),
        ("/home/sandbox", []),
        ("/project", []),
    ],
)
def test_a_project_below_the_home_is_a_mount_like_others(target: str, found: list[tuple[str, bool]]) -> None:
    assert below_home([], target) == found
