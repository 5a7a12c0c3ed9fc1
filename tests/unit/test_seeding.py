"""What the sandbox's user finds in the home, whatever was put there before."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.seeding import BOTH, EDITED, LONGEST, NEW, SAME, Unseedable, outcome, seed

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY, NAME = ".pi/agent", "models.json"


def put(home: Path, data: bytes) -> str:
    return seed(str(home), DIRECTORY, NAME, data)


def file_in(home: Path) -> Path:
    return home / DIRECTORY / NAME


def test_the_file_and_its_directories_are_the_users_alone(tmp_path: Path) -> None:
    assert put(tmp_path, b"1") == NEW

    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {
        ".pi": 0o700,
        ".pi/agent": 0o700,
        ".pi/agent/models.json": 0o600,
        ".pi/agent/.aisb": 0o700,
        ".pi/agent/.aisb/models.json": 0o600,
    }


def test_what_a_killed_launcher_left_is_not_in_the_way(tmp_path: Path) -> None:
    """Each sandbox of a home has a first process, with the same number."""
    put(tmp_path, b"1")
    (tmp_path / DIRECTORY / f"{NAME}.{os.getpid()}").touch()

    assert put(tmp_path, b"2") == NEW


def test_the_hosts_change_arrives(tmp_path: Path) -> None:
    assert [put(tmp_path, b"1"), put(tmp_path, b"1"), put(tmp_path, b"2")] == [NEW, SAME, NEW]
    assert file_in(tmp_path).read_bytes() == b"2"


def test_an_edit_made_inside_stays(tmp_path: Path) -> None:
    put(tmp_path, b"1")
    file_in(tmp_path).write_bytes(b"mine")

    assert [put(tmp_path, b"1"), put(tmp_path, b"2"), put(tmp_path, b"2")] == [EDITED, BOTH, BOTH]
    assert file_in(tmp_path).read_bytes() == b"mine"


def test_a_file_that_stays_has_one_name_and_is_the_users_alone(tmp_path: Path) -> None:
    put(tmp_path, b"1")
    for content, state in ((b"mine", EDITED), (b"1", SAME)):
        file_in(tmp_path).write_bytes(content)
        file_in(tmp_path).chmod(0o666)
        (tmp_path / f"other-{state}").hardlink_to(file_in(tmp_path))

        assert put(tmp_path, b"1") == state

        status = file_in(tmp_path).lstat()
        assert (file_in(tmp_path).read_bytes(), stat.S_IMODE(status.st_mode), status.st_nlink) == (content, 0o600, 1)


def test_a_deletion_takes_the_hosts_version_again(tmp_path: Path) -> None:
    put(tmp_path, b"1")
    file_in(tmp_path).write_bytes(b"mine")
    put(tmp_path, b"2")
    file_in(tmp_path).unlink()

    assert put(tmp_path, b"2") == NEW
    assert file_in(tmp_path).read_bytes() == b"2"


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_what_is_no_plain_file_is_replaced_and_never_followed(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"secret")
    (tmp_path / DIRECTORY).mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(file_in(tmp_path))
    else:
        file_in(tmp_path).symlink_to(other if kind == "link" else tmp_path / "nowhere")

    assert put(tmp_path, b"1") == NEW
    assert (file_in(tmp_path).is_symlink(), file_in(tmp_path).read_bytes()) == (False, b"1")
    assert (other.read_bytes(), (tmp_path / "nowhere").exists()) == (b"secret", False)


@pytest.mark.parametrize("part", [".pi", ".pi/agent", ".pi/agent/.aisb"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_way_that_is_no_directory_refuses_the_run(tmp_path: Path, part: str, kind: str) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    other.mkdir()
    (home / part).parent.mkdir(parents=True)
    if kind == "link":
        (home / part).symlink_to(other)
    else:
        (home / part).write_bytes(b"")

    with pytest.raises(Unseedable, match="is no directory"):
        put(home, b"1")
    assert list(other.iterdir()) == []


def test_a_directory_in_the_files_place_refuses_the_run(tmp_path: Path) -> None:
    file_in(tmp_path).mkdir(parents=True)

    with pytest.raises(Unseedable, match=r"^\.pi/agent/models\.json in the home: "):
        put(tmp_path, b"1")


def test_a_file_without_end_is_an_edit(tmp_path: Path) -> None:
    put(tmp_path, b"1")
    with file_in(tmp_path).open("wb") as file:
        file.truncate(LONGEST * 16)

    assert put(tmp_path, b"2") == BOTH


@given(st.binary(max_size=2), st.none() | st.binary(max_size=2), st.none() | st.binary(max_size=2))
def test_nothing_is_written_over_what_somebody_wrote_inside(
    wanted: bytes, there: bytes | None, before: bytes | None
) -> None:
    assert (outcome(wanted, there, before) == NEW) == (there != wanted and there in (None, before))
