"""Fixtures that several files of unit tests share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aisb.effects import make_plan
from gate.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop that is turned by hand."""
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seccomp profile of podman's, whether this machine has one or not."""
    path = tmp_path / "seccomp.json"
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "archMap": [], "syscalls": []}))
    monkeypatch.setattr(make_plan, "find_seccomp", lambda: str(path))
