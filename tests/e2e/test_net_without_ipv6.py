"""A kernel, or a podman, that has no IPv6 for containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.legs import arrived, needs_sinks

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

SETTINGS = (
    '[containers]\ndefault_sysctls = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]\n'
)
# A policy of its own: its gate starts under these settings too.
RUN = r"""
mkdir -p ~/.config/containers && printf '%s' "$SETTINGS" >>~/.config/containers/containers.conf
aisb --allow allowed.test,without-ipv6.test -- sh -c '
    cat /proc/net/if_inet6
    curl -s https://allowed.test/
    curl -s --noproxy "*" https://allowed.test/
    curl -s -o /dev/null -w "%{http_code}\n" http://evil.test/
    curl -s -g --noproxy "*" "http://[2001:db8::11]/" || echo not reached'
"""


def test_without_ipv6_a_run_is_as_closed_and_as_open(lab: Lab) -> None:
    """The rules load, relay and gate serve IPv4 alone, and the start's proof asks nothing of IPv6. (C38)"""
    result = lab.run(RUN, env={"SETTINGS": SETTINGS})

    assert (result.code, result.text) == (0, "hello from allowed.test\nhello from allowed.test\n403\nnot reached\n"), (
        result.errors
    )
    assert set(arrived(lab)) == {"allowed.test 443"}
