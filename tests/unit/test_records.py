"""The records of runs: kept, bounded, found again, and followed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from typing import TYPE_CHECKING

from aisb.domain.run_record import Keep
from aisb.effects.records import AUDIT, Kept, follow, keep_record, recorded
from aisb.effects.retention import MOST_AT_ONCE, forget_old
from aisb.effects.run_record import ABOUT, new_fields, record_text
from aisb.effects.session import Session, close_session, open_session
from aisb.effects.state import Directories

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

LINE = b'{"host": "a.test"}'


def directories(path: Path) -> Directories:
    return Directories(*(str(path / name) for name in ("runtime", "cache", "state", "config")))


def running(path: Path, run: str, project: str = "/p") -> Session:
    parent = f"{directories(path).runtime}/g/0123456789ab/r"
    session = open_session(parent, run, {}, "{}", {ABOUT: record_text(new_fields(run, project)), "origins.json": "{}"})
    with open(f"{session.path}/{AUDIT}", "wb") as file:
        file.write(LINE + b"\n")
    return session


def kept(path: Path, run: str, when: int, size: int = 1) -> None:
    directory = path / "state" / "runs" / run
    directory.mkdir(parents=True)
    (directory / AUDIT).write_bytes(b"x" * size)
    os.utime(directory / AUDIT, (when, when))


def left(path: Path) -> list[str]:
    return sorted(os.listdir(path / "state" / "runs"))


def test_a_record_is_moved_with_what_it_is_about(tmp_path: Path) -> None:
    session = running(tmp_path, "0000000a", "/home/ada/p\udcff")
    state = directories(tmp_path).state

    assert keep_record(session, state) == Kept(f"{state}/runs/0000000a/{AUDIT}")
    close_session(session)
    (found,) = recorded(directories(tmp_path))
    assert (found.run, found.project, found.session, list(follow(found, None))) == (
        "0000000a", "/home/ada/p\udcff", None, [LINE],
    )  # fmt: skip
    assert not os.path.exists(session.path)
    assert os.stat(f"{state}/runs/0000000a").st_mode & 0o777 == 0o700


def test_a_run_without_a_gate_leaves_a_record_without_decisions(tmp_path: Path) -> None:
    own = {ABOUT: record_text(new_fields("0000000a", "/p"))}
    session = open_session(str(tmp_path / "runtime" / "r"), "0000000a", {}, "{}", own)

    assert keep_record(session, directories(tmp_path).state) == Kept()
    assert recorded(directories(tmp_path)) == []
    assert os.listdir(tmp_path / "state/runs/0000000a") == [ABOUT]


def test_where_no_record_can_be_kept_it_is_said_and_what_it_held_is_there_once_more(tmp_path: Path) -> None:
    """The run's own end is not touched by that. (C64)"""
    session = running(tmp_path, "0000000a")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "runs").write_text("a file in the way")

    found = keep_record(session, directories(tmp_path).state)
    assert (found.path, found.lines) == ("", (LINE.decode() + "\n",))
    assert found.fault.startswith("the record of run 0000000a is lost: ")
    assert recorded(directories(tmp_path))[0].session == session


def test_a_record_that_is_cut_off_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is moved to another file system as a rule, which may be full: whole, or not at all."""
    session = running(tmp_path, "0000000a")

    def half(_source: str, target: str) -> None:
        with open(target, "wb") as file:
            file.write(LINE[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "move", half)
    found = keep_record(session, directories(tmp_path).state)

    assert (found.lines, "No space left" in found.fault) == ((LINE.decode() + "\n",), True)
    assert os.listdir(tmp_path / "state/runs/0000000a") == []


def test_of_many_records_the_oldest_are_forgotten(tmp_path: Path) -> None:
    for number in range(6):
        kept(tmp_path, f"0000000{number}", when=1000 - number)
    forget_old(str(tmp_path / "state"), Keep(3, 0))

    assert left(tmp_path) == ["00000000", "00000001", "00000002"]


def test_of_large_records_the_oldest_are_forgotten_and_the_newest_is_not(tmp_path: Path) -> None:
    for number in range(4):
        kept(tmp_path, f"0000000{number}", when=1000 - number, size=40)
    forget_old(str(tmp_path / "state"), Keep(0, 0), most_bytes=100)
    assert left(tmp_path) == ["00000000", "00000001"]

    forget_old(str(tmp_path / "state"), Keep(0, 0), most_bytes=10)
    assert left(tmp_path) == ["00000000"]


def test_keeping_a_record_forgets_older_ones(tmp_path: Path) -> None:
    for number in range(11):
        kept(tmp_path, f"{number:08x}", when=1000 + number)
    keep_record(running(tmp_path, "0a0a0a0a"), directories(tmp_path).state, Keep(10, 0))

    assert (len(left(tmp_path)), left(tmp_path)[0], "0a0a0a0a" in left(tmp_path)) == (10, "00000002", True)


def test_records_of_long_ago_are_forgotten(tmp_path: Path) -> None:
    """By days, and by none of the two bounds where both are 0."""
    now = int(time.time())
    for number, days in enumerate((0, 1, 29, 31, 400)):
        kept(tmp_path, f"0000000{number}", when=now - days * 86400)
    forget_old(str(tmp_path / "state"), Keep(0, 0))
    assert len(left(tmp_path)) == 5

    forget_old(str(tmp_path / "state"))
    assert left(tmp_path) == ["00000000", "00000001", "00000002"]


def test_the_record_of_a_run_that_goes_on_is_never_forgotten(tmp_path: Path) -> None:
    """However old it is, and however many there are; the one of an aisb that is gone is as old as it is."""
    kept(tmp_path, "00000000", when=int(time.time()))
    for run, owner in (("00000001", None), ("00000002", "1 1 another-boot")):
        kept(tmp_path, run, when=1000)
        fields = new_fields(run, "/p")
        (tmp_path / "state/runs" / run / ABOUT).write_text(record_text(fields | ({"owner": owner} if owner else {})))
        os.utime(tmp_path / "state/runs" / run / ABOUT, (1000, 1000))
    forget_old(str(tmp_path / "state"), Keep(1, 1))

    assert left(tmp_path) == ["00000000", "00000001"]


def test_what_a_link_leads_to_is_nobodys_record(tmp_path: Path) -> None:
    """Neither a record that is a link, nor a link in one; nor anything that has no run's name."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/text").write_text("mine")
    for number in range(3):
        kept(tmp_path, f"0000000{number}", when=1000 - number)
    (tmp_path / "state/runs/00000002/link").symlink_to(tmp_path / "mine", target_is_directory=True)
    (tmp_path / "state/runs/0000000f").symlink_to(tmp_path / "mine", target_is_directory=True)
    (tmp_path / "state/runs/other").mkdir()
    forget_old(str(tmp_path / "state"), Keep(1, 1))

    assert left(tmp_path) == ["00000000", "0000000f", "other"]
    assert os.listdir(tmp_path / "mine") == ["text"]


