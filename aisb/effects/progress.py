"""What a build says while it goes on: one line a step with its seconds, and never a silent minute."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGN_OF_LIFE_SECONDS = 10.0


class Report(Protocol):
    """Who is told about the steps of something long."""

    def note(self, text: str) -> None:
        """Something worth knowing, on a line of its own."""

    def begin(self, text: str) -> None:
        """A step begins; the one before it is over."""

    def end(self) -> None:
        """The step is over."""

    def tick(self) -> None:
        """The step goes on. Called about once a second."""


class Progress:
    """
    A report as lines of text, given to `write` with their ends.

    On a terminal the line of a step counts its seconds in place; elsewhere it comes when the step is over, and a
    step that takes long shows a sign of life every ten seconds.
    """

    def __init__(
        self, write: Callable[[str], None], *, terminal: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._terminal = terminal
        self._clock = clock
        self._text = ""
        self._began = 0.0
        self._shown = 0.0

    def note(self, text: str) -> None:
        """See `Report.note`."""
        self._write(f"\r\033[Kaisb: {text}\n" if self._terminal else f"aisb: {text}\n")

    def begin(self, text: str) -> None:
        """See `Report.begin`."""
        self.end()
        self._text = text
        self._began = self._shown = self._clock()
        if self._terminal:
            self._write(f"\r\033[Kaisb: {text} ...")

    def end(self) -> None:
        """See `Report.end`."""
        if self._text:
            self.note(f"{self._text}: {self._clock() - self._began:.0f} s")
        self._text = ""

    def tick(self) -> None:
        """See `Report.tick`."""
        now = self._clock()
        every = 1.0 if self._terminal else _SIGN_OF_LIFE_SECONDS
        if not self._text or now - self._shown < every:
            return
        self._shown = now
        seconds = f"{now - self._began:.0f} s"
        if self._terminal:
            self._write(f"\r\033[Kaisb: {self._text} ... {seconds}")
        else:
            self._write(f"aisb: {self._text}: still at it after {seconds}\n")


class Silence:
    """A report that nobody reads."""

    def note(self, text: str) -> None:
        """See `Report.note`."""

    def begin(self, text: str) -> None:
        """See `Report.begin`."""

    def end(self) -> None:
        """See `Report.end`."""

    def tick(self) -> None:
        """See `Report.tick`."""


@contextmanager
def step(report: Report, text: str) -> Iterator[None]:
    """A step for as long as the block runs."""
    report.begin(text)
    try:
        yield
    finally:
        report.end()
