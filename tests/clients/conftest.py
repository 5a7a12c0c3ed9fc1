"""The laboratory's host, as the end-to-end tests have it."""

from __future__ import annotations

from tests.e2e.conftest import lab, pytest_collection_finish, pytest_sessionstart

__all__ = ["lab", "pytest_collection_finish", "pytest_sessionstart"]
