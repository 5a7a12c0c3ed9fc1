"""`aisb logs` from outside: which record, in which form, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pexpect
import pytest

from aisb.domain.run_record import COMMAND, End
from aisb.effects.records import AUDIT, keep_record
from aisb.effects.run_record import ABOUT, RunRecord, new_fields
from aisb.effects.session import Session, close_session, open_session
from tests.unit.test_log import CUT_OFF, DENIED, LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROBE = {**DENIED, "host": "192.0.2.1", "reason": "direct-address"}


class Place(NamedTuple):
    """A user's directories, and a project."""

    path: Path

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.path), "XDG_RUNTIME_DIR": str(self.path / "rt"), "XDG_STATE_HOME": ""}

    @property
    def state(self) -> str:
        return f"{self.path}/.local/state/ai-sandbox"

    @property
    def project(self) -> str:
        return str(self.path / "p")

    def run(self, run: str, *lines: Mapping[str, object], started: str = "2026-03-01", project: str = "") -> Session:
        """A run that has written these lines, and runs."""
        parent = f"{self.path}/rt/aisb/g/0123456789ab/r"
        about = json.dumps({"project": project or self.project, "started": started})
        session = open_session(parent, run, {}, "{}", {ABOUT: about})
        with open(f"{session.path}/{AUDIT}", "w", encoding="ascii") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return session

    def end(self, session: Session) -> None:
        """It runs no more."""
        assert not keep_record(session, self.state).fault
        close_session(session)

    def ended(self, run: str, *lines: Mapping[str, object], started: str = "2026-03-01", project: str = "") -> None:
        """A run that has written these lines, and has ended."""
        self.end(self.run(run, *lines, started=started, project=project))

    def without_gate(self, run: str, started: str) -> None:
        """A run that had no gate, and has ended."""
        record = RunRecord(self.state, new_fields(run, self.project, "true", net="none") | {"started": started})
        record.end(End(0, COMMAND, ""))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`aisb logs` in the project."""
        return subprocess.Popen(
            [sys.executable, "-m", "aisb", "logs", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.project,
            env=self.environ,
        )

    def logs(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of `aisb logs`."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err


@pytest.fixture
def place() -> Iterator[Place]:
    # A socket's path has to be short, which pytest's own directories are not.
    with tempfile.TemporaryDirectory(prefix="aisb-") as name:
        path = Path(name)
        (path / "rt").mkdir(mode=0o700)
        (path / "p").mkdir()
        yield Place(path)


def hosts(printed: str) -> list[str]:
    return [json.loads(line)["host"] for line in printed.splitlines()]


def named(host: str) -> dict[str, object]:
    return {**LINE, "host": host}


def test_the_last_run_of_the_project_is_shown(place: Place) -> None:
    place.ended("0000000a", named("a.test"), started="2026-03-02")
    place.ended("0000000b", named("b.test"), started="2026-03-01")
    place.ended("0000000c", named("c.test"), started="2026-03-03", project="/elsewhere")
    assert hosts(place.logs("--json")[1]) == ["a.test"]

    running = place.run("0000000d", named("d.test"))
    assert hosts(place.logs("--json")[1]) == ["d.test"]
    place.end(running)
    assert hosts(place.logs("--json")[1]) == ["a.test"]


def test_a_run_is_named_by_the_beginning_of_its_id(place: Place) -> None:
    place.ended("12345678", named("a.test"))
    place.ended("12ffffff", named("b.test"), project="/elsewhere")
    running = place.run("aaaaaaaa", named("c.test"))

    assert hosts(place.logs("--json", "123")[1]) == ["a.test"]
    assert hosts(place.logs("12f", "--json")[1]) == ["b.test"]
    assert hosts(place.logs("--json", ".")[1]) == ["c.test"]
    assert place.logs("12") == (2, "", "aisb: more than one run is named '12'\naisb:   they are 12345678, 12ffffff\n")
    assert place.logs("12345679") == (
        2,
        "",
        "aisb: no run with a record is named '12345679'\naisb:   did you mean: aisb logs 12345678\n",
    )
    assert place.logs("zz")[2].splitlines()[1] == "aisb:   the last one here: aisb logs aaaaaaaa"
    place.end(running)
    assert place.logs(".") == (
        2,
        "",
        f"aisb: no run with a record of {place.project} goes on\naisb:   the last one here: aisb logs aaaaaaaa\n",
    )


def test_of_what_other_projects_ran_nothing_is_proposed(place: Place) -> None:
    place.ended("12ffffff", named("b.test"), project="/elsewhere")

    assert place.logs("12fffff0")[2].splitlines()[1] == "aisb:   see what ran: aisb ps --all"


def test_which_run_is_shown_is_said_where_none_was_named(place: Place) -> None:
    place.ended("0000000a", named("a.test"), started="2026-03-01T11:30:02.123Z")
    said = f"aisb: run 0000000a (2026-03-01 11:30 UTC), the last one of {place.project}:\n"

    shown = [place.logs(*words) for words in ((), ("--summary",), ("-f",), ("0000",), ("--json",))]

    assert [(code, errors) for code, _, errors in shown] == [(0, said), (0, said), (0, said), (0, ""), (0, "")]


@pytest.mark.parametrize("words", [(), ("--denied",), ("0000000b",), ("--json",), ("-f",), ("--summary",)])
def test_of_a_run_without_a_gate_no_older_ones_record_is_shown(place: Place, words: tuple[str, ...]) -> None:
    place.ended("0000000a", named("a.test"), started="2026-03-01T11:30:02.123Z")
    place.without_gate("0000000b", "2026-03-02T09:05:00.000Z")

    said = "aisb: run 0000000b (2026-03-02 09:05 UTC): it had no gate, so nothing is recorded\n"
    assert place.logs(*words) == (0, "", said)
    assert hosts(place.logs("--json", "0000000a")[1]) == ["a.test"]


def test_programs_are_told_of_a_run_without_a_gate_too(place: Place) -> None:
    place.without_gate("0000000b", "2026-03-02T09:05:00.000Z")

    assert json.loads(place.logs("--json", "--summary")[1])["run"] == "0000000b"


def test_where_there_is_no_record_a_sentence_says_so(place: Place) -> None:
    assert place.logs() == (0, "", f"aisb: no run of {place.project} has a record yet\n")

    place.ended("0000000a")
    assert place.logs() == (0, "", "aisb: run 0000000a: nothing is on record\n")
    assert place.logs("--json") == (0, "", "aisb: run 0000000a: nothing is on record\n")

    place.ended("0000000b", named("a.test"), started="2026-03-02")
    assert place.logs("--denied") == (0, "", "aisb: run 0000000b: nothing like that is on record\n")
    running = place.run("0000000c", PROBE)
    assert place.logs() == (0, "", "aisb: run 0000000c: so far nothing is on record\n")
    place.end(running)


def test_what_a_start_itself_tries_is_in_the_lines_and_not_in_the_table(place: Place) -> None:
    place.ended("0000000a", PROBE, DENIED, CUT_OFF)

    assert hosts(place.logs("--json")[1]) == ["192.0.2.1", "evil.test", ""]
    _, table, _ = place.logs()
    assert [line.split()[4:5] for line in table.splitlines()] == [["evil.test:443"], ["what"]]
    assert [line.split()[:2] for line in place.logs("--summary")[1].splitlines()] == [["the", "record"], ["1", "deny"]]


def test_json_is_the_lines_as_they_are_and_nothing_that_a_gate_does_not_write(place: Place) -> None:
    session = place.run("0000000a", LINE)
    with open(f"{session.path}/{AUDIT}", "ab") as file:
        file.write(
            b'\x1b[2J\n{"decision": "deny", "host": "\xe2\x80\xae"}\n' + json.dumps(DENIED).encode() + b"\n{half"
        )
    place.end(session)

    assert place.logs("--json") == (0, f"{json.dumps(LINE)}\n{json.dumps(DENIED)}\n", "")


def test_what_cannot_be_meant_is_an_error(place: Place) -> None:
    assert place.logs("--json", "--summary", "--markdown")[0] == 2
    assert place.logs("--markdown") == (
        2,
        "",
        "aisb: --markdown is a form of the summary\naisb:   write: aisb logs --summary --markdown\n",
    )
    assert place.logs("--since", "tomorrow") == (
        2,
        "",
        "aisb: --since 'tomorrow' is no time\naisb:   write: 30m, 2h, 1d, or a time in UTC: 2026-01-31T09:30\n",
    )
    assert place.logs("--foo")[0] == 2


def test_since_counts_from_a_time(place: Place) -> None:
    place.ended("0000000a", {**named("a.test"), "time": "2026-03-01T10:00:00.000Z"}, named("b.test"))

    assert hosts(place.logs("--json", "--since", "2026-03-01T10:30")[1]) == ["b.test"]
    assert hosts(place.logs("--json", "--since", "99999h")[1]) == ["a.test", "b.test"]


def test_a_run_is_followed_until_it_ends(place: Place) -> None:
    session = place.run("0000000a", LINE)
    with place.start("-f") as process:
        assert process.stdout is not None
        assert "a.test:443" in process.stdout.readline()
        with open(f"{session.path}/{AUDIT}", "a", encoding="ascii") as file:
            file.write(json.dumps(DENIED) + "\n")
        assert "evil.test:443" in process.stdout.readline()
        place.end(session)
        said = f"aisb: run 0000000a (2026-03-01 UTC), the last one of {place.project}:\n"
        assert process.communicate(timeout=60) == ("", said)
        assert process.returncode == 0


def test_a_reader_that_leaves_ends_it_without_a_word(place: Place) -> None:
    """Also where nothing more is written to the record. (A run may be silent for hours.)"""
    session = place.run("0000000a", LINE)
    with place.start("-f", "0000000a") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""
    place.end(session)


@pytest.mark.parametrize("words", [(), ("--json",), ("--summary",), ("-f",)])
@pytest.mark.parametrize("count", [1, 5000])
def test_on_a_full_disk_it_ends_with_a_sentence(place: Place, count: int, words: tuple[str, ...]) -> None:
    """Also where it is longer than what is held back, so that writing fails in the middle of it."""
    place.ended("0000000a", *(named(f"host-{number}.test") for number in range(count)))

    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "aisb", "logs", *words],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=place.project,
            env=place.environ,
            timeout=60,
            check=False,
        )

    said = done.stderr.splitlines()[-1]
    assert (done.returncode, said) == (1, "aisb: stdout could not be written: No space left on device")


def test_a_record_that_nobody_follows_is_read_and_not_waited_for(place: Place) -> None:
    place.ended("0000000a", LINE)
    started = time.monotonic()

    assert place.logs("-f", "--json")[:2] == (0, json.dumps(LINE) + "\n")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("words", "environ", "coloured"),
    [
        ((), {}, True),
        (("--summary",), {}, True),
        ((), {"NO_COLOR": ""}, True),
        ((), {"NO_COLOR": "1"}, False),
        (("--summary",), {"NO_COLOR": "1"}, False),
        (("--json",), {}, False),
        (("--summary", "--markdown"), {}, False),
    ],
)
def test_a_terminal_has_colours_where_nobody_said_no(
    place: Place, words: tuple[str, ...], environ: dict[str, str], coloured: bool
) -> None:
    """(https://no-color.org: a variable that is empty says nothing.) What is no terminal has none."""
    place.ended("0000000a", DENIED)
    env = {**place.environ, **environ}
    terminal = pexpect.spawn(
        sys.executable, ["-m", "aisb", "logs", *words], cwd=place.project, env=env, encoding="utf-8", timeout=60
    )

    terminal.expect(pexpect.EOF)

    shown = str(terminal.before)
    assert ("evil.test" in shown, "\x1b[31m" in shown, "\x1b" in shown) == (True, coloured, coloured)
    assert "\x1b" not in place.logs(*words)[1]
