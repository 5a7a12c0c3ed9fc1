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


# It holds them until it may end; how many it got.
TERMINALS = """
import os, time
found = []
try:
    while len(found) < 200:
        found.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError:
    pass
print(len(found), flush=True)
open("open", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
"""
COUNTED = r"""
count() { cat /proc/sys/kernel/pty/nr; }
mkdir many few; before=$(count)
(cd many && exec aisb -q --net none -- python3 -c "$TERMINALS") >got & many=$!
until [ -e many/open ] || ! kill -0 $many; do sleep 0.05; done
echo $(($(count) - before >= 150)); touch many/go; wait $many; cat got
touch few/go; cd few && aisb -q --net none --ulimit nofile=64:64 -- python3 -c "$TERMINALS"
"""


def test_the_terminals_of_a_sandbox_are_counted_with_all_others(lab: Lab) -> None:
    """By the kernel, over all containers of the machine; a cap on open files is one on them too."""
    result = lab.run(COUNTED, env={"TERMINALS": TERMINALS})

    counted, many, few = map(int, result.text.split())
    assert (counted, many, 0 < few < 64) == (1, 200, True), result.errors
