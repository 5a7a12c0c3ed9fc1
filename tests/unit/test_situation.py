"""Which directory a run is given, by whatever name it was called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.domain.wanted import Wanted
from aisb.effects.situation import deciding_directories, look_around, resolve_project, whole_path
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
