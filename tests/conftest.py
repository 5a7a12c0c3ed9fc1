"""Fixtures for every kind of test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable

# How long an example takes, or takes to be made, says how busy the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

GOLDEN = os.path.join(os.path.dirname(__file__), "golden")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what is rendered now; the diff is the review."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a whole rendered text with the file of that name in tests/golden."""

    def compare(name: str, text: str) -> None:
        path = os.path.join(GOLDEN, name)
        if request.config.getoption("--update-golden"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            expected = file.read()
        assert text == expected

    return compare
