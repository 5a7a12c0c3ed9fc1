"""What the launcher makes sure of, as far as it is text in and a verdict out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gate.launcher import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    Refused,
    check_drop,
    check_home,
    check_routes,
    find_command,
    parse_variables,
    read_descriptor,
    seed_home,
)

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = "0" * 16
DROPPED = {
    "Uid": "1000\t1000\t1000\t1000",
    "Gid": "1000\t1000\t1000\t1000",
    "Groups": " ",
    "CapInh": NOTHING,
    "CapPrm": NOTHING,
    "CapEff": NOTHING,
    "CapBnd": NOTHING,
    "CapAmb": NOTHING,
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


def status(**changed: str) -> str:
    """/proc/self/status with some lines changed."""
    return "Name:\tpython3\n" + "".join(f"{name}:\t{value}\n" for name, value in {**DROPPED, **changed}.items())


def test_a_process_that_has_dropped_everything_passes() -> None:
    check_drop(status())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("Uid", "1000\t0\t1000\t1000", id="effective root"),
        pytest.param("Uid", "1000\t1000\t0\t1000", id="saved root"),
        pytest.param("Uid", "1001\t1001\t1001\t1001", id="another user"),
        pytest.param("Gid", "1000\t1000\t0\t1000", id="saved root group"),
        pytest.param("Groups", "0", id="a group"),
        pytest.param("CapInh", "0000000000001000", id="inheritable"),
        pytest.param("CapPrm", "0000000000001000", id="permitted"),
        pytest.param("CapEff", "0000000000001000", id="effective"),
        pytest.param("CapBnd", "00000000000011c0", id="bound"),
        pytest.param("CapAmb", "0000000000001000", id="ambient"),
        pytest.param("NoNewPrivs", "0", id="new privileges"),
        pytest.param("Seccomp", "0", id="no filter"),
    ],
)
def test_whatever_is_left_is_a_refusal_that_names_it(name: str, value: str) -> None:
    """Each line by itself (A53)."""
    with pytest.raises(Refused, match=f"after the drop {name} is "):
        check_drop(status(**{name: value}))


def test_a_line_that_is_missing_is_a_refusal() -> None:
    """A kernel that does not say is no proof."""
    with pytest.raises(Refused, match="after the drop Uid is 'missing'"):
        check_drop("")


def test_variables_keep_every_byte() -> None:
    """Names up to the first equals sign, values with all that follows."""
    block = b"A=1\0B=x=y\nz\xff\0C=\0bash_func%%=() {\0"

    assert parse_variables(block) == {b"A": b"1", b"B": b"x=y\nz\xff", b"C": b"", b"bash_func%%": b"() {"}
    assert parse_variables(b"") == {}


@pytest.mark.parametrize("block", [b"A=1", b"A\0", b"=1\0", b"A=1\0\0", b"A=1\0B=2"])
def test_variables_that_are_not_whole_are_a_refusal(block: bytes) -> None:
    """Half a list is not the environment that was meant."""
    with pytest.raises(Refused, match="variables"):
        parse_variables(block)


def test_variables_are_read_from_the_beginning_whatever_the_position() -> None:
    """Somebody may have read from the same open file before."""
    descriptor = os.memfd_create("test")
    os.write(descriptor, b"A=1\0" * 1_000_000)

    assert read_descriptor(descriptor) == b"A=1\0" * 1_000_000
    os.close(descriptor)
    with pytest.raises(Refused, match="not handed over"):
        read_descriptor(descriptor)


def test_a_home_is_a_directory_of_the_users_own(tmp_path: Path) -> None:
    """Not a link to one, which a run before may have left there."""
    home = tmp_path / "home"
    home.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)
    os.chown(home, 1000, 1000) if os.geteuid() == 0 else None

    if os.stat(home).st_uid == 1000:
        check_home(bytes(home))
    for wrong in (link, tmp_path / "gone", tmp_path / "home" / ".." / "link"):
        with pytest.raises(Refused, match="the home "):
            check_home(bytes(wrong))


ROUTE_HEAD = "Iface\tDestination\tGateway \tFlags\n"
LO_V6 = f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200       lo\n"


def test_routes_through_lo_alone_are_no_way_out() -> None:
    check_routes(ROUTE_HEAD, LO_V6)
    check_routes("", "")


@pytest.mark.parametrize(
    ("v4", "v6"),
    [
        pytest.param(ROUTE_HEAD + "eth0\t00000000\t0100000A\t0003\n", LO_V6, id="v4"),
        pytest.param(ROUTE_HEAD, LO_V6 + LO_V6.replace(" lo", " eth0"), id="v6"),
    ],
)
def test_a_route_through_another_device_is_a_refusal(v4: str, v6: str) -> None:
    """The sandbox is to have no device but lo."""
    with pytest.raises(Refused, match="a route through 'eth0'"):
        check_routes(v4, v6)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with a program, a file that is none, and a directory."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for name, mode in (("one/plain", 0o644), ("two/plain", 0o755), ("two/tool", 0o755), ("one/text", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    (tmp_path / "one" / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("tool", "two/tool", id="by PATH"),
        pytest.param("plain", "two/plain", id="past a file that cannot be run"),
        pytest.param("text", NOT_EXECUTABLE, id="only a file that cannot be run"),
        pytest.param("folder", NOT_FOUND, id="a directory in PATH"),
        pytest.param("gone", NOT_FOUND, id="nothing"),
        pytest.param("", NOT_FOUND, id="no name"),
    ],
)
def test_a_command_is_looked_up_in_its_own_path(programs: Path, name: str, found: str | int) -> None:
    """As execvp will, so that 126 and 127 mean what they mean in a shell."""
    path = f"{programs}/one:{programs}/none:{programs}/two".encode()
    expected = f"{programs}/{found}".encode() if isinstance(found, str) else found

    assert find_command(name.encode(), path) == expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("two/tool", None, id="a program"),
        pytest.param("one/text", NOT_EXECUTABLE, id="a text"),
        pytest.param("one/folder", NOT_EXECUTABLE, id="a directory"),
        pytest.param("one/gone", NOT_FOUND, id="nothing"),
        pytest.param("one/text/x", NOT_FOUND, id="below a file"),
    ],
)
def test_a_command_with_a_slash_is_that_file(programs: Path, name: str, found: int | None) -> None:
    """PATH does not count."""
    path = bytes(programs / name)

    assert find_command(path, b"") == (path if found is None else found)


def test_files_go_into_the_home_and_the_host_hears_what_became_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, home = tmp_path / "session", tmp_path / "home"
    session.mkdir()
    home.mkdir()
    (session / "seed-0").write_bytes(b"one")
    (session / "seed-1").write_bytes(b"two")
    said: list[str] = []
    monkeypatch.setattr("gate.launcher.SESSION", str(session))
    monkeypatch.setattr("gate.launcher.report", said.append)

    seed_home(str(home), "a/b/one\na/b/two\n")
    seed_home(str(home), "a/b/one\n")
    seed_home(str(home), "")

    assert {path.name: path.read_bytes() for path in (home / "a/b").iterdir() if path.is_file()} == {
        "one": b"one",
        "two": b"two",
    }
    assert said == ["seeded new a/b/one", "seeded new a/b/two", "seeded same a/b/one"]


def test_a_link_in_the_way_of_a_file_refuses_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(A52)"""
    (tmp_path / "seed-0").write_bytes(b"one")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.pi").symlink_to(tmp_path)
    monkeypatch.setattr("gate.launcher.SESSION", str(tmp_path))

    with pytest.raises(Refused, match=r"^.pi/agent in the home: .pi is no directory$"):
        seed_home(str(tmp_path / "home"), ".pi/agent/one\n")
