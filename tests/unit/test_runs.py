"""`aisb exec`: its command line, and podman's."""

from __future__ import annotations

import pytest

from aisb.cli.runs import _parsed
from aisb.errors import UsageError
from aisb.render.argv import exec_argv


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
