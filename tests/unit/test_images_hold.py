"""The lock that a build's step watches, and what ^C does to it."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

import pytest

from aisb.effects.hold import hold

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
    with hold(str(tmp_path)):
        held = not is_free(tmp_path)

    assert (held, is_free(tmp_path)) == (True, True)


def interrupt(folder: Path, times: int, seen: list[bool]) -> None:
    """^C so many times, looking at the lock after each."""
    with hold(str(folder)):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
            seen.append(is_free(folder))


def test_an_interrupt_lets_go_and_is_raised_at_the_end(tmp_path: Path) -> None:
    """podman has the time to tidy up after the step that ends."""
    seen: list[bool] = []

    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path, 1, seen)

    assert seen == [True]


def test_a_second_interrupt_is_raised_at_once(tmp_path: Path) -> None:
    """For whoever does not want to wait."""
    seen: list[bool] = []

    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path, 2, seen)

    assert seen == [True]


def test_afterwards_an_interrupt_is_what_it_was(tmp_path: Path) -> None:
    """The handler is put back."""
    before = signal.getsignal(signal.SIGINT)

    with hold(str(tmp_path)):
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """A build in the background of a script is not ended by a ^C in front of it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hold(str(tmp_path)):
            signal.raise_signal(signal.SIGINT)
            assert not is_free(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
