"""Caps that need no control group hold here, and those that do are said to be missing: these hosts have none to give."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

WHY = "no cap on memory, cpus, pids-limit here: podman has no systemd session of yours to ask for one"


def test_what_this_host_cannot_keep_is_said_and_refused_where_it_is_required(lab: Lab) -> None:
    """Which caps, and why; the command is not run without them where the user says so."""
    said = lab.run("aisb --net none -- true")
    refused = lab.run("aisb --net none --require-limits -- echo ran")
    without = lab.run("aisb --net none --require-limits --memory 0 --cpus 0 --pids-limit 0 -- echo ran")

    assert (said.code, said.errors.splitlines().count(f"aisb: note: {WHY}")) == (0, 1), said.errors
    assert (refused.code, refused.text) == (77, "")
    assert refused.errors.splitlines()[0] == f"aisb: refused to run without its limits: {WHY}"
    assert (without.code, without.text) == (0, "ran\n"), without.errors


def test_caps_that_every_host_keeps_hold(lab: Lab) -> None:
    """The size of /dev/shm and the kernel's own limits of a process."""
    result = lab.run(
        "aisb -q --net none --shm-size 32m --ulimit nofile=64:128 --ulimit fsize=1048576 -- "
        "sh -c 'df -k --output=size /dev/shm | tail -1; ulimit -n; ulimit -Hn; head -c 2000000 /dev/zero >big; echo $?; "
        "stat -c %s big'"
    )

    assert result.text.split() == ["32768", "64", "128", "153", "1048576"], result.errors


def test_a_command_ends_when_its_time_is_over(lab: Lab) -> None:
    """It is told first, the code is 124 whatever it ends with, and the end says so."""
    text = "aisb --net none --timeout 1s -- sh -c 'trap \"echo told; exit 3\" TERM; sleep 60 & wait'; code=$?"
    result = lab.run(f"{text}; aisb ps --all | tail -1 | tr -s ' ' | cut -d' ' -f3-5,11; exit $code")

    assert (result.code, result.text) == (124, "told\nexit 124 (timeout) sh\n"), result.errors
    assert result.errors.splitlines()[-1] == "aisb: the command was ended: its time was over (--timeout 1s)"
    assert result.seconds < 60
