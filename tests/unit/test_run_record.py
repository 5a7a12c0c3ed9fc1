"""`run.json`: what a run was, how it ended, and whose its exit code is."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.layers import Setting
from aisb.domain.run_record import (
    AISB,
    COMMAND,
    ENDS,
    KILLED,
    MEMORY,
    NOT_KNOWN,
    SIGNAL,
    TIMEOUT,
    UNKNOWN,
    End,
    Keep,
    ended_words,
    parse_keep,
)
from aisb.effects.make_plan import read_policy
from aisb.effects.plan import Question
from aisb.effects.records import every_run
from aisb.effects.retention import forget_old
from aisb.effects.run_record import (
    ABOUT,
    POLICY,
    RunRecord,
    end_of,
    is_running,
    mend,
    new_fields,
    on_record,
    read_fields,
    tell_of_killed,
)
from aisb.effects.session import open_session
from aisb.effects.signals import EndedBySignal
from aisb.effects.state import Directories
from aisb.effects.supervise import Outcome
from aisb.errors import InternalError, Unavailable, Unprotected, UsageError
from aisb.render.explain import policy_lines

ROOT = Path(__file__).parents[2]
SCHEMA = Draft7Validator(json.loads((ROOT / "config/schemas/run.json").read_text()))
REACHED = {"rules": 1.0, "exec": 2.0}
SECRET = "s3cret-of-the-test"


def place(path: Path, run: str = "0000000a") -> str:
    return f"{path}/state/runs/{run}"


def begun(path: Path, run: str = "0000000a", **more: Any) -> RunRecord:
    fields = new_fields(run, "/p\udcff", "npm", image="localhost/aisb-sandbox:1", net="allow", gate="0123456789ab")
    return RunRecord(f"{path}/state", fields | more, "net=allow\n")


def test_a_record_says_from_the_start_on_that_its_end_is_not_known(tmp_path: Path) -> None:
    """So it does where aisb goes down with all that watches. Afterwards it says how it ended, and nothing else has changed."""
    with on_record(begun(tmp_path)) as record:
        before = read_fields(place(tmp_path))
        assert is_running(before)
        record.end(End(3, COMMAND, "the command ended with 3"))
    after = read_fields(place(tmp_path))

    assert [list(SCHEMA.iter_errors(found)) for found in (before, after)] == [[], []]
    assert (before["ended"], before["exit"], before["by"], before["reason"]) == (None, None, UNKNOWN, NOT_KNOWN)
    assert {key: value for key, value in after.items() if before[key] != value} == {
        "ended": after["ended"], "exit": 3, "by": "command", "reason": "the command ended with 3",
    }  # fmt: skip
    assert after["ended"] >= after["started"]
    assert not is_running(after)
    assert sorted(os.listdir(place(tmp_path))) == [POLICY, ABOUT]
    modes = [os.stat(path).st_mode & 0o777 for path in (place(tmp_path), f"{place(tmp_path)}/{ABOUT}")]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize(
    ("error", "code", "by", "reason"),
    [
        (Unavailable("the gate did not start"), 69, AISB, "the gate did not start"),
        (Unprotected("refused to run unprotected: x"), 77, AISB, "refused to run unprotected: x"),
        (InternalError("y"), 70, AISB, "y"),
        (KeyError("z"), 70, AISB, "a fault of aisb's own: KeyError"),
        (KeyboardInterrupt(), 130, SIGNAL, "ended by SIGINT before its command began"),
        (EndedBySignal(signal.SIGHUP), 129, SIGNAL, "ended by SIGHUP before its command began"),
    ],
)
def test_a_run_that_does_not_begin_is_on_record_with_the_reason(
    tmp_path: Path, error: BaseException, code: int, by: str, reason: str
) -> None:
    def fail() -> None:
        with on_record(begun(tmp_path)):
            raise error

    with pytest.raises(type(error)):
        fail()
    found = read_fields(place(tmp_path))
    assert (found["exit"], found["by"], found["reason"], list(SCHEMA.iter_errors(found))) == (code, by, reason, [])


SET_UP = """
import os, signal, sys
from aisb.cli import main
from aisb.domain.run_record import COMMAND, End
from aisb.effects.run_record import RunRecord, new_fields, on_record

