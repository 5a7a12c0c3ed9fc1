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
# A session whose client hangs up once it was told anything. Its gate is no other run's: it is in another network.
FIRST = f"""\
top=$(mktemp -d) && mkdir "$top/project" && cd "$top/project" || exit
{{ until [ -s ../said ] || [ -e ../code ]; do sleep 0.1; done; }} |
    {{ aisb serve {SUITE} --allow suite.test >../said; echo $? >../code; }}
cat ../said ../code && rm -rf "$top"
"""


def test_images_of_the_older_suite_hold_the_same_wall(lab: Lab) -> None:
    """
    A session builds them on their base, once; then what is allowed passes, by the proxy and without one, and what is not
    is refused, and reaches nobody.
    """
    built = online(lab, FIRST, timeout=840)
    legs = {
        "suite": run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"),
        "allowed": curl("https://allowed.test/"),
        "allowed, without": curl("https://allowed.test/", bare=True),
        "denied": curl("http://evil.test/"),
        "denied, without": curl("https://evil.test/", bare=True),
    }

    assert ('"method":"hello"' in built.text, built.text[-2:]) == (True, "0\n"), built.errors
    result = inside(lab, f"{SUITE} --allow allowed.test", legs)

    assert result.said == {
        "suite": "bookworm",
        "allowed": "hello from allowed.test",
        "allowed, without": "hello from allowed.test",
        "denied": "403 not-listed",
        "denied, without": "no such name",
    }
    assert {line.split()[0] for line in requested(lab)} == {"allowed.test"}
