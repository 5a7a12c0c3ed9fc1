"""Fixtures that several files of unit tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gate.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop that is turned by hand."""
    loop = Loop()
    yield loop
    loop.close()
