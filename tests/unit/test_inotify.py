"""News of changes, where the kernel has none for us: a sandbox may have taken all that its user gets."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from aisb.effects.inotify import Inotify

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WITHOUT_ANY = """
import ctypes, os, resource, select
from aisb.effects.inotify import Inotify
if os.geteuid() == 0:
    # A user that no other process is: the instances are the user's.
    user = (1 << 31) + os.getpid()
    os.setresuid(user, user, user)
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
libc = ctypes.CDLL(None)
while libc.inotify_init1(0) >= 0:
    pass
with Inotify() as news:
    news.watch(["/tmp"])
    print(news.is_there, select.select([news.descriptor], [], [], 0)[0], news.changed())
"""


def test_where_no_news_are_to_be_had_nothing_seems_to_have_come() -> None:
    """Whoever waits for them waits, and looks by the clock."""
    argv = (sys.executable, "-c", WITHOUT_ANY)

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("False [] set()\n", "")


def test_who_makes_news_without_an_end_does_not_keep_anybody_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is read the next time, and it is said that something was missed."""
    monkeypatch.setattr("aisb.effects.inotify._MOST_READ", 1)
    names = {f"{number:0200}" for number in range(400)}
    with Inotify() as news:
        news.watch([str(tmp_path)])
        for name in names:
            (tmp_path / name).touch()
        first, *others = [news.changed() for _ in range(20)]

    assert "" in first
    assert set().union(first, *others) == {"", *(f"{tmp_path}/{name}" for name in names)}
    assert len(first) < len(names)
