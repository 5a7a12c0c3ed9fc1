"""The older of the two suites that aisb makes a base of: Python, squid and nft are others in sandbox and gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import curl, inside, needs_sinks, requested, run
from tests.e2e.test_images import online

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = [needs_sinks, pytest.mark.timeout(900), pytest.mark.parametrize("lab", ["debian12"], indirect=True)]

SUITE = "--base-image bootstrap:bookworm"


def test_images_of_the_older_suite_hold_the_same_wall(lab: Lab) -> None:
    """What is allowed passes, by the proxy and without one; what is not is refused, and reaches nobody."""
    built = online(lab, f"aisb build {SUITE}", timeout=840)
    legs = {
        "suite": run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"),
        "allowed": curl("https://allowed.test/"),
        "allowed, without": curl("https://allowed.test/", bare=True),
        "denied": curl("http://evil.test/"),
        "denied, without": curl("https://evil.test/", bare=True),
    }

    assert built.code == 0, built.stderr
    result = inside(lab, f"{SUITE} --allow allowed.test", legs)

    assert result.said == {
        "suite": "bookworm",
        "allowed": "hello from allowed.test",
        "allowed, without": "hello from allowed.test",
        "denied": "403 not-listed",
        "denied, without": "no such name",
    }
    assert {line.split()[0] for line in requested(lab)} == {"allowed.test"}
