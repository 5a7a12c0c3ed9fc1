"""`aisb exec` and what else is asked of a run: command lines, and podman's."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from aisb.cli.request import read_request
from aisb.cli.runs import _USAGE, _code_of, _environment, _need, _parsed, _rest, stop_verb
from aisb.cli.splitter import split
from aisb.effects.run import project_identity
from aisb.effects.run_record import new_fields, record_text
from aisb.effects.run_state import state_of
from aisb.effects.sealed import sealed
from aisb.effects.serve import need_pipes
from aisb.effects.session import PASTED, lend_variables, open_session, session_at, start_time, this_process
from aisb.effects.stop import stop
from aisb.effects.supervise import Outcome
from aisb.errors import Unavailable, Unprotected, UsageError
from aisb.render.argv import exec_argv, in_directory
from tests.fakes import FakeRunner, said
from tests.unit.test_ps import directories, over

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.mark.parametrize(
    ("place", "ended"),
    [
        pytest.param("a b/-c", (3, "$x", ""), id="there"),
        pytest.param("none", (2, "", "aisb: --cwd {}: there is no such directory inside\n"), id="not there"),
    ],
)
def test_it_begins_where_it_is_told_to_or_not_at_all(tmp_path: Path, place: str, ended: tuple[int, str, str]) -> None:
    (tmp_path / "a b" / "-c").mkdir(parents=True)
    where = f"{tmp_path}/{place}"

    done = subprocess.run(
        in_directory(where, ("sh", "-c", 'printf %s "$1"; exit 3', where, "$x")), capture_output=True, text=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (ended[0], ended[1], ended[2].format(where))


@pytest.fixture
def owned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Two runs that go on, each with a process in the place of its aisb; the first one is of the project `p`."""
    for name in ("home", "p"):
        (tmp_path / name).mkdir()
    with TemporaryDirectory() as runtime:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        owners = {}
        for run in ("1a2b3c4d", "5e6f7a8b"):
            owners[run] = subprocess.Popen(["sleep", "600"])
            files = {"project": project_identity(str(tmp_path / "p"))} if run == "1a2b3c4d" else {}
            session = open_session(f"{runtime}/aisb/r", run, files, "{}")
            _, _, boot = this_process().split()
            number = owners[run].pid
            (Path(session.path) / "owner").write_text(f"{number} {start_time(str(number))} {boot}")
        yield owners
        for owner in owners.values():
            owner.kill()
            owner.wait()


