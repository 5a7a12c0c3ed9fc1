"""`aisb ps`: what is listed of each run, at once, and what could not be told."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from aisb.cli.runs import ps_verb
from aisb.domain.answers import answer_text
from aisb.domain.records import Denials
from aisb.domain.run_record import COMMAND, End
from aisb.effects.records import AUDIT
from aisb.effects.run_list import ended_run, list_runs
from aisb.effects.run_record import ABOUT, RunRecord, new_fields, record_text
from aisb.effects.session import Session, open_session, start_time
from aisb.effects.state import Directories
from aisb.effects.usage import Budget, Usage, denials_in, group_memory, usage_of
from aisb.errors import UsageError
from aisb.render.runs import run_lines
from gate.audit import Audit, Decision

ROOT = Path(__file__).parents[2]
GATE = "0123456789ab"
DENIED = Decision("b.test", 443, "CONNECT", "", allowed=False, reason="not-listed", rule="")
ALLOWED = DENIED._replace(host="a.test", allowed=True, reason="")
PROBE = DENIED._replace(host="192.0.2.1", reason="direct-address")


def directories(path: Path) -> Directories:
    return Directories(*(str(path / name) for name in ("runtime", "cache", "state", "config")))


def running(
    path: Path,
    run: str,
    *decisions: Decision,
    gate: str | None = GATE,
    net: str = "allow",
    publish: tuple[str, ...] = (),
) -> Session:
    """A run that goes on, with these decisions in its gate's record."""
    where = directories(path)
    fields = new_fields(run, "/p", "npm", net=net, gate=gate, allows=2, publish=publish) | {
        "started": f"2026-03-01T{run[-2:]}:00:00.000Z"
    }
    parent = f"{where.runtime}/g/{gate}/r" if gate else f"{where.runtime}/r"
    session = open_session(parent, run, {}, "{}", {ABOUT: record_text(fields)})
    if gate:
        audit = Audit(f"{session.path}/{AUDIT}", run)
        for decision in decisions:
            audit.write(decision)
        audit.close()
    return session


def over(path: Path, run: str, *decisions: Decision) -> None:
    """One that has ended after two minutes."""
    state = directories(path).state
    fields = new_fields(run, "/p", "make", net="allow", gate=GATE, allows=1)
    record = RunRecord(state, fields | {"started": "2026-02-01T09:00:00.000Z"})
    record.end(End(3, COMMAND, "the command ended with 3"))
    about = Path(state, "runs", run, ABOUT)
    about.write_text(record_text(json.loads(about.read_text()) | {"ended": "2026-02-01T09:02:03.000Z"}))
    audit = Audit(str(about.with_name(AUDIT)), run)
    for decision in decisions:
        audit.write(decision)
    audit.close()


def listed(path: Path, *, everything: bool = False) -> list[list[str]]:
    """The cells of the list."""
    lines = run_lines(list_runs(directories(path), everything=everything), everything=everything)
    return [[cell.strip() for cell in line.split("  ") if cell] for line in lines]


def test_a_run_is_listed_with_its_policy_its_gate_and_what_was_denied(tmp_path: Path) -> None:
    """What a start itself tries is nobody's news. A gate that has ended is named as such, and so is what is not known."""
    running(tmp_path, "00000010", ALLOWED, DENIED, PROBE, DENIED)
    running(tmp_path, "00000011", gate=None, net="none")

    assert listed(tmp_path) == [
        ["RUN", "UP", "MEMORY", "DENIED", "GATE", "POLICY", "COMMAND", "PROJECT"],
        ["00000010", "unknown", "unknown", "2", f"{GATE} (ended)", "allow 2 entries", "npm", "/p"],
        ["00000011", "unknown", "unknown", "-", "-", "none", "npm", "/p"],
    ]