def test_not_everything_is_forgotten_at_once(tmp_path: Path) -> None:
    """A run's end does not last because somebody keeps fewer from now on."""
    for number in range(MOST_AT_ONCE + 3):
        kept(tmp_path, f"{number:08x}", when=1000 + number)
    forget_old(str(tmp_path / "state"), Keep(1, 0))

    assert left(tmp_path) == [f"{number:08x}" for number in range(MOST_AT_ONCE, MOST_AT_ONCE + 3)]


def test_runs_come_in_the_order_of_their_starts_and_running_ones_last(tmp_path: Path) -> None:
    for run, started in (("0000000b", "2026-01-02T00:00:00Z"), ("0000000c", "2026-01-01T00:00:00Z")):
        kept(tmp_path, run, when=1)
        (tmp_path / "state/runs" / run / ABOUT).write_text(json.dumps({"project": "/p", "started": started}))
    kept(tmp_path, "0000000d", when=1)
    (tmp_path / "state/runs/0000000d" / ABOUT).write_text("[half")
    running(tmp_path, "0000000a")
    # One whose record was just moved.
    os.unlink(f"{running(tmp_path, '0000000e').path}/{AUDIT}")

    assert [item.run for item in recorded(directories(tmp_path))] == ["0000000d", "0000000c", "0000000b", "0000000a"]


def test_what_a_killed_aisb_has_left_is_no_running_run(tmp_path: Path) -> None:
    """It may lie there for days: a later run is the last one."""
    for run, started in (("0000000a", "2026-01-01"), ("0000000c", "2026-01-03")):
        session = running(tmp_path, run)
        for name, text in ((ABOUT, json.dumps({"project": "/p", "started": started})), ("owner", "1 1 another-boot")):
            with open(f"{session.path}/{name}", "w", encoding="ascii") as file:
                file.write(text)
    kept(tmp_path, "0000000b", when=1)
    (tmp_path / "state/runs/0000000b" / ABOUT).write_text(json.dumps({"project": "/p", "started": "2026-01-02"}))

    assert [(item.run, item.session) for item in recorded(directories(tmp_path))] == [
        ("0000000a", None), ("0000000b", None), ("0000000c", None),
    ]  # fmt: skip


def steps(*then: Callable[[], object]) -> Callable[[], None]:
    """A wait in which the next of these happens; one too many is an error."""
    waiting = list(then)
    return lambda: (waiting.pop(0)(), None)[1]


def test_a_running_record_is_followed_to_its_end(tmp_path: Path) -> None:
    """Half a line is not shown before its other half, and what is written last is not lost."""
    session = running(tmp_path, "0000000a")
    (found,) = recorded(directories(tmp_path))

    def write(data: bytes) -> None:
        with open(f"{session.path}/{AUDIT}", "ab") as file:
            file.write(data)

    def end() -> None:
        write(b"last\n")
        keep_record(session, directories(tmp_path).state)
        close_session(session)

    wait = steps(lambda: write(b"ha"), lambda: write(b"lf\n"), end)
    assert list(follow(found, wait)) == [LINE, b"half", b"last"]


def test_the_record_of_an_aisb_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    session = running(tmp_path, "0000000a")
    with open(f"{session.path}/owner", "w", encoding="ascii") as file:
        file.write("1 1 another-boot")

    assert list(follow(recorded(directories(tmp_path))[0], steps())) == [LINE]


def test_of_runs_that_begin_in_one_second_each_has_its_moment() -> None:
    """The last one of a project is the one that began last."""
    started = new_fields("0000000a", "/p")["started"]

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", started)
