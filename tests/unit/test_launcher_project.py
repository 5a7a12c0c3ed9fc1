"""The launcher runs nothing in a directory that is not the one that aisb looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.effects.run import Job, identities, mounts_of, need_own_cover, project_identity
from aisb.effects.session import Session, close_session, open_session, this_process
from aisb.effects.state import Directories
from aisb.errors import Unprotected
from aisb.render.argv import Mount
from gate import launcher

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_directory_is_known_by_device_and_inode(tmp_path: Path) -> None:
    launcher.check_same(str(tmp_path), project_identity(str(tmp_path)))


def test_a_directory_that_took_its_place_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    expected = project_identity(str(project))
    project.rename(tmp_path / "old")
    os.symlink("/etc", project)

    with pytest.raises(launcher.Refused, match="replaced while the sandbox started"):
        launcher.check_same(str(project), expected)


@pytest.mark.parametrize("name", ["project", "policy-directory"])
def test_nothing_is_run_where_a_directory_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The project, and its `.ai-sandbox`: a link in its place would have shown a directory of the host."""
    directory = tmp_path / "p" / ".ai-sandbox"
    directory.mkdir(parents=True)
    status = directory.stat()
    expected = identities(make_job(str(tmp_path / "p"), f"{status.st_dev} {status.st_ino}\n"))
    assert expected["policy-directory"] == f"{status.st_dev} {status.st_ino}\n"
    for file, text in (expected | {"mode": "none\n"}).items():
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(launcher, "SESSION", str(tmp_path))
    monkeypatch.setattr(launcher, "PROJECT", str(tmp_path / "p"))
    monkeypatch.setattr(launcher, "POLICY_DIRECTORY", str(directory))
    for step in ("check_drop", "check_home", "prove", "report"):
        monkeypatch.setattr(launcher, step, lambda *_: None)
    monkeypatch.setattr(launcher, "read_descriptor", lambda _: b"")
    monkeypatch.setattr(launcher, "INITS", ())

    with pytest.raises(launcher.Refused, match="the image has no init"):
        launcher._launch([b"true"])
    (tmp_path / name).write_text("1 2\n")
    with pytest.raises(launcher.Refused, match="was replaced while the sandbox started"):
        launcher._launch([b"true"])


def make_job(project: str, policy_directory: str, runtime: str = "/run/aisb") -> Job:
    """A job of which only the places count."""
    where = Directories(runtime, "/cache", "/state", "/config")
    return Job("podman", "pasta", "", where, project, policy_directory, "home", ("true",), {}, True, False)


def test_the_policy_directory_is_mounted_over_the_project_read_only() -> None:
    """After it, so that it lies on top."""
    session = Session("0", "/s")

    assert mounts_of(make_job("/p", "1 2\n"), session, "none")[-2:] == (
        Mount("/p", "/project", read_only=False),
        Mount("/p/.ai-sandbox", "/project/.ai-sandbox", read_only=True),
    )
    assert mounts_of(make_job("/p", ""), session, "none")[-1] == Mount("/p", "/project", read_only=False)


@pytest.mark.parametrize("parent", ["r", "g/0123456789ab/r"])
def test_no_run_starts_beside_one_that_can_replace_its_policy_directory(tmp_path: Path, parent: str) -> None:
    """One that began before there was such a directory: its agent may write there, this one's may not."""
    project = tmp_path / "p"
    project.mkdir()
    job = make_job(str(project), "1 2\n", runtime=str(tmp_path / "rt"))
    own = open_session(str(tmp_path / "rt" / "r"), "0a", identities(job), "{}")
    covered = open_session(str(tmp_path / "rt" / parent), "0b", identities(job), "{}")
    (tmp_path / "q").mkdir()
    elsewhere = make_job(str(tmp_path / "q"), "", runtime=str(tmp_path / "rt"))
    open_session(str(tmp_path / "rt" / parent), "0c", identities(elsewhere), "{}")
    need_own_cover(job, own)

    bare = open_session(str(tmp_path / "rt" / parent), "0d", identities(job._replace(policy_directory="")), "{}")

    with pytest.raises(Unprotected, match=r"^run 0d of this project began before it had a \.ai-sandbox"):
        need_own_cover(job, own)
    need_own_cover(job._replace(policy_directory=""), covered)
    close_session(bare)
    larger = make_job(str(tmp_path), "3 4\n", runtime=str(tmp_path / "rt"))
    bare = open_session(str(tmp_path / "rt" / parent), "0e", identities(larger), "{}")
    with pytest.raises(Unprotected, match=r"^run 0e of this project has it in a larger project"):
        need_own_cover(job, own)
    pid, start, boot = this_process().split()
    (tmp_path / bare.path / "owner").write_text(f"{pid} {int(start) - 1} {boot}")
    need_own_cover(job, own)


def test_no_project_is_nothing_to_compare() -> None:
    assert project_identity("") == ""
    launcher.check_same("/project", "")