def test_one_that_is_over_is_listed_with_how_long_it_took_and_how_it_ended(tmp_path: Path) -> None:
    running(tmp_path, "00000010", gate=None, net="none")
    over(tmp_path, "0000000a", DENIED, ALLOWED)

    assert listed(tmp_path, everything=True) == [
        ["RUN", "STARTED", "STATE", "TIME", "MEMORY", "DENIED", "GATE", "POLICY", "COMMAND", "PROJECT", "REASON"],
        [
            "0000000a",
            "2026-02-01T09:00:00.000Z",
            "exit 3",
            "2m",
            "-",
            "1",
            GATE,
            "allow 1 entry",
            "make",
            "/p",
            "the command ended with 3",
        ],
        ["00000010", "2026-03-01T10:00:00.000Z", "running", "unknown", "unknown", "-", "-", "none", "npm", "/p", "-"],
    ]


def test_one_that_is_over_is_shown_with_all_of_its_reason(tmp_path: Path) -> None:
    """By the beginning of its id; one that goes on is another's to show, and two of that beginning are an error."""
    over(tmp_path, "0000000a", DENIED)
    running(tmp_path, "0b000010", gate=None, net="none")
    over(tmp_path, "0000ffff")
    answers = json.loads((ROOT / "config/schemas/answers.json").read_text())
    schema = Draft7Validator({**answers, "anyOf": [{"$ref": "#/definitions/inspect%20RUN%20that%20has%20ended"}]})

    found = ended_run(directories(tmp_path), "0000000a")

    assert found is not None
    assert list(schema.iter_errors(json.loads(answer_text(found)))) == []
    assert (found["exit"], found["by"], found["reason"], found["denials"], found["seconds"]) == (
        3, "command", "the command ended with 3", 1, 123,
    )  # fmt: skip
    assert [ended_run(directories(tmp_path), run) for run in ("0b", "ffff")] == [None, None]
    with pytest.raises(UsageError, match="there are 2 runs: 0000000a 0000ffff"):
        ended_run(directories(tmp_path), "0000")


def test_where_nothing_runs_nothing_is_listed_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="run-") as home:
        for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, home)
        ps_verb(everything=True, as_json=False)
        over(Path(home), "0000000a")
        os.renames(f"{home}/state/runs", f"{home}/ai-sandbox/runs")
        ps_verb(everything=False, as_json=False)
        ps_verb(everything=False, as_json=True)

    out, err = capsys.readouterr()
    assert json.loads(out)["runs"] == []
    assert err.splitlines() == [
        "aisb: no run is on record",
        "aisb: no sandbox is running; what ran before: aisb ps --all",
    ]


def test_ports_are_listed_where_a_run_has_any(tmp_path: Path) -> None:
    running(tmp_path, "00000010", gate=None, net="none", publish=("8080:3000", "5173:5173"))
    running(tmp_path, "00000011", gate=None, net="none")

    assert [row[5:] for row in listed(tmp_path)] == [
        ["POLICY", "PORTS", "COMMAND", "PROJECT"],
        ["none", "8080:3000 5173:5173", "npm", "/p"],
        ["none", "-", "npm", "/p"],
    ]
    assert [run["publish"] for run in list_runs(directories(tmp_path), everything=False)] == [
        ["8080:3000", "5173:5173"],
        [],
    ]


def test_nothing_is_told_of_the_end_of_a_run_that_goes_on(tmp_path: Path) -> None:
    running(tmp_path, "00000010")
    over(tmp_path, "0000000a")

    ends = [
        [run[key] for key in ("exit", "ended", "by", "reason")]
        for run in list_runs(directories(tmp_path), everything=True)
    ]

    assert ends == [
        [3, "2026-02-01T09:02:03.000Z", "command", "the command ended with 3"],
        [None, None, None, ""],
    ]