def test_several_are_ended_at_once(
    owned: dict[str, subprocess.Popen[bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    """By how their ids begin; one that is named twice is one."""
    assert stop_verb(["1a", "5e6f", "1a2b"], ".") == 0

    assert [owner.wait(20) for owner in owned.values()] == [-signal.SIGTERM, -signal.SIGTERM]
    assert capsys.readouterr().err == "aisb: run 1a2b3c4d has ended\naisb: run 5e6f7a8b has ended\n"


@pytest.mark.parametrize("words", [[], ["."]], ids=["none named", "a dot"])
def test_without_an_id_it_is_the_projects_own(
    owned: dict[str, subprocess.Popen[bytes]], tmp_path: Path, words: list[str]
) -> None:
    assert stop_verb(words, str(tmp_path / "p")) == 0

    assert [owner.poll() for owner in owned.values()] == [-signal.SIGTERM, None]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("ff", "no run whose id begins with ff goes on"),
        ("0000", "run 0000000a has ended: exit 3, the command ended with 3"),
    ],
    ids=["unknown", "has ended"],
)
def test_where_one_does_not_go_on_none_is_ended(
    owned: dict[str, subprocess.Popen[bytes]], tmp_path: Path, named: str, why: str
) -> None:
    """What is said is why, and the whole line with this project's run in its place."""
    over(tmp_path / "home/.local/state", "0000000a")
    os.rename(tmp_path / "home/.local/state/state", tmp_path / "home/.local/state/ai-sandbox")
    project = str(tmp_path / "p")

    with pytest.raises(UsageError) as caught:
        stop_verb(["5e", named, "1a"], project)

    line = f"aisb stop 5e 1a2b3c4d --project {project}"
    assert (caught.value.message, caught.value.hint) == (why, f"this project's run: {line}")
    assert [owner.poll() for owner in owned.values()] == [None, None]


def test_one_that_does_not_end_is_named_and_the_others_have_been_told(
    owned: dict[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """With what shows what holds it; one that has gone meanwhile has ended."""
    deaf = "trap '' TERM; echo; while :; do sleep 600; done"
    with subprocess.Popen(["sh", "-c", deaf], stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout
        process.stdout.readline()
        sessions = []
        for run, number in (("0d0d0d0d", process.pid), ("1e1e1e1e", owned["1a2b3c4d"].pid), ("2f2f2f2f", 4000001)):
            session = open_session(str(tmp_path / "r"), run, {}, "{}")
            began = start_time(str(number)) if number != 4000001 else "1"
            (Path(session.path) / "owner").write_text(f"{number} {began} {this_process().split()[2]}")
            sessions.append(session)
        try:
            with pytest.raises(Unavailable, match="run 0d0d0d0d does not end"):
                stop(sessions, patience_seconds=0.3)
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    assert owned["1a2b3c4d"].wait(20) == -signal.SIGTERM


def test_a_run_is_proposed_once(owned: dict[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of one that is not known, also where it was named beside it."""
    with TemporaryDirectory(dir="/var/tmp") as project:
        monkeypatch.chdir(project)
        session = session_at(f"{os.environ['XDG_RUNTIME_DIR']}/aisb/r", "1a2b3c4d")
        Path(session.files, "project").write_text(project_identity(project))
        hints = []
        for runs in (["zzz"], ["1a", "zzz"], ["zzz", "5e6f"]):
            with pytest.raises(UsageError) as refused:
                stop_verb(runs, ".")
            hints.append(refused.value.hint)

    line = "this project's run: aisb stop 1a2b3c4d"
    assert hints == [line, line, f"{line} 5e6f"]


def test_where_no_project_can_be_nothing_runs(
    owned: dict[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is to be mounted, so nothing is said of that."""
    home = os.environ["HOME"]
    monkeypatch.chdir(home)

    with pytest.raises(UsageError) as refused:
        stop_verb([], ".")

    assert (refused.value.message, refused.value.hint) == (
        f"no sandbox is running in {home}, which is no project",
        "see what runs, and name it: aisb ps",
    )


def test_a_command_beside_one_whose_gate_has_ended_is_refused_with_what_to_do(tmp_path: Path) -> None:
    why = "ok.aisb.internal could not be resolved: the gate was not reached"
    outcome = Outcome(77, {}, why)

    def refused(parent: str) -> tuple[str, str]:
        with pytest.raises(Unprotected) as caught:
            _code_of(outcome, open_session(str(tmp_path / parent), "1a2b3c4d", {}, "{}"))
        return caught.value.message, caught.value.hint

    hint = "the gate of this run has ended: end the run, and start a new one: aisb stop 1a2b3c4d"
    assert refused("g/0123456789ab/r") == (f"refused to run unprotected: {why}", hint)
    assert refused("r") == (f"refused to run unprotected: {why}", "")


def test_what_an_orphan_has_left_is_said(tmp_path: Path) -> None:
    where = directories(tmp_path)
    os.makedirs(f"{where.runtime}/r/00000001")
    os.utime(f"{where.runtime}/r/00000001", (1000, 1000))

    with pytest.raises(UsageError, match="no run whose id begins with 0000 goes on") as refused:
        _need(where, "0000", str(tmp_path), lambda other: f"aisb stop {other}")

    assert refused.value.hint.splitlines()[0] == "take away what it has left: aisb clean"


def test_flags_stand_before_the_run_or_behind_it() -> None:
    """What follows -- is the command's, byte for byte."""
    words = ["--tty", "1a2b", "--cwd", "sub", "--env=A", "--env", "B=--", "--", "sh", "--tty", "--", "x"]

    assert _parsed(words) == ("1a2b", True, "sub", ("A", "B=--"), ("sh", "--tty", "--", "x"))
    assert _parsed([".", "--", "true"]) == ("", False, "", (), ("true",))


def test_of_a_run_that_goes_on_no_more_it_is_said_how_it_ended(tmp_path: Path) -> None:
    """What is proposed in its place is of this project, and a whole line."""
    where = directories(tmp_path)
    for run, name in (("5e6f7a8b", "other"), ("1a2b3c4d", "p")):
        (tmp_path / name).mkdir()
        open_session(f"{where.runtime}/r", run, {"project": project_identity(str(tmp_path / name))}, "{}")
    (tmp_path / "q").mkdir()
    over(tmp_path, "0000000a")

    def refused(run: str, project: str) -> tuple[str, str]:
        with pytest.raises(UsageError) as caught:
            _need(where, run, str(tmp_path / project), lambda other: f"aisb stop {other}")
        return caught.value.message, caught.value.hint

    line, all_of_them = "this project's run: aisb stop 1a2b3c4d", "see what ran, and how it ended: aisb ps --all"
    ended = "run 0000000a has ended: exit 3, the command ended with 3"
    assert refused("0000", "p") == (ended, line)
    assert refused("0000", "q") == (ended, all_of_them)
    assert refused("ffff", "gone") == ("no run whose id begins with ffff goes on", all_of_them)


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("-it", "did you mean --tty?"),
        ("-e", "did you mean --env?"),
        ("--cdw", "did you mean --cwd?"),
        ("--allow", _USAGE),
    ],
)
def test_of_a_flag_that_exec_has_not_the_nearest_is_named(flag: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parsed([flag, "x", "--", "true"])
    assert caught.value.hint == hint


def test_another_run_takes_its_place_in_a_line_of_exec() -> None:
    assert _rest(("--tty", "0000", "--", "echo", "0000"), "0000") == ["--tty", "--", "echo", "0000"]


@pytest.mark.parametrize(
    "line",
    ["1a2b", "1a2b --", "-- true", "1a2b 3c4d -- true", "1a2b --cwd -- true x", "1a2b --verbose -- true", "1a2b --tty=1 -- true"],
)  # fmt: skip
def test_a_line_that_cannot_be_meant_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        _parsed(line.split())


@pytest.mark.parametrize("words", [["--detach"], ["--detach", "--shell"]])
def test_a_run_that_nobody_could_speak_with_is_refused(words: list[str]) -> None:
    """With what to write instead; an agent that is given its task has nobody to speak with, and goes on."""
    with pytest.raises(UsageError, match="--detach runs without a terminal") as caught:
        read_request(split(words, frozenset()), {})
    assert "aisb --detach -- COMMAND ARG...; and speak with" in caught.value.hint

    for given in (["--detach", "-p", "fix the tests"], ["--detach", "--", "true"]):
        assert read_request(split(given, frozenset()), {}).has("detach")


def test_to_a_run_of_pasted_lines_no_command_is_added(tmp_path: Path) -> None:
    """Nobody keeps what its command was given; and that is said, with what to do."""
    session = open_session(str(tmp_path), PASTED, {}, "{}")

    with pytest.raises(Unavailable) as refused:
        _environment(session, {}, terminal=False)

    assert (refused.value.message, refused.value.hint) == (
        "run 00000001 came from pasted lines (--dry-run): no command can be added to it",
        "end it, and start it by aisb, without --dry-run",
    )


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


def test_what_a_run_is_comes_of_its_files_and_of_podman(tmp_path: Path) -> None:
    """What aisb remembers, and the container as it is; of values that were given nothing."""
    files = {"mode": "allow\n", "policy.json": '{"names": []}'}
    parent = tmp_path / "g/0a1b2c/r"
    session = open_session(
        str(parent),
        "1a2b3c4d",
        files,
        "{}",
        {"run.json": record_text(new_fields("1a2b3c4d", "/p", "serve", publish=["8080:80"]))},
    )
    found = {
        "ImageName": "localhost/aisb:1",
        "State": {"Status": "running", "Pid": 7},
        "Config": {"WorkingDir": "/p", "Env": ["A=secret"]},
        "HostConfig": {"Memory": 8, "NanoCpus": 0, "PidsLimit": None},
        "Mounts": [
            {"Type": "bind", "Source": "/p", "Destination": "/p", "RW": True},
            {"Type": "volume", "Name": "home", "Source": "/x", "Destination": "/home/sandbox", "RW": False},
        ],
    }
    runner = FakeRunner(said(json.dumps([found])))

    state = state_of(session, "podman", runner)

    assert runner.argvs == [("podman", "container", "inspect", "aisb-run-1a2b3c4d")]
    assert state.pop("started").startswith("20")
    assert state == {
        "run": "1a2b3c4d", "project": "/p", "command": "serve", "container": "aisb-run-1a2b3c4d", "image": "localhost/aisb:1",
        "state": "running", "pid": 7, "net": "allow", "gate": "0a1b2c", "policy": {"names": []}, "cwd": "/p", "publish": ["8080:80"],
        "mounts": [
            {"source": "/p", "target": "/p", "readOnly": False},
            {"source": "home", "target": "/home/sandbox", "readOnly": True},
        ],
        "limits": {"memory": 8, "nanoCpus": 0, "pids": 0},
    }  # fmt: skip


def test_a_session_needs_somebody_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stdout that is a device, as one that was closed is by then, is nobody."""
    mode = stat.S_IFIFO
    monkeypatch.setattr(os, "fstat", lambda _descriptor: os.stat_result((mode, *[0] * 9)))
    monkeypatch.setattr(os, "isatty", lambda _descriptor: False)
    need_pipes()
    mode = stat.S_IFCHR
    with pytest.raises(UsageError, match="nobody to tell"):
        need_pipes()
