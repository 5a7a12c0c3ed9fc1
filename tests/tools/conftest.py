"""What the tests of a gate's programs share."""

from __future__ import annotations

import pytest

from tests.tools.gate_box import SYSTEMS


@pytest.fixture(scope="module", params=SYSTEMS.values(), ids=SYSTEMS.keys())
def system(request: pytest.FixtureRequest) -> str:
    """The folder with the programs, squid 5.7 and 6.13 among them."""
    return str(request.param)
