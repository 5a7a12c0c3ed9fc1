"""The virtual machine as a fixture: started once for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.vm.machine import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vm.machine import Machine


@pytest.fixture(scope="session")
def vm() -> Iterator[Machine]:
    """A machine with control groups of version 2, a session of systemd's, and all controllers handed down to it."""
    with started() as machine:
        yield machine
