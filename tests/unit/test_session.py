"""A run's directory: what is in it, who may read it, and whose it was."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from aisb.effects.session import claimed, close_session, open_session, orphans, this_process

if TYPE_CHECKING:
    from pathlib import Path


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
    living, dead, rebooted, unborn = (open_session(str(tmp_path), f"0000000{number}", {}, "{}") for number in range(4))
    pid, start, boot = this_process().split()
    (tmp_path / dead.run / "owner").write_text(f"{pid} {int(start) - 1} {boot}")
    (tmp_path / rebooted.run / "owner").write_text(f"{pid} {start} another-boot")
    (tmp_path / unborn.run / "owner").write_text("")

    assert orphans(str(tmp_path)) == [dead, rebooted]
    assert living not in orphans(str(tmp_path))


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
