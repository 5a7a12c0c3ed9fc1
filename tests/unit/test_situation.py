"""Which directory a run is given, by whatever name it was called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.effects.situation import deciding_directories, resolve_project
from aisb.effects.state import Directories
from aisb.errors import Untrusted

if TYPE_CHECKING:
    from pathlib import Path

OWN = Directories(runtime="/nowhere/r", cache="/nowhere/c", state="/nowhere/s", config="/nowhere/k")


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
        "/h/.local/bin",
        "/h/bin",
        "/c/autostart",
        "/c/environment.d",
        "/c/git",
        "/c/systemd/user",
    ]
