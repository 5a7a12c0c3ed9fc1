"""Name servers of all kinds on the host, and others from one run to the next: a gate asks those that there are."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import asked, needs_sinks, requested

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.lab import Lab

pytestmark = needs_sinks

GOOD, GOOD6, STUB = "203.0.113.53", "2001:db8::53", "127.0.0.53"
# It takes questions in and answers none.
DEAD = "203.0.113.99"
STATUS = "curl -s -o /dev/null -w '%{http_code} ' --max-time 60"
TRUST = 'export CURL_CA_BUNDLE="$LAB_CA"; '
UNRESOLVED = "is allowed, but its name does not resolve"
CHANGED = "aisb: the name servers of this machine have changed since this run began: a new run asks the new ones"


@contextlib.contextmanager
def asking(lab: Lab, *servers: str) -> Iterator[None]:
    """The host with these name servers."""
    with lab.resolvers(*servers), lab.stub_resolver() if STUB in servers else contextlib.nullcontext():
        yield


@pytest.mark.parametrize(
    "servers", [(GOOD,), (DEAD, GOOD), (GOOD6,), (STUB,)], ids=["one", "the first is dead", "IPv6", "a stub"]
)
def test_a_gate_resolves_as_its_host_does(lab: Lab, servers: tuple[str, ...]) -> None:
    """Also with a first one that is dead and with a stub on the loopback; and is no way for what is not allowed. (C50)"""
    both = f"{STATUS} https://allowed.test/; {STATUS} https://evil.test/"
    with asking(lab, *servers):
        direct = lab.run(f"{TRUST}{both}")
        assert (direct.text, len(requested(lab))) == ("200 200 ", 2)
        # A gate of its own: one that another test has left knows the address already.
        own = f"--allow allowed.test --allow exact:r{os.getpid()}.example"
        result = lab.run(f"aisb {own} -- sh -c \"{both}; {STATUS} --noproxy '*' https://allowed.test/\"")

    assert result.text == "200 000 200 ", result.errors
    assert requested(lab) == 2 * ["allowed.test GET https://allowed.test/"]
    assert asked(lab) == {"allowed.test"}


def test_without_a_name_server_it_is_said_that_a_name_does_not_resolve(lab: Lab) -> None:
    """In words, and the run goes on. (C50)"""
    with asking(lab, DEAD):
        result = lab.run(
            f'aisb --allow allowed.test -- sh -c "{STATUS} http://allowed.test/; {STATUS} https://allowed.test/"'
        )

    assert result.text == "503 000 "
    assert sorted(line for line in result.errors.splitlines() if line.endswith(UNRESOLVED)) == [
        f"aisb: allowed.test:443 {UNRESOLVED}",
        f"aisb: allowed.test:80 {UNRESOLVED}",
    ]
    assert requested(lab) == []


def test_after_a_change_of_networks_the_next_run_asks_the_new_servers(lab: Lab) -> None:
    """The same policy, while the gate of an earlier run is still there, which goes on with the old ones and says so. (C50)"""
    policy = "--allow allowed.test,roaming.test"
    first = f"{STATUS} https://allowed.test/; echo; read -r _; {STATUS} https://x.allowed.test/"
    with contextlib.ExitStack() as stack:
        with asking(lab, STUB):
            running = stack.enter_context(lab.start(f'aisb {policy} -- sh -c "{first}"'))
            assert running.stdin is not None
            assert running.stdout is not None
            assert running.stdout.readline() == b"200 \n"
        second = lab.run(f"aisb -q {policy} -- {STATUS} https://y.allowed.test/")
        said, errors = running.communicate(b"\n", timeout=100)

    assert second.text == "200 ", second.errors
    # slirp4netns reads the host's list again, pasta does not.
    lines = [line for line in errors.decode().splitlines() if not line.startswith("aisb: note: ")]
    old = [f"aisb: x.allowed.test:443 {UNRESOLVED}", CHANGED] if lab.name == "debian13" else []
    assert (said, lines[2:]) == (b"000 " if old else b"200 ", old)
