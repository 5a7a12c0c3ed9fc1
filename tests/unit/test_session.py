"""A run's directory: what is in it, who may read it, and whose it was."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from pathlib import Path

from aisb.effects.session import (
    Session,
    claimed,
    close_session,
    every_orphan,
    living,
    open_session,
    orphans,
    this_process,
)


def test_root_in_the_sandbox_can_read_it_and_only_through_the_callers_directory(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        session = open_session(str(tmp_path / "r"), "1a2b3c4d", {"mode": "none\n"}, "{}")
    finally:
        os.umask(old)

    modes = {
        os.path.relpath(path, session.path): stat.S_IMODE(os.stat(path).st_mode)
        for path in (session.path, session.files, session.sockets, f"{session.files}/gate", f"{session.files}/mode")
    }
    assert modes == {".": 0o711, "run": 0o755, "s": 0o711, "run/gate": 0o755, "run/mode": 0o644}


def test_a_session_of_a_living_aisb_is_no_orphan(tmp_path: Path) -> None:
    open_session(str(tmp_path), "1a2b3c4d", {}, "{}")

    assert orphans(str(tmp_path)) == []


def test_a_session_whose_aisb_is_gone_is_an_orphan(tmp_path: Path) -> None:
    alive, dead, rebooted, unborn = (open_session(str(tmp_path), f"0000000{number}", {}, "{}") for number in range(4))
    pid, start, boot = this_process().split()
    (tmp_path / dead.run / "owner").write_text(f"{pid} {int(start) - 1} {boot}")
    (tmp_path / rebooted.run / "owner").write_text(f"{pid} {start} another-boot")
    (tmp_path / unborn.run / "owner").write_text("")

    assert orphans(str(tmp_path)) == [dead, rebooted]
    assert alive not in orphans(str(tmp_path))


def old(directory: Path) -> None:
    """As if nobody had touched it for a day."""
    long_ago = time.time() - 86400
    os.utime(directory, (long_ago, long_ago))


def test_a_directory_that_never_had_an_owner_is_an_orphan_once_it_is_old(tmp_path: Path) -> None:
    """It is not one that is just being made, and none in which a sandbox runs."""
    bare, empty, fresh, goes_on, over = (
        tmp_path / "r" / name for name in ("bare", "empty", "fresh", "goes-on", "over")
    )
    for directory in (bare, empty, fresh, goes_on, over):
        directory.mkdir(parents=True)
    (empty / "owner").touch()
    (goes_on / "pid").write_text(f"{os.getpid()}\n")
    (over / "pid").write_text(f"{2**22 + 1}\n")
    for directory in (bare, empty, goes_on, over):
        old(directory)

    assert [session.run for session in orphans(str(tmp_path / "r"))] == ["bare", "empty", "over"]
    assert [session.run for session in every_orphan(str(tmp_path))] == ["bare", "empty", "over"]
    assert [session.run for session in living(str(tmp_path))] == ["fresh", "goes-on"]


def await_waiting(thread: threading.Thread, kind: str) -> None:
    """Until that thread of ours waits for a lock of that kind."""
    waits = ["->", "FLOCK", "ADVISORY", kind, str(os.getpid())]
    while not any(line.split()[1:6] == waits for line in Path("/proc/locks").read_text().splitlines()):
        assert thread.is_alive()


def test_one_that_takes_long_to_make_is_no_orphan(tmp_path: Path) -> None:
    """Its maker holds a lock, so whoever looks waits until it is somebody's."""
    made = tmp_path / "r" / "0000aaaa"
    made.mkdir(parents=True)
    old(made)
    descriptor = os.open(tmp_path / "r", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    found: list[list[Session]] = []
    looker = threading.Thread(target=lambda: found.append(orphans(str(tmp_path / "r"))))
    looker.start()
    await_waiting(looker, "WRITE")

    (made / "owner").write_text(this_process())
    os.close(descriptor)
    looker.join()

    assert found == [[]]


def test_none_is_begun_while_somebody_looks_for_what_has_no_owner(tmp_path: Path) -> None:
    """Nor is one in the making then: its maker waits."""
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    maker = threading.Thread(target=lambda: open_session(str(tmp_path), "1a2b3c4d", {}, "{}"))
    maker.start()
    await_waiting(maker, "READ")
    before = os.listdir(tmp_path)

    os.close(descriptor)
    maker.join()

    assert (before, os.listdir(tmp_path)) == ([], ["1a2b3c4d"])


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    session = open_session(str(tmp_path), "1a2b3c4d", {"x": "y"}, "{}")

    close_session(session)
    close_session(session)

    assert os.listdir(tmp_path) == []


def test_one_alone_takes_a_session_away(tmp_path: Path) -> None:
    """The guardian of a run that was killed and the next run both want to."""
    session = open_session(str(tmp_path), "1a2b3c4d", {}, "{}")

    with claimed(session) as first, claimed(session) as second:
        pass
    with claimed(session) as afterwards:
        close_session(session)
    with claimed(session) as gone:
        pass

    assert (first, second, afterwards, gone) == (True, False, True, False)


def test_no_directory_has_no_orphans(tmp_path: Path) -> None:
    assert orphans(str(tmp_path / "nowhere")) == []
