"""The lock that a build's step watches, and what ^C does to it."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

import pytest

from aisb.effects.hold import PATIENCE_SECONDS, hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def listen_to_interrupts() -> Iterator[None]:
    """As in a terminal: a shell's job in the background begins with ^C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_free(folder: Path) -> bool:
    """Whether a step inside would find the lock free."""
    descriptor = os.open(folder / "held", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_the_lock_is_held_for_as_long_as_the_block_runs(tmp_path: Path) -> None:
    """A step goes on while it is held, and ends itself when it is free."""
    with hold(str(tmp_path), [].append):
        held = not is_free(tmp_path)

    assert (held, is_free(tmp_path)) == (True, True)


def interrupt(folder: Path, moments: tuple[float, ...]) -> tuple[list[bool], list[str]]:
    """^C at each of these moments: the lock after each that was not raised, and what was said."""
    times = iter(moments)
    seen: list[bool] = []
    notes: list[str] = []

    def at_each_moment() -> None:
        with hold(str(folder), notes.append, lambda: next(times)):
            for _ in moments:
                signal.raise_signal(signal.SIGINT)
                seen.append(is_free(folder))

    with pytest.raises(KeyboardInterrupt):
        at_each_moment()
    return seen, notes


INTERRUPTED = ["interrupted: podman ends the step and tidies up"]


def test_an_interrupt_lets_go_and_is_raised_at_the_end(tmp_path: Path) -> None:
    """podman has the time to tidy up after the step that ends."""
    assert interrupt(tmp_path, (7.0,)) == ([True], INTERRUPTED)


def test_a_second_interrupt_soon_afterwards_changes_nothing(tmp_path: Path) -> None:
    """`timeout -s INT` sends two at once, and so do people: what podman has begun is not left alone for that."""
    assert interrupt(tmp_path, (7.0, 7.0, 7.0 + PATIENCE_SECONDS)) == ([True, True, True], INTERRUPTED)


def test_an_interrupt_of_somebody_who_has_waited_is_raised_at_once(tmp_path: Path) -> None:
    """For a podman that does not come to an end."""
    assert interrupt(tmp_path, (7.0, 7.1 + PATIENCE_SECONDS)) == ([True], INTERRUPTED)


def test_afterwards_an_interrupt_is_what_it_was(tmp_path: Path) -> None:
    """The handler is put back."""
    before = signal.getsignal(signal.SIGINT)

    with hold(str(tmp_path), [].append):
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """A build in the background of a script is not ended by a ^C in front of it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hold(str(tmp_path), [].append):
            signal.raise_signal(signal.SIGINT)
            assert not is_free(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
