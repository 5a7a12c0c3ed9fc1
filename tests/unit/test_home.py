"""The home volume of a project's first run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.effects.home_places import make_places
from aisb.effects.process import Finished
from aisb.effects.run import Job, need_home
from aisb.effects.shield import Wishes
from aisb.effects.state import Directories
from aisb.errors import CommandError
from tests.fakes import FakeRunner, said

if TYPE_CHECKING:
    from pathlib import Path

YES, NO = Finished(code=0), Finished(code=1)
IN_TROUBLE = Finished(code=125, stderr=b"Error: volume with name aisb-home-x already exists")
EXISTS = ("podman", "volume", "exists", "aisb-home-x")
CREATE = ("podman", "volume", "create", "--label", "aisb.role=home", "aisb-home-x")


def make_job(tmp_path: Path) -> Job:
    return Job(
        podman="podman",
        network="pasta",
        gate_network="pasta",
        directories=Directories(runtime="/r", cache="/c", state=f"{tmp_path}/state", config="/k"),
        project="/x",
        policy_directory="",
        wishes=Wishes(),
        home_volume="aisb-home-x",
        command=("true",),
        environment={},
        stdin=True,
        terminal=False,
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


INSPECT = ("podman", "volume", "inspect", "--format", "{{.Mountpoint}}", "aisb-home-x")
PLACES = ((".ssh/deploy", False), ("tools", True), ("a/b/c", True))


def test_places_for_mounts_are_the_users_own_in_a_home_that_has_what_its_image_gives(tmp_path: Path) -> None:
    """A new one is mounted once before: podman fills only what is empty."""
    runner = FakeRunner(said(f"{tmp_path}\n"), YES)

    make_places("podman", "aisb-home-x", "localhost/i:1", PLACES, runner)

    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == [".ssh", ".ssh/deploy", "a", "a/b", "a/b/c", "tools"]
    assert runner.argvs[0] == INSPECT
    assert runner.argvs[1][-2:] == ("aisb-home-x:/home/sandbox", "localhost/i:1")


def test_what_an_agent_has_put_in_the_way_of_a_mount_is_not_followed(tmp_path: Path) -> None:
    """Nothing is made where a link leads, what is there stays, and the home is not mounted again."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / ".ssh").symlink_to(elsewhere)
    (home / "tools").write_text("mine")
    (home / "a").symlink_to("/")
    runner = FakeRunner(said(f"{home}\n"))

    make_places("podman", "aisb-home-x", "localhost/i:1", PLACES, runner)

    assert (os.listdir(elsewhere), (home / "tools").read_text(), len(runner.argvs)) == ([], "mine", 1)
