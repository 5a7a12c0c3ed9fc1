"""The launcher runs nothing in a directory that is not the one that aisb looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.domain.protected import DIRECTORY, FILE, Cover
from aisb.effects.guard import ROOTS, need_own_covers, roots_of
from aisb.effects.run import Job, mounts_of, project_identity, run_files
from aisb.effects.session import Session, close_session, open_session, this_process
from aisb.effects.shield import Shield, Wishes
from aisb.effects.state import Directories
from aisb.errors import Unprotected
from aisb.render.argv import Mount, cover_lines
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


def test_each_place_is_compared_whatever_divides_lines_in_its_path(tmp_path: Path) -> None:
    """An agent names directories as it likes: none is another line, nor the end of one."""
    project = tmp_path / "p\x0b\x0c\x1c\x85\u20281 2 q"
    project.mkdir()
    first = cover_lines([(project_identity(str(tmp_path)).strip(), str(tmp_path))])
    lines = first + cover_lines([(project_identity(str(project)).strip(), str(project))])

    launcher.check_covers(lines)
    launcher.check_covers("")
    project.rename(tmp_path / "old")
    project.mkdir()

    with pytest.raises(launcher.Refused, match="q was replaced while the sandbox started"):
        launcher.check_covers(lines)


@pytest.mark.parametrize("name", ["project", "policy-directory", "covers"])
def test_nothing_is_run_where_a_directory_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """
    The project, its `.ai-sandbox` and what else is protected: a link would have shown a directory of the host.
    """
    directory = tmp_path / "p" / ".ai-sandbox"
    directory.mkdir(parents=True)
    (tmp_path / "p" / "hooks").mkdir()
    status = directory.stat()
    job = make_job(str(tmp_path / "p"), f"{status.st_dev} {status.st_ino}\n")
    shield = Shield(covers=(cover_of(tmp_path / "p" / "hooks"),))
    expected = run_files(job, Session("0", "/s"), "none", shield)
    assert expected["policy-directory"] == f"{status.st_dev} {status.st_ino}\n"
    for file, text in (expected | {"mode": "none\n"}).items():
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(launcher, "SESSION", str(tmp_path))
    monkeypatch.setattr(launcher, "PROJECT", str(tmp_path / "p"))
    for step in ("check_drop", "check_home", "prove", "report"):
        monkeypatch.setattr(launcher, step, lambda *_: None)
    monkeypatch.setattr(launcher, "read_descriptor", lambda _: b"")
    monkeypatch.setattr(launcher, "INITS", ())

    with pytest.raises(launcher.Refused, match="the image has no init"):
        launcher._launch([b"true"])
    wrong = f"1 2 {tmp_path}/p/hooks\n" if name == "covers" else "1 2\n"
    (tmp_path / name).write_text(wrong)
    with pytest.raises(launcher.Refused, match="was replaced while the sandbox started"):
        launcher._launch([b"true"])


def cover_of(path: Path) -> Cover:
    """A directory that is covered where it is."""
    status = path.stat()
    return Cover(str(path), str(path), DIRECTORY, read_only=True, identity=f"{status.st_dev} {status.st_ino}")


def make_job(project: str, policy_directory: str, runtime: str = "/run/aisb") -> Job:
    """A job of which only the places count."""
    where = Directories(runtime, "/cache", "/state", "/config")
    return Job("podman", "pasta", "", where, project, policy_directory, Wishes(), "home", ("true",), {}, True, False)


def test_the_policy_directory_is_mounted_over_the_project_read_only() -> None:
    """After it, so that it lies on top."""
    session = Session("0", "/s")

    assert mounts_of(make_job("/p", "1 2\n"), session, "none", Shield())[-2:] == (
        Mount("/p", "/project", read_only=False),
        Mount("/p/.ai-sandbox", "/project/.ai-sandbox", read_only=True),
    )
    assert mounts_of(make_job("/p", ""), session, "none", Shield())[-1] == Mount("/p", "/project", read_only=False)


@pytest.mark.parametrize(
    ("read_only", "told"),
    [
        (False, {"project-target": "/p q\n", "project-link": "/p q\n"}),
        # Nothing can be put where an image is as it is.
        (True, {"project-target": "/p q\n"}),
    ],
)
def test_a_project_at_its_own_path_is_said_to_be_there(tmp_path: Path, read_only: bool, told: dict[str, str]) -> None:
    """Mounted there, what decides over the sandbox on top of it, and the launcher and the entrypoint know where."""
    project = tmp_path / "p"
    project.mkdir()
    job = make_job(str(project), "1 2\n")._replace(target="/p q", read_only=read_only)

    assert mounts_of(job, Session("0", "/s"), "none", Shield())[-2:] == (
        Mount(str(project), "/p q", read_only=False),
        Mount(f"{project}/.ai-sandbox", "/p q/.ai-sandbox", read_only=True),
    )
    files = run_files(job, Session("0", "/s"), "none", Shield())
    assert {name: text for name, text in files.items() if name.startswith("project-")} == told
    assert "/p\\040q" in files["mounts"].splitlines()


def test_a_protected_place_lies_over_the_project_and_a_mask_over_both() -> None:
    """Each over itself, the mask with nothing in its place, in the order in which one lies on the other."""
    covers = (
        Cover("/p/.git", "/project/.git", DIRECTORY, read_only=False, identity="1 2"),
        Cover("/p/.git/config", "/project/.git/config", FILE, read_only=True, identity="1 3"),
    )
    masks = (
        Cover("/p/.env", "/project/.env", FILE, read_only=True, identity="1 4", shown="empty"),
        Cover("/p/keys", "/project/keys", DIRECTORY, read_only=True, identity="1 5", shown="nothing"),
    )

    mounts = mounts_of(make_job("/p", ""), Session("0", "/s"), "none", Shield(covers, masks))

    assert mounts[-5:] == (
        Mount("/p", "/project", read_only=False),
        Mount("/p/.git", "/project/.git", read_only=False),
        Mount("/p/.git/config", "/project/.git/config", read_only=True),
        Mount("/s/run/empty", "/project/.env", read_only=True),
        Mount("/s/run/nothing", "/project/keys", read_only=True),
    )


def test_the_entrypoint_expects_every_mount_and_no_other() -> None:
    shield = Shield(covers=(Cover("/p/a b", "/project/a b", DIRECTORY, read_only=True, identity="1 2"),))

    files = run_files(make_job("", ""), Session("0", "/s"), "full", shield)

    assert files["mounts"].split() == [
        "/etc/group", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf", "/home/sandbox",
        "/project/a\\040b", "/run/aisb",
    ]  # fmt: skip
    assert files["covers"] == "1 2 /project/a b\n"


@pytest.mark.parametrize("parent", ["r", "g/0123456789ab/r"])
def test_no_run_starts_beside_one_whose_agent_can_replace_what_it_covers(tmp_path: Path, parent: str) -> None:
    """
    In this project, in one around it or in one below. A link put there at the right moment would lay an agent's own
    files over this sandbox's programs; one that is a mount point there too cannot be replaced.
    """
    project, runtime = tmp_path / "p", str(tmp_path / "rt")
    (project / "below/.git").mkdir(parents=True)
    mine = [f"{project}/.git", f"{project}/below/.git"]

    def begin(run: str, root: Path, covered: list[str]) -> Session:
        return open_session(f"{runtime}/{parent}", run, {}, "{}", {ROOTS: roots_of([str(root)], covered)})

    own = begin("0a", project, mine)
    begin("0b", project, mine)
    begin("0c", tmp_path, mine)
    begin("0d", project / "below", mine)
    need_own_covers(mine, own, runtime)

    for root, covered in ((project, mine[1:]), (tmp_path, mine[:1]), (project / "below", mine[:1])):
        bare = begin("0e", root, covered)
        with pytest.raises(Unprotected, match=r"^the agent of run 0e can replace .*/\.git, which was not there"):
            need_own_covers(mine, own, runtime)
        need_own_covers([], own, runtime)
        pid, start, boot = this_process().split()
        (tmp_path / bare.path / "owner").write_text(f"{pid} {int(start) - 1} {boot}")
        need_own_covers(mine, own, runtime)
        close_session(bare)


def test_no_project_is_nothing_to_compare() -> None:
    assert project_identity("") == ""
    launcher.check_same("/project", "")
