"""Package managers, a database's client and copies over SSH, as they are: what a project needs of them works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import arrived, asked, needs_sinks
from tests.e2e.programs import KEYS, PROGRAMS, SITES, astray, by_name, served, tell
from tests.e2e.sandbox import report_of
from tests.e2e.test_net_clients import options_with_clients

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# The image takes minutes. It is the same one on both hosts, and so are the ways out of it: one is enough.
pytestmark = [needs_sinks, pytest.mark.timeout(900), pytest.mark.parametrize("lab", ["debian13"], indirect=True)]

TRIED = ("npm", "npm, whose proxy is turned off", "pip", "uv", "psql", "ssh", "git over SSH", "scp")


def test_programs_that_install_copy_and_ask_work_as_they_are(lab: Lab) -> None:
    """
    With proxy variables and without, from a host that passes unread and one whose TLS is opened; nobody else's is reached.

    A refused one ends soon, and says why. (B11, B17, B18, B23)
    """
    image = options_with_clients(lab.name)
    programs = {name: PROGRAMS[name] for name in TRIED}

    with served(lab), by_name(lab) as (options, env):
        told = tell(lab, f"{image} {options}", programs, 300, before=KEYS, env=env)

    assert astray(told, programs) == {}
    # What comes to sshd and PostgreSQL is no sink's.
    assert set(arrived(lab)) == {"allowed.test 443", "cdn.test 443"}
    assert asked(lab) == set(SITES) - {"evil.test"}


# Nobody is root inside, and there is no engine for containers.
NOT_HERE = {
    "apt-get install -y jq": (100, "are you root?"),
    "dpkg -i x.deb": (2, "requires superuser privilege"),
    "sudo apt-get install -y jq": (127, "not found"),
    "docker ps": (127, "not found"),
    "podman run --rm x": (127, "not found"),
}
ASK = """
import json, subprocess, sys, time
told = {}
for command in json.loads(sys.argv[1]):
    began = time.monotonic()
    done = subprocess.run(("sh", "-c", command), stdin=-3, stdout=-1, stderr=-2, text=True)
    told[command] = (done.returncode, done.stdout, time.monotonic() - began)
print(json.dumps(told))
"""


def test_what_is_not_to_be_had_inside_says_so_at_once(lab: Lab) -> None:
    """A package is for `--install`, and containers are not made in a container. (B30, B50)"""
    result = lab.run(f"aisb -q --allow allowed.test -- python3 - '{json.dumps(list(NOT_HERE))}'", stdin=ASK.encode())

    told = report_of(result)
    short = {
        command: (code, NOT_HERE[command][1] in text, seconds < 3) for command, (code, text, seconds) in told.items()
    }
    assert short == {command: (code, True, True) for command, (code, _) in NOT_HERE.items()}, told
