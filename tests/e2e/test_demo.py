"""The demo as an ordinary user has it, with the laboratory's images: it ends well, and what it made is taken back."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SETTINGS = f"""
demo=${{LAB_TREE:-{TREE}}}/tests/demo
export AISB_DEMO_PLACE=$PWD/place AISB_DEMO_CACHE=${{XDG_CACHE_HOME:-$HOME/.cache}}
export AISB_DEMO_PROGRAM=$(command -v aisb)
store() {{ podman ps -a --format '{{{{.Names}}}}'; podman network ls -q; podman volume ls -q; podman image ls -q; }}
"""
MISSING = """
mkdir bin
printf '#!/bin/sh\\n' >bin/dpkg-query
cat >bin/sudo <<'END'
#!/bin/sh
echo "sudo $*" >>called
case $* in *install*) exit 1 ;; esac
END
chmod +x bin/*
PATH=$PWD/bin:$PATH
"""


@pytest.mark.timeout(900)
def test_the_real_agent_works_and_everything_is_taken_back(lab: Lab) -> None:
    """What was allowed and denied, what the sites saw, and whose the file is; then the store is as it was."""
    command = f"""{SETTINGS}
    store >before
    $demo/run && cat place/project/note.txt && stat -c 'owned by %U' place/project/note.txt && $demo/clean
    echo "exit $?"
    store | diff before - && test ! -e place && echo 'as before'
    """

    result = lab.run(command, timeout=600)

    gate = re.findall(r"^  (allowed|denied) +(\S+) ", result.text, re.MULTILINE)
    sites = re.findall(r"^  reached +(\S+) +(\d+) x", result.text, re.MULTILINE)
    assert (gate, sites) == (
        [
            ("allowed", "allowed.test:443"),
            ("allowed", "llm.test:443"),
            ("denied", "evil.test"),
            ("denied", "evil.test:80"),
        ],
        [("allowed.test", "1"), ("evil.test", "0"), ("llm.test", "2")],
    ), result.errors
    user = re.search(r"^owned by (\S+)$", result.text, re.MULTILINE)
    assert user is not None
    assert f"written by the agent, as {user[1]} (1000)\n" in result.text
    assert "hello from allowed.test\n--- http://evil.test/\n403 Access denied by egress policy\n" in result.text
    assert result.text.endswith("exit 0\nas before\n")


def test_missing_packages_are_named_in_one_command_and_nothing_is_done(lab: Lab) -> None:
    """An ordinary user is asked before anything is installed."""
    result = lab.run(f"{SETTINGS}{MISSING} $demo/run; echo $?; ls")

    assert result.text == "69\nbin\n"
    command = r"^demo:   sudo apt-get install --no-install-recommends podman uidmap [a-z0-9 -]+$"
    assert re.search(command, result.errors, re.MULTILINE)


def test_with_deps_sudo_installs_them_and_a_failure_stops_the_demo(lab: Lab) -> None:
    """`make demo DEPS=1`: the password first, then the two commands, then nothing more."""
    result = lab.run(f"{SETTINGS}{MISSING} DEPS=1 $demo/run >/dev/null; echo $?; cat called")

    apt = "sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300"
    code, *called = result.text.splitlines()
    assert (code, called[:2]) == ("69", ["sudo --validate", f"{apt} update"])
    assert called[2].startswith(f"{apt} install --yes --no-install-recommends podman uidmap ")
    assert called[3:] == []
    assert "the whole log: " in result.errors


def test_a_store_that_would_be_slow_is_not_begun(lab: Lab) -> None:
    """An older podman without settings is not called; the command that the demo prints makes them."""
    command = f"""{SETTINGS}
    mkdir bin && printf '#!/bin/sh\\necho podman version 4.9.3\\n' >bin/podman && chmod +x bin/podman
    PATH=$PWD/bin:$PATH HOME=$PWD/home
    $demo/run 2>said >&2
    echo $?
    sed -n 's/^demo:   //p' said | sh
    cat home/.config/containers/storage.conf
    """

    result = lab.run(command)

    assert result.text == '69\n[storage]\ndriver = "overlay"\n', result.errors
