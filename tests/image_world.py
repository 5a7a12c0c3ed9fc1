"""A workshop whose podman, npm and network are scripts of answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.effects.state import Directories
from aisb.effects.workshop import Workshop
from tests.fakes import FakeRunner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from aisb.effects.process import Runner


# 2026-11-30T02:00:00Z.
NOW = 1796004000.0


class Heard:
    """A report that remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """See `Report.note`."""
        self.lines.append(text)

    def begin(self, text: str) -> None:
        """See `Report.begin`."""
        self.lines.append(f"{text} ...")

    def end(self) -> None:
        """See `Report.end`."""

    def tick(self) -> None:
        """See `Report.tick`."""


def make_shop(
    folder: Path,
    runner: Runner | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    report: Heard | None = None,
    programs: tuple[str, ...] = ("mmdebstrap", "skopeo"),
    now: float | None = None,
) -> Workshop:
    """A workshop below `folder`, where the named programs are installed."""
    names = ("runtime", "cache", "state", "config")
    for name in (*names, "bin"):
        os.makedirs(folder / name, exist_ok=True)
    for program in programs:
        (folder / "bin" / program).touch(mode=0o755)
    return Workshop(
        podman="/usr/bin/podman",
        directories=Directories(**{name: str(folder / name) for name in names}),
        environ=environ or {},
        runner=runner or FakeRunner(),
        report=report or Heard(),
        now=NOW if now is None else now,
        search_path=str(folder / "bin"),
    )