def start(_arguments):
    record = RunRecord(sys.argv[1], new_fields("0000000a", "/p"))
    with on_record(record):
        try:
            if sys.argv[3]:
                record.end(End(int(sys.argv[3]), COMMAND, "the command ended"))
            os.kill(os.getpid(), int(sys.argv[2]))
            os.write(1, b"went on")
        finally:
            # What is tidied up is not disturbed by another one.
            os.kill(os.getpid(), int(sys.argv[2]) if sys.argv[2] != "2" else signal.SIGTERM)
            os.write(1, b"tidy")

main._dispatch = start
sys.exit(main.main([]))
"""


def signalled(path: Path, number: int, ended: str = "") -> tuple[int, str, dict[str, Any]]:
    """A start to which a signal comes; its code, what it said, and its record."""
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, f"{path}/state", str(number), ended], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, read_fields(place(path))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_before_the_command_is_on_record_by_its_name(tmp_path: Path, number: signal.Signals) -> None:
    """C57: what was begun is tidied up, as after ^C, and the code is the signal's."""
    code, said, found = signalled(tmp_path, number)

    assert (code, said) == (128 + number, "tidy")
    assert (found["exit"], found["by"], found["reason"]) == (
        128 + number, SIGNAL, f"ended by {number.name} before its command began",
    )  # fmt: skip


def test_a_signal_that_comes_after_the_end_leaves_on_record_how_it_ended(tmp_path: Path) -> None:
    _, _, found = signalled(tmp_path, signal.SIGTERM, "3")

    assert (found["exit"], found["by"], found["reason"]) == (3, COMMAND, "the command ended")


ENDINGS = {
    "its own": (Outcome(3, REACHED, ""), End(3, COMMAND, "the command ended with 3")),
    "its own signal": (Outcome(139, REACHED, ""), End(139, COMMAND, "the command ended with 139, as of SIGSEGV")),
    "no signal's": (Outcome(255, REACHED, ""), End(255, COMMAND, "the command ended with 255, as of signal 127")),
    "not there": (Outcome(127, REACHED, "", unstarted=127), End(127, COMMAND, "there is no such command inside")),
    "no program": (
        Outcome(126, REACHED, "", unstarted=126),
        End(126, COMMAND, "there is such a command inside, and it cannot be executed"),
    ),
    "its own 127": (Outcome(127, REACHED, ""), End(127, COMMAND, "the command ended with 127")),
    "told": (Outcome(143, REACHED, "", was_told=True), End(143, SIGNAL, "somebody ended it by SIGTERM")),
    "told, and a shell": (
        Outcome(129, REACHED, "", was_told=True, told_by=15), End(129, SIGNAL, "somebody ended it by SIGTERM"),
    ),
    "told, and not heeded": (
        Outcome(137, REACHED, "", was_told=True, told_by=15),
        End(137, SIGNAL, "somebody ended it by SIGTERM, which it did not heed in 10 s: it was killed"),
    ),
    "told, and heeded": (Outcome(0, REACHED, "", was_told=True), End(0, COMMAND, "the command ended with 0")),
    "late": (Outcome(124, REACHED, "", hits=("timeout",), was_told=True), End(124, TIMEOUT, "its time was over (--timeout)")),
    "memory": (
        Outcome(137, REACHED, "", hits=("memory",)),
        End(137, MEMORY, "the kernel killed it: its memory was used up (--memory)"),
    ),
    "a child's memory": (
        Outcome(1, REACHED, "", hits=("memory",)),
        End(1, COMMAND, "the command ended with 1; it met its caps: memory"),
    ),
    "nobody reads": (Outcome(141, REACHED, "", reader_left=True), End(141, SIGNAL, "ended because nobody read its output any more")),
    "unwritten": (
        Outcome(1, REACHED, "", "stdout: No space left on device"),
        End(1, AISB, "its output could not be written: stdout: No space left on device"),
    ),
    "refused": (Outcome(77, {"rules": 1.0}, "an odd mount"), End(77, AISB, "refused to run unprotected: an odd mount")),
    "no podman": (Outcome(125, {}, ""), End(69, AISB, "podman could not start the sandbox (it exited 125)")),
    "told before": (Outcome(143, {}, "", was_told=True), End(143, SIGNAL, "ended by SIGTERM before its command began")),
}  # fmt: skip


@pytest.mark.parametrize(("outcome", "end"), ENDINGS.values(), ids=ENDINGS.keys())
def test_it_is_said_whose_an_exit_code_is(outcome: Outcome, end: End) -> None:
    assert end_of(outcome) == end


