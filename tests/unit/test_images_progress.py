"""What a build says while it goes on."""

from __future__ import annotations

import pytest

from aisb.effects.progress import Progress, Silence, step


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watch(progress: Progress, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        clock.now += 1
        progress.tick()


def test_without_a_terminal_a_long_step_shows_signs_of_life() -> None:
    """Plain lines: every ten seconds while it lasts, and one with the time it took."""
    clock, said = Clock(), list[str]()
    progress = Progress(said.append, terminal=False, clock=clock)

    with step(progress, "packages"):
        watch(progress, clock, 24)
    with step(progress, "node"):
        watch(progress, clock, 3)

    assert said == [
        "aisb: packages: still at it after 10 s\n",
        "aisb: packages: still at it after 20 s\n",
        "aisb: packages: 24 s\n",
        "aisb: node: 3 s\n",
    ]


def test_on_a_terminal_a_step_counts_its_seconds_in_place() -> None:
    """One line a step, rewritten once a second."""
    clock, said = Clock(), list[str]()
    progress = Progress(said.append, terminal=True, clock=clock)

    with step(progress, "node"):
        watch(progress, clock, 2)

    assert said == [
        "\r\033[Kaisb: node ...",
        "\r\033[Kaisb: node ... 1 s",
        "\r\033[Kaisb: node ... 2 s",
        "\r\033[Kaisb: node: 2 s\n",
    ]


def test_the_next_step_ends_the_one_before() -> None:
    """A build tells its steps one by one, without saying when one is over."""
    clock, said = Clock(), list[str]()
    progress = Progress(said.append, terminal=False, clock=clock)

    with step(progress, "building"):
        progress.begin("packages")
        clock.now += 5
        progress.begin("node")
        progress.note("from elsewhere")

    assert said == ["aisb: building: 0 s\n", "aisb: packages: 5 s\n", "aisb: from elsewhere\n", "aisb: node: 0 s\n"]


def test_a_step_that_fails_is_over_too() -> None:
    """The error that follows stands on a line of its own."""
    said = list[str]()
    progress = Progress(said.append, terminal=False, clock=Clock())

    with pytest.raises(OSError, match="gone"), step(progress, "node"):
        raise OSError("gone")

    assert said == ["aisb: node: 0 s\n"]


def test_silence_says_nothing() -> None:
    """`-q`: only errors."""
    with step(Silence(), "node"):
        Silence().tick()
        Silence().note("x")
