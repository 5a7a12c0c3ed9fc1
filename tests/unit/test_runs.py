"""`aisb exec`: its command line, and podman's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.cli.runs import _environment, _parsed
from aisb.effects.sealed import sealed
from aisb.effects.session import lend_variables, open_session
from aisb.errors import Unavailable, UsageError
from aisb.render.argv import exec_argv

if TYPE_CHECKING:
    from pathlib import Path


def test_a_later_command_is_dropped_as_the_first_one_is() -> None:
    """The whole line: root and its capabilities are gone before the launcher, which checks that, is there."""
    assert exec_argv("/usr/bin/podman", "1a2b3c4d", "/p q", ("sh", "-c", "--x"), terminal=True) == (
        "/usr/bin/setpriv", "--pdeathsig", "TERM", "--",
        "/usr/bin/podman", "exec",
        "--detach-keys=",
        "--user", "0",
        "--preserve-fds", "3",
        "--workdir", "/p q",
        "--interactive",
        "--tty",
        "aisb-run-1a2b3c4d",
        "/usr/bin/setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
        "--no-new-privs", "--",
        "/usr/bin/python3", "-I", "-S", "-c",
        "import sys; sys.path.insert(0, '/usr/libexec/aisb'); from gate.launcher import main; main()",
        "sh", "-c", "--x",
    )  # fmt: skip
    assert "--tty" not in exec_argv("podman", "1a2b3c4d", "/", ("true",), terminal=False)


def test_flags_stand_before_the_run_or_behind_it() -> None:
    """What follows -- is the command's, byte for byte."""
    words = ["--tty", "1a2b", "--cwd", "sub", "--env=A", "--env", "B=--", "--", "sh", "--tty", "--", "x"]

    assert _parsed(words) == ("1a2b", True, "sub", ("A", "B=--"), ("sh", "--tty", "--", "x"))
    assert _parsed([".", "--", "true"]) == ("", False, "", (), ("true",))


@pytest.mark.parametrize(
    "line",
    ["1a2b", "1a2b --", "-- true", "1a2b 3c4d -- true", "1a2b --cwd -- true x", "1a2b --verbose -- true", "1a2b --tty=1 -- true"],
)  # fmt: skip
def test_a_line_that_cannot_be_meant_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        _parsed(line.split())


def test_a_later_command_has_what_the_run_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with podman: the run's variables, this terminal's name, and over both what --env gives. Nothing of it in a file."""
    session = open_session(str(tmp_path), "1a2b3c4d", {}, "{}")
    with pytest.raises(Unavailable):
        _environment(session, {}, terminal=False)
    descriptor = sealed(b"A=of the run\0B=\xff=\0TERM=old\0")
    lend_variables(session, descriptor)
    monkeypatch.setenv("TERM", "new")

    beside = _environment(session, {b"A": b"of exec"}, terminal=False)
    in_terminal = _environment(session, {}, terminal=True)

    assert beside == {b"A": b"of exec", b"B": b"\xff=", b"TERM": b"old"}
    assert in_terminal == {b"A": b"of the run", b"B": b"\xff=", b"TERM": b"new"}
    assert not any(b"of the run" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    os.close(descriptor)
    with pytest.raises(Unavailable):
        _environment(session, {}, terminal=False)


def test_only_such_a_file_is_read(tmp_path: Path) -> None:
    """A number that stands for something else by now is no number of a run's variables."""
    session = open_session(str(tmp_path), "1a2b3c4d", {}, "{}")
    with (tmp_path / "other").open("wb+") as file:
        file.write(b"A=b\0")
        lend_variables(session, file.fileno())

        with pytest.raises(Unavailable):
            _environment(session, {}, terminal=False)