def test_a_session_that_its_client_ended_is_no_command_that_was_killed() -> None:
    killed = Outcome(137, REACHED, "")

    assert end_of(killed, has_left=True) == End(0, COMMAND, "its client ended the session")
    assert end_of(killed._replace(told_by=15, was_told=True), has_left=True).by == SIGNAL


def test_each_whose_is_in_the_table_above() -> None:
    """Unknown is what nobody was left to say."""
    assert {end.by for _, end in ENDINGS.values()} | {UNKNOWN} == set(ENDS)


def test_what_a_killed_aisb_has_left_is_mended_and_what_is_known_stays(tmp_path: Path) -> None:
    begun(tmp_path).begin()
    mend(f"{tmp_path}/state", "0000000a")
    mended = read_fields(place(tmp_path))
    done = begun(tmp_path, "0000000b")
    done.end(End(0, COMMAND, "the command ended with 0"))
    mend(f"{tmp_path}/state", "0000000b")
    mend(f"{tmp_path}/state", "0000000c")

    assert (mended["exit"], mended["by"], mended["reason"], bool(mended["ended"])) == (None, UNKNOWN, KILLED, True)
    assert read_fields(place(tmp_path, "0000000b"))["reason"] == "the command ended with 0"
    assert not os.path.exists(place(tmp_path, "0000000c"))


def test_what_a_killed_aisb_did_not_say_of_files_is_on_record_once(tmp_path: Path) -> None:
    begun(tmp_path).begin()
    state = f"{tmp_path}/state"
    for lines in (["warning: a"], ["warning: b"]):
        tell_of_killed(state, "0000000a", lines)
    tell_of_killed(state, "0000000b", ["warning: c"])
    files = Path(place(tmp_path), "files")
    fields = read_fields(place(tmp_path))

    assert (files.read_text(), fields["by"]) == ("warning: a\n", UNKNOWN)
    assert fields["reason"] == f"{KILLED}; what this machine may run has changed: {files}"
    assert os.listdir(f"{state}/runs") == ["0000000a"]


def test_a_record_that_cannot_be_written_costs_no_run(tmp_path: Path) -> None:
    """It is said at the end; a link in its place leads nowhere."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/runs").write_text("a file in the way")
    with on_record(begun(tmp_path)) as record:
        record.end(End(0, COMMAND, ""))
    assert record.fault.startswith("the record of run 0000000a is lost: ")

    (tmp_path / "state/runs").unlink()
    os.makedirs(place(tmp_path))
    (tmp_path / "mine").write_text("mine")
    os.symlink(tmp_path / "mine", f"{place(tmp_path)}/{ABOUT}.new")
    record = begun(tmp_path)
    record.end(End(0, COMMAND, ""))
    assert (bool(record.fault), (tmp_path / "mine").read_text()) == (True, "mine")


def test_the_logs_of_what_was_built_for_a_run_are_in_its_record(tmp_path: Path) -> None:
    """They are the same files, stay when their first place is made free, and go when the record is forgotten."""
    builds = tmp_path / "state/builds"
    builds.mkdir(parents=True)
    names = [f"20260301T110000Z-aisb-{image}-0123abcd-77.log" for image in ("gate", "sandbox")]
    for name in names:
        (builds / name).write_text(name)
    gone = f"{builds}/20260301T110000Z-aisb-other-0-1.log"
    fields = new_fields("0000000a", "/p")
    with on_record(
        RunRecord(f"{tmp_path}/state", fields, "", [*(f"{builds}/{name}" for name in names), gone])
    ) as record:
        record.end(End(0, COMMAND, ""))
    same = [os.stat(builds / name).st_ino for name in names]
    for name in names:
        (builds / name).unlink()

    found = Path(place(tmp_path))
    assert sorted(os.listdir(found)) == ["build-gate.log", "build-sandbox.log", POLICY, ABOUT]
    assert [(found / f"build-{image}.log").read_text() for image in ("gate", "sandbox")] == names
    assert [(found / f"build-{image}.log").stat().st_ino for image in ("gate", "sandbox")] == same
    begun(tmp_path, "0000000b").end(End(0, COMMAND, ""))
    for path in found.iterdir():
        os.utime(path, (1, 1))
    forget_old(f"{tmp_path}/state", Keep(1, 0))
    assert not found.exists()


def test_what_cannot_be_written_whole_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that needs the last of it at its start has it."""
    replace = os.replace

    def full(source: str, target: str) -> None:
        if target.endswith(POLICY):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    begun(tmp_path).begin()

    assert os.listdir(f"{tmp_path}/state/runs") == []


