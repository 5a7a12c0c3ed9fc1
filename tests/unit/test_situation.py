"""Which directory a run is given, by whatever name it was called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.domain.wanted import Wanted
from aisb.effects.situation import deciding_directories, look_around, named_path, resolve_project, whole_path
from aisb.effects.sources import Sources
from aisb.effects.state import Directories
from aisb.errors import Untrusted, UsageError
from tests.image_values import CERTIFICATE

if TYPE_CHECKING:
    from pathlib import Path

OWN = Directories(runtime="/nowhere/r", cache="/nowhere/c", state="/nowhere/s", config="/nowhere/k")
WANTED = Wanted(
    net="none",
    allow=(),
    environment=(),
    install=(),
    base_image="bootstrap:trixie",
    ca_bundle="ca.pem",
    node_origin="",
    idle_seconds=600,
)


def world(tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A link `place/link` to `real`, and the environment of a user whose home is elsewhere."""
    for name in ("home", "place", "real"):
        (tmp_path / name).mkdir(mode=0o755)
    (tmp_path / "place" / "link").symlink_to(tmp_path / "real")
    return f"{tmp_path}/place/link", {"HOME": f"{tmp_path}/home"}


@pytest.mark.parametrize("mode", [0o757, 0o1777])
@pytest.mark.parametrize("end", ["", "/", "/."])
def test_a_link_where_others_can_write_is_no_project(tmp_path: Path, mode: int, end: str) -> None:
    link, environ = world(tmp_path)
    os.chmod(f"{tmp_path}/place", mode)

    with pytest.raises(Untrusted) as caught:
        resolve_project(link + end, environ, OWN)
    assert (caught.value.message, caught.value.hint) == (
        f"--project {link}{end} is a link in {tmp_path}/place, where others can write",
        f"write: --project {tmp_path}/real",
    )


@pytest.mark.parametrize("way", ["place/link", "place/to-link", "place/./link/."])
def test_a_project_by_links_is_what_they_lead_to_and_is_shown_as_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Mount, trust and lock are all of the one path, whether a flag has the link or the shell came by it. (C27)"""
    _, environ = world(tmp_path)
    (tmp_path / "place/to-link").symlink_to("link")
    (tmp_path / "place").chmod(0o755)
    by_flag = f"{tmp_path}/{way}"
    shown = os.path.normpath(by_flag)

    project = resolve_project(by_flag, environ, OWN)
    monkeypatch.chdir(by_flag)
    there = resolve_project(".", environ, OWN)

    assert (project, there) == (f"{tmp_path}/real", f"{tmp_path}/real")
    assert named_path(by_flag, project, environ) == shown
    assert named_path(".", there, environ | {"PWD": by_flag}) == shown


def test_what_a_shell_says_of_its_directory_counts_only_where_it_leads_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27: a variable moves no project, and shows none that is not meant."""
    link, environ = world(tmp_path)
    monkeypatch.chdir(tmp_path / "home")
    real = f"{tmp_path}/home"

    for pwd in (link, "place/link", "", "/nowhere"):
        assert named_path(".", real, environ | {"PWD": pwd}) == real
    assert named_path("", "", environ) == ""


def test_links_that_lead_in_a_circle_are_no_project(tmp_path: Path) -> None:
    """C27: an error, at once."""
    _, environ = world(tmp_path)
    (tmp_path / "place").chmod(0o755)
    (tmp_path / "place/a").symlink_to("b")
    (tmp_path / "place/b").symlink_to("a")

    with pytest.raises(UsageError, match="is not a directory"):
        resolve_project(f"{tmp_path}/place/a", environ, OWN)


def test_a_link_where_only_the_user_writes_leads_to_the_project(tmp_path: Path) -> None:
    link, environ = world(tmp_path)
    os.chmod(f"{tmp_path}/place", 0o775)

    assert resolve_project(link, environ, OWN) == f"{tmp_path}/real"


def test_a_directory_where_others_can_write_is_a_project_all_the_same(tmp_path: Path) -> None:
    _, environ = world(tmp_path)
    os.chmod(tmp_path, 0o777)

    assert resolve_project(f"{tmp_path}/real", environ, OWN) == f"{tmp_path}/real"


def test_what_decides_about_a_sandbox_or_runs_outside_of_it() -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": "/c"}

    *found, _package, _templates = deciding_directories(environ, OWN)

    assert found == [
        "/nowhere/r",
        "/nowhere/c",
        "/nowhere/s",
        "/nowhere/k",
        "/c/containers",
        "/h/.local/share/containers",
        "/h/.local/share/ai-sandbox",
        "/h/.docker",
        "/h/.pi",
        "/h/.cargo/bin",
        "/h/.local/bin",
        "/h/.local/lib",
        "/h/bin",
        "/h/go/bin",
        "/c/autostart",
        "/c/environment.d",
        "/c/fish",
        "/c/git",
        "/c/plasma-workspace",
        "/c/systemd/user",
        "/h/.local/share/dbus-1/services",
        "/h/.local/share/systemd/user",
    ]


def test_a_path_is_whole_before_anybody_goes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an image has to be built again, its certificates are read once more, from the root directory."""
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    monkeypatch.chdir(tmp_path)

    question = look_around(WANTED, Sources(), project="", network="", ca_origin="--ca-bundle")

    assert (question.wanted, question.ca_text) == (WANTED._replace(ca_bundle=f"{tmp_path}/ca.pem"), f"{CERTIFICATE}\n")


def test_only_a_path_that_begins_here_needs_a_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert [whole_path(path, "--ca-bundle") for path in ("", "/x/../ca.pem")] == ["", "/x/../ca.pem"]
    with pytest.raises(UsageError) as caught:
        whole_path("ca.pem", "AISB_CA_BUNDLE")
    assert (caught.value.message, caught.value.hint) == (
        "AISB_CA_BUNDLE ca.pem: the current directory no longer exists",
        "write the whole path, or change to a directory that exists",
    )
