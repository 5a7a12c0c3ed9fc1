"""What is watched while a run goes on, with real files and the kernel's own news."""

from __future__ import annotations

import os
import queue
import resource
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from aisb.domain.protected import FILE, Protected
from aisb.effects.inotify import Inotify
from aisb.effects.session import session_at
from aisb.effects.shield import Shield, watched
from aisb.effects.tree import Tree
from aisb.effects.watch import Watch
from tests.fakes import FakeRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# As long as nobody waits who has to wait.
LONG = 30


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with files that are watched, and one beside it that nobody watches."""
    for name in ("p/a", "p/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "q").mkdir()
    os.link(tmp_path / "p/b", tmp_path / "q/b")
    return tmp_path


@contextmanager
def watching(place: Path, *names: str, tell: Callable[[str], None]) -> Iterator[Watch]:
    """A watch over these files, of a run that goes on."""
    with Tree(str(place)) as tree:
        shield = Shield(watched=tuple(watched(tree, Protected(f"p/{name}", FILE)) for name in names))
    with Watch(shield, session_at(str(place), "0000000a"), FakeRunner(), tell) as watch:
        yield watch


@contextmanager
def flood(directory: Path) -> Iterator[None]:
    """Changes without an end, of what nobody watches."""
    is_over = threading.Event()

    def make() -> None:
        while not is_over.is_set():
            (directory / "x").touch()
            (directory / "x").unlink()

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_no_flood_of_changes_hides_one_that_the_kernel_tells_nothing_of(place: Path) -> None:
    """Written by another name of it."""
    told: queue.Queue[str] = queue.Queue()

    with watching(place, "b", tell=told.put), flood(place / "p"):
        found = []
        # The first may be seen by the look at the beginning.
        for text in ("x", "y"):
            (place / "q/b").write_text(text)
            found.append(told.get(timeout=LONG))

    assert found == [f"{place}/p/b has changed"] * 2


@pytest.fixture
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at for the time alone."""
    monkeypatch.setattr("aisb.effects.watch._LOOK_SECONDS", 1000)


@pytest.mark.usefixtures("no_clock")
def test_what_the_kernel_had_no_room_to_tell_is_looked_for(place: Path) -> None:
    told: queue.Queue[str] = queue.Queue()
    may_go_on = threading.Event()
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        most = int(file.read())

    def tell(event: str) -> None:
        told.put(event)
        may_go_on.wait(LONG)

    with watching(place, "a", "b", tell=tell):
        # The last that is looked at.
        (place / "p/b").write_text("x")
        first = told.get(timeout=LONG)
        for number in range(most):
            (place / f"p/{number}").touch()
        (place / "p/a").write_text("x")
        may_go_on.set()
        second = told.get(timeout=LONG)

    assert (first, second) == (f"{place}/p/b has changed", f"{place}/p/a has changed")


class Deaf(Inotify):
    """Hears nothing, as where a sandbox has taken all that its user gets."""

    def __init__(self) -> None:
        super().__init__()
        self.is_there = False


@pytest.mark.usefixtures("no_clock")
def test_where_the_kernel_tells_nothing_it_is_looked_by_the_clock(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisb.effects.inotify.Inotify", Deaf)
    told: queue.Queue[str] = queue.Queue()

    with watching(place, "a", tell=told.put):
        found = []
        # The first may be seen by the look at the beginning.
        for text in ("x", "y"):
            (place / "p/a").write_text(text)
            found.append(told.get(timeout=LONG))

    assert found == [f"{place}/p/a has changed"] * 2


def test_what_has_appeared_is_told_at_once_with_the_command_that_undoes_it(place: Path) -> None:
    told: queue.Queue[str] = queue.Queue()

    with watching(place, "it's new", tell=told.put):
        (place / "p/it's new").write_text("x")
        found = told.get(timeout=LONG)
    subprocess.run(("sh", "-c", found.partition("; to undo it: ")[2]), check=True)

    assert found.startswith(f"{place}/p/it's new has appeared; to undo it: rm ")
    assert not (place / "p/it's new").exists()


def test_no_name_makes_a_line_among_ours(place: Path) -> None:
    told: queue.Queue[str] = queue.Queue()

    with watching(place, "c\naisb: all is well", tell=told.put) as watch:
        (place / "p/c\naisb: all is well").write_text("x")
        found = told.get(timeout=LONG)

    word = f"$'{place}/p/c\\012aisb: all is well'"
    assert found == f"{place}/p/c\\naisb: all is well has appeared; to undo it: rm {word}"
    assert watch.events == [found]


def test_a_machine_without_descriptors_does_not_end_the_watch(place: Path) -> None:
    """What has changed meanwhile is told when there are some again."""
    told: queue.Queue[str] = queue.Queue()
    may_go_on = threading.Event()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    # Before it looks at the other one: what is open when the limit comes is read for all that.
    def tell(event: str) -> None:
        told.put(event)
        may_go_on.wait(LONG)

    with watching(place, "a", "b", tell=tell):
        (place / "p/a").write_text("x")
        first = told.get(timeout=LONG)
        with open(place / "p/b", "w", encoding="ascii") as file:
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            file.write("x")
        may_go_on.set()
        is_told = _is_told(told)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        second = told.get(timeout=LONG)

    assert (first, is_told, second) == (f"{place}/p/a has changed", False, f"{place}/p/b has changed")


def _is_told(told: queue.Queue[str]) -> bool:
    """Within the time of several looks."""
    try:
        told.get(timeout=0.5)
    except queue.Empty:
        return False
    return True