def test_killed_while_it_writes_the_old_record_is_there_whole(tmp_path: Path) -> None:
    """A reader never meets half a record, whenever the machine goes down."""
    program = """
import os, sys
from aisb.domain.run_record import COMMAND, End
from aisb.effects.run_record import RunRecord, new_fields
record = RunRecord(sys.argv[1], new_fields("0000000a", "/p"))
record.begin()
os.replace = lambda *_: os.kill(os.getpid(), 9)
record.end(End(0, COMMAND, "x" * 1000))
"""
    done = subprocess.run([sys.executable, "-c", program, f"{tmp_path}/state"], check=False)

    assert done.returncode == -signal.SIGKILL
    found = read_fields(place(tmp_path))
    assert (found["by"], found["ended"], is_running(found)) == (UNKNOWN, None, False)


def test_no_value_and_no_argument_is_on_record() -> None:
    """The policy names variables, whatever form they were given in; of the command there is the first word."""
    line = ["--env", f"TOKEN={SECRET}", "--env", "NEW=@OLD", "--net", "none", "--", "curl", "-u", SECRET]
    request = read_request(split(line, frozenset()), {"OLD": SECRET})
    policy = read_policy(Question(request.wanted, "", "/p", "home", "user", "", "", (), "", ""))
    text = policy_lines(policy)

    assert ("TOKEN" in text, "NEW" in text, SECRET in text) == (True, True, False)
    assert new_fields("0000000a", "/p", request.command[0])["command"] == "curl"


def test_every_run_is_listed_with_how_it_ended(tmp_path: Path) -> None:
    """Those that go on too, also one whose record could not be written."""
    where = Directories(*(f"{tmp_path}/{name}" for name in ("runtime", "cache", "state", "config")))
    begun(tmp_path, "0000000a", started="2026-01-02").begin()
    for run, end in (("0000000b", End(0, COMMAND, "")), ("0000000c", End(143, SIGNAL, ""))):
        begun(tmp_path, run, started=f"2026-01-03{run}").end(end)
    begun(tmp_path, "0000000d", started="2026-01-04", owner="1 1 another-boot").begin()
    os.makedirs(place(tmp_path, "0000000e"))
    Path(place(tmp_path, "0000000e"), ABOUT).write_text('{"project": "/old", "started": "2026-01-01"}')
    open_session(f"{where.runtime}/r", "0000000f", {}, "{}", {ABOUT: '{"started": "2026-01-05", "command": "sh"}'})

    found = every_run(where)

    assert [(item["run"], ended_words(item)) for item in found] == [
        ("0000000e", "unknown"),
        ("0000000a", "running"),
        ("0000000b", "exit 0"),
        ("0000000c", "exit 143 (signal)"),
        ("0000000d", "unknown"),
        ("0000000f", "running"),
    ]


def test_how_long_records_are_kept_is_a_number() -> None:
    """On the command line, by variable and by config.yaml; 0 keeps all."""
    assert read_request(split([], frozenset()), {}).keep == Keep(200, 30)
    given = read_request(split(["--keep-runs", "5"], frozenset()), {"AISB_KEEP_DAYS": "0"})
    assert given.keep == Keep(5, 0)
    for text in ("-1", "x", "1.5", "", "07", "1000000"):
        with pytest.raises(UsageError, match=r"--keep-days .* is not a number of days"):
            parse_keep(Setting("1", "--keep-runs"), Setting(text, "--keep-days"))


def test_what_became_of_files_is_kept_where_nobody_hears_it(tmp_path: Path) -> None:
    """Of a run in the background, or of one that a program asked for; no name in it looks like a line of its own."""
    record = RunRecord(str(tmp_path), new_fields("0123abcd", "/p", "sh", image="i", net="none"))
    record.begin()
    record.end(End(0, COMMAND, "the command ended with 0"))

    record.tell(["warning: one", "warning: t\nwo"])

    path = tmp_path / "runs/0123abcd/files"
    assert path.read_text() == "warning: one\nwarning: t\\nwo\n"
    kept = read_fields(str(path.parent))
    assert kept["reason"] == f"the command ended with 0; what this machine may run has changed: {path}"
    assert not list(SCHEMA.iter_errors(kept))
