"""A host whose programs for containers' networks are missing or broken, or told by its user to open the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import arrived, curl, inside, needs_sinks, outside, tcp
from tests.e2e.test_net_host import CANARY, CANARY_PORTS, MAPPED, ON_LOOPBACK

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

# The gateway of the lab is one of pasta's names for the host, where its user wants that.
GATEWAY = ("203.0.113.1", "2001:db8::1")
LEADS = {f"{host} {port}": tcp(host, port) for host in MAPPED for port in CANARY_PORTS}
# Nobody but the host listens there.
LEADS |= {f"{host} {port}": tcp(host, port) for host in GATEWAY for port in (6379, 11434)}
EVERYTHING = {"evil": curl("https://evil.test/")}
PAGES = {"own": curl("https://allowed.test/"), "own, without": curl("https://allowed.test/", bare=True)} | EVERYTHING
OWN = "hello from allowed.test"


def test_without_pasta_the_other_one_carries_it_and_is_as_closed(lab: Lab) -> None:
    """slirp4netns, under a policy and under none: what is refused is refused, and the host is out of reach. (C36)"""
    assert outside(lab, ON_LOOPBACK | EVERYTHING) == dict.fromkeys(ON_LOOPBACK, CANARY) | {
        "evil": "hello from evil.test"
    }

    with lab.without("pasta"):
        gated = inside(lab, "--allow allowed.test,without-pasta.test", LEADS | PAGES)
        assert arrived(lab) == {"allowed.test 443": 2}
        full = inside(lab, "--net full", LEADS | EVERYTHING)
        at_the_host = lab.sinks(sink="host")

    assert gated.said == {**dict.fromkeys(LEADS, "reset"), "own": OWN, "own, without": OWN, "evil": "403"}
    assert full.said == {**dict.fromkeys(LEADS, "refused"), "evil": "hello from evil.test"}
    assert at_the_host == []


NOTHING_RAN = "exit 69\n"
NEITHER = (
    "aisb: neither pasta nor slirp4netns is there: the gate has no way out\n"
    "aisb:   install one: apt-get install passt, or apt-get install slirp4netns\n"
)


def test_where_there_is_neither_nothing_runs_that_needs_one(lab: Lab) -> None:
    """A sentence with the cure, under a policy and under none; without a network there is nothing to miss. (C36)"""
    with lab.without("pasta", "slirp4netns"):
        gated = lab.run("aisb --allow allowed.test -- touch ran; echo exit $?; ls")
        full = lab.run("aisb --net full -- touch ran; echo exit $?; ls")
        none = lab.run("aisb -q --net none -- touch ran; echo exit $?; ls")

    assert (gated.text, gated.errors) == (NOTHING_RAN, NEITHER)
    assert (full.text, full.errors) == (NOTHING_RAN, NEITHER)
    assert (none.text, none.errors) == ("exit 0\nran\n", "")


BROKEN = r"""
mkdir -p ~/broken ~/.config/containers
for name in pasta slirp4netns; do printf '#!/bin/sh\nexit 3\n' >~/broken/$name; chmod 755 ~/broken/$name; done
printf '[engine]\nnetwork_cmd_path = "%s"\nhelper_binaries_dir = ["%s", "/usr/lib/podman"]\n' \
    ~/broken/slirp4netns ~/broken >>~/.config/containers/containers.conf
"""


@pytest.mark.parametrize("options", ["--allow allowed.test,broken.test", "--net full"])
def test_one_that_ends_at_once_is_an_error_and_nothing_runs(lab: Lab, options: str) -> None:
    """69, with what podman says of it. (C36)"""
    result = lab.run(f"{BROKEN}aisb {options} -- touch ran; echo exit $?; ls")

    program = "pasta" if lab.name == "debian13" else "slirp4netns"
    assert result.text == NOTHING_RAN
    assert any(
        program in line and line.endswith(("exit code 3:", "exit status 3")) for line in result.errors.splitlines()
    )
    assert lab.sinks("connect") == []


# What a user may have there for other containers.
OPENED = r"""
mkdir -p ~/.config/containers
printf '[engine]\nnetwork_cmd_options = ["allow_host_loopback=true"]\n[network]\npasta_options = ["--map-gw"]\n' \
    >>~/.config/containers/containers.conf
"""
HOST_OF = {"debian13": "203.0.113.1", "debian12": "10.0.2.2"}
PLAIN = "podman run --rm --pull=never --entrypoint /usr/bin/python3 $(podman images --quiet localhost/aisb-sandbox | head -n 1)"
HELLO = "import socket; print(socket.create_connection(('{}', 11434), 5).recv(20))"


def test_settings_for_other_containers_do_not_open_the_host(lab: Lab) -> None:
    """The host's loopback stays closed to gates and to sandboxes without a filter, whatever containers.conf says. (C36, A38)"""
    before = OPENED.strip().replace("\n", "; ").replace("\\; ", " ")
    # Such a container does reach it: the settings are in force.
    direct = lab.run(f'{OPENED}\n{PLAIN} -c "{HELLO.format(HOST_OF[lab.name])}"')
    assert (direct.text, len(lab.sinks("connect", sink="host"))) == ("b'host canary\\r\\n'\n", 1), direct.errors

    gated = inside(lab, "--allow allowed.test,settings.test", LEADS | PAGES, before=before)
    assert arrived(lab) == {"allowed.test 443": 2}
    full = inside(lab, "--net full", LEADS | EVERYTHING, before=before)

    assert gated.said == {**dict.fromkeys(LEADS, "reset"), "own": OWN, "own, without": OWN, "evil": "403"}
    assert full.said == {**dict.fromkeys(LEADS, "refused"), "evil": "hello from evil.test"}
    assert lab.sinks(sink="host") == []