def test_programs_are_told_the_same_and_null_for_what_is_not_known(tmp_path: Path) -> None:
    running(tmp_path, "00000010", DENIED)
    over(tmp_path, "0000000a")
    os.unlink(f"{directories(tmp_path).state}/runs/0000000a/{AUDIT}")
    answers = json.loads((ROOT / "config/schemas/answers.json").read_text())
    schema = Draft7Validator({**answers, "anyOf": [{"$ref": "#/definitions/ps"}]})

    runs = list_runs(directories(tmp_path), everything=True)

    assert list(schema.iter_errors(json.loads(answer_text({"runs": runs})))) == []
    figures = ("run", "state", "net", "allows", "gate", "gateListens", "seconds", "memory", "denials", "isRecordFull")
    assert [{key: run[key] for key in figures} for run in runs] == [
        {
            "run": "0000000a", "state": "ended", "net": "allow", "allows": 1, "gate": GATE, "gateListens": None,
            "seconds": 123, "memory": None, "denials": None, "isRecordFull": False,
        },
        {
            "run": "00000010", "state": "running", "net": "allow", "allows": 2, "gate": GATE, "gateListens": False,
            "seconds": None, "memory": None, "denials": 1, "isRecordFull": False,
        },
    ]  # fmt: skip


def test_a_gate_that_takes_no_call_at_once_is_not_waited_for(tmp_path: Path) -> None:
    running(tmp_path, "00000010")
    with socket.socket(socket.AF_UNIX) as gate:
        gate.bind(f"{directories(tmp_path).runtime}/g/{GATE}/ctl.sock")
        # Room for one call that nobody takes.
        gate.listen(0)

        assert [listed(tmp_path)[1][4] for _ in range(2)] == [GATE, f"{GATE} (unknown)"]


def sandbox(path: Path, run: str, process: int, *held: int, table: int = 1) -> Session:
    """A run whose first process is that one, in a process table of its own with others that hold so many kB each."""
    session = open_session(f"{path}/r", run, {}, "{}")
    Path(session.pid_file).write_text(f"{process}\n")
    for number, kilobytes in enumerate(held):
        place = path / "proc" / str(process + number)
        (place / "ns").mkdir(parents=True)
        os.symlink(f"pid:[{table}]", place / "ns/pid")
        place.joinpath("status").write_text(f"Name:\tx\nNSpid:\t{process + number}\t{1 + number}\n")
        place.joinpath("smaps_rollup").write_text(f"Rss:  9999 kB\nPss:  {kilobytes} kB\nPss_Dirty:  1 kB\n")
    return session


def memory(path: Path, *sessions: Session, budget: Budget | None = None) -> dict[str, int | None]:
    found = usage_of(sessions, budget or Budget(60), str(path / "proc"), str(path / "cgroup"))
    return {run: usage.memory for run, usage in found.items()}


def test_without_a_control_group_memory_is_what_the_processes_of_a_sandbox_hold(tmp_path: Path) -> None:
    """Each shared page by its part, and those of one sandbox alone. One that is not there yet holds what is not known."""
    one = sandbox(tmp_path, "0000000a", 4000001, 100, 20, 3)
    other = sandbox(tmp_path, "0000000b", 4000011, 7, table=2)
    new = open_session(f"{tmp_path}/r", "0000000c", {}, "{}")

    assert memory(tmp_path, one, other, new) == {"0000000a": 123 * 1024, "0000000b": 7 * 1024, "0000000c": None}


def test_what_takes_too_long_to_sum_up_is_not_known(tmp_path: Path) -> None:
    """An agent with thousands of processes holds nobody up."""
    assert memory(tmp_path, sandbox(tmp_path, "0000000a", 4000001, 100), budget=Budget(-1)) == {"0000000a": None}


def test_a_process_that_is_no_sandboxs_is_not_counted(tmp_path: Path) -> None:
    """Its number was given away anew: it is not the first one of a table of its own."""
    session = sandbox(tmp_path, "0000000a", 4000001, 100)
    (tmp_path / "proc/4000001/status").write_text("Name:\tx\nNSpid:\t4000001\n")

    assert usage_of([session], Budget(60), str(tmp_path / "proc")) == {"0000000a": Usage()}


