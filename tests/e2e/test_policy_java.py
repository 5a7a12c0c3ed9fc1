"""A JVM reads neither a bundle of PEM nor the variables that name one: it has a list of its own."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import LABORATORY
from tests.e2e.legs import needs_sinks, requested

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# The image with a JVM takes minutes. It is the same one on both hosts: one is enough.
pytestmark = [needs_sinks, pytest.mark.timeout(900), pytest.mark.parametrize("lab", ["debian13"], indirect=True)]

PACKAGES = "ant,default-jre-headless"
# Ant's task reads a URL with the JVM's own client, which knows no proxy variable.
BUILD = """\
cd /tmp
get() {
	printf '<project default="get"><target name="get"><get src="%s" dest="got"/></target></project>' "$1" >build.xml
	rm -f got
	ant -quiet >said 2>&1 && cat got || grep -oE 'PKIX path building failed|Can.t get' said | head -n 1
}
for url in https://allowed.test/ https://cdn.test/pub/a https://cdn.test/secret; do
	get "$url"
done
JAVA_TOOL_OPTIONS= get https://cdn.test/pub/b
"""


def test_a_jvm_trusts_the_users_own_certificates_and_the_gates(lab: Lab) -> None:
    """Passed on unread, opened by the gate, refused there; without the list of ours nothing is trusted. (B34)"""
    argv = (f"{LABORATORY}/host", lab.name, "--", "aisb", "build", "--install", PACKAGES)
    subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    options = f"--install {PACKAGES} --ca-bundle \"$LAB_CA\" --allow allowed.test --allow 'GET cdn.test/pub/**'"

    result = lab.run(f"aisb -q {options} -- sh -s", stdin=BUILD.encode())

    assert result.text.splitlines() == [
        "hello from allowed.test",
        "hello from cdn.test",
        "Can't get",
        "PKIX path building failed",
    ]
    assert requested(lab) == ["allowed.test GET https://allowed.test/", "cdn.test GET https://cdn.test/pub/a"]