def test_a_control_group_of_its_own_counts_at_once_and_what_is_kept_for_speed_is_no_ones(tmp_path: Path) -> None:
    """One that others share counts them too, and is not asked."""
    own = tmp_path / "cgroup" / "user.slice/libpod-0a.scope/container"
    own.mkdir(parents=True)
    (own / "memory.current").write_text("1000\n")
    (own / "memory.stat").write_text("anon 600\ninactive_file 300\n")

    assert group_memory(str(tmp_path / "cgroup"), "/user.slice/libpod-0a.scope/container") == 700
    assert group_memory(str(tmp_path / "cgroup"), "/user.slice/session-1.scope") is None
    assert group_memory(str(tmp_path / "cgroup"), "/user.slice/libpod-0b.scope/container") is None


def test_how_long_a_sandbox_is_up_is_by_its_first_process_and_no_clock_that_is_set(tmp_path: Path) -> None:
    process = os.getpid()
    session = sandbox(tmp_path, "0000000a", process, 1)
    up = time.clock_gettime(time.CLOCK_BOOTTIME) - int(start_time(str(process))) / os.sysconf("SC_CLK_TCK")

    seconds = usage_of([session], Budget(60), str(tmp_path / "proc"))["0000000a"].seconds

    assert seconds is not None
    assert abs(seconds - up) <= 2


def test_a_record_that_is_full_had_more(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path / AUDIT), "0000000a", largest=1000)
    for _ in range(20):
        audit.write(DENIED)
    audit.close()

    found = denials_in(str(tmp_path / AUDIT), Budget(60))

    assert found is not None
    assert (found.is_whole, 0 < found.number < 20) == (False, True)
    assert denials_in(str(tmp_path / AUDIT), Budget(-1)) is None
    assert denials_in(str(tmp_path), Budget(60)) is None
    assert denials_in(os.devnull, Budget(60)) == Denials(0, is_whole=True)


def test_a_list_of_very_many_denials_is_there_at_once(tmp_path: Path) -> None:
    """C64: full records, and the processes of twenty sandboxes, within the second that a list may take."""
    for number in range(20):
        session = running(tmp_path, f"000000{number:02d}")
        line = b'{"time": "2026-03-01T09:00:00.000Z", "run": "0", "host": "b.test", "port": 443, "decision": "deny"}\n'
        Path(f"{session.path}/{AUDIT}").write_bytes(line * 160_000)
    # Of a short path, as a socket's has to be.
    with tempfile.TemporaryDirectory(prefix="run-") as run:
        os.symlink(directories(tmp_path).runtime, f"{run}/aisb")
        environ = {"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": run}
        # Of the processor's time: how much of it there is to be had is nothing of ours.
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(
            [sys.executable, "-m", "aisb", "ps", "--json"], env=environ, capture_output=True, text=True, check=True
        )
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    denials = [run["denials"] for run in json.loads(done.stdout)["runs"]]
    assert (len(denials), set(denials) <= {None, 160_000}, seconds < 5) == (20, True, True)


ASK = """
import sys
from aisb.cli.main import main
codes = [main(["ps", "--quiet"]), main(["ps", "--quiet", "--all"])]
print(*codes, {"typer", "yaml", "jinja2"} & sys.modules.keys())
print(main(["ps", "-q"]), main(["ps", "--all", "-q"]), main(["ps", "--quiet", "--json"]))
"""


def test_ids_alone_are_there_before_a_shell_that_completes_has_to_wait() -> None:
    """By the long flags nothing is imported that carries the other verbs; the answer is the same by the short ones."""
    with tempfile.TemporaryDirectory(prefix="run-") as home:
        over(Path(home), "0000000a")
        os.renames(f"{home}/state/runs", f"{home}/state/ai-sandbox/runs")
        fields = new_fields("0000000b", "/p")
        open_session(f"{home}/aisb/r", "0000000b", {}, "{}", {ABOUT: record_text(fields)})
        done = subprocess.run(
            [sys.executable, "-c", ASK],
            env={"HOME": home, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": f"{home}/state", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    one, both = "0000000b\n", "0000000a\n0000000b\n"
    assert done.stdout == f"{one}{both}0 0 set()\n{one}{both}0 0 2\n"
    assert done.stderr == "aisb: --quiet and --json exclude each other\naisb:   leave one of the two out\n"
