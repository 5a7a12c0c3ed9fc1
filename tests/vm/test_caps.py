"""Caps on memory, processors and processes, where an ordinary user has them: kept by the kernel, and told when hit."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from aisb.domain.attempts import ATTEMPTS, BOMB, FAIL, PASS, SANDBOX, judge, parse_report
from aisb.effects.deep import COMMAND, MOST_PROCESSES, program
from tests.vm.machine import RUN_SECONDS

if TYPE_CHECKING:
    from tests.e2e.lab import Result
    from tests.vm.machine import Machine

SHOW = "cd /sys/fs/cgroup && cat memory.max cpu.max pids.max"
TAKE = "b'x' * (300 << 20)"
# Each of its processes tries to be two, for ever; the first that may not says so.
ENDLESS = """
import os
told = False
while True:
    try:
        os.fork()
    except OSError:
        told = told or os.write(1, b"full\\n")
"""
COUNT = """
import os, signal
count = 0
try:
    while count < 100:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as error:
    print(10 < count < 30, error.strerror)
"""
# Two that would use all of two processors; what the kernel has counted, of five seconds.
BUSY = """
import os, time
def counted():
    with open("/sys/fs/cgroup/cpu.stat") as stat:
        return {name: int(value) for name, value in map(str.split, stat)}
before, start = counted(), time.monotonic()
for _ in range(2):
    if os.fork() == 0:
        while True:
            pass
time.sleep(5)
after, seconds = counted(), time.monotonic() - start
used = (after["usage_usec"] - before["usage_usec"]) / 1e6
print(used <= 0.5 * seconds + 0.2, after["nr_throttled"] > before["nr_throttled"], f"{used:.1f} of {seconds:.1f}")
"""


def _last(result: Result) -> str:
    return result.errors.splitlines()[-1]


def test_every_cap_is_there(vm: Machine) -> None:
    """The built-in ones and those that were asked for, by the kernel's own files; nothing is said to be missing."""
    built_in = vm.aisb("--net none --require-limits", "sh", "-c", SHOW)
    asked = vm.aisb("--net none --require-limits --memory 128m --cpus 0.5 --pids-limit 50", "sh", "-c", SHOW)

    assert built_in.text.split() == ["8589934592", "400000", "100000", "4096"], built_in.errors
    assert asked.text.split() == ["134217728", "50000", "100000", "50"], asked.errors
    assert "no cap on" not in built_in.errors + asked.errors


def test_a_program_that_takes_too_much_memory_is_killed_and_that_is_told(vm: Machine) -> None:
    """The others go on, where it is not the command itself."""
    one = vm.aisb("--net none --memory 128m", "sh", "-c", f'python3 -c "{TAKE}"; echo $?; echo alive')
    itself = vm.aisb("--net none --memory 128m", "python3", "-c", TAKE)

    told = "aisb: a program of the sandbox was killed: its memory was used up (--memory 128m)"
    assert (one.code, one.text.split()[-2:], _last(one)) == (0, ["137", "alive"], told)
    assert (itself.code, _last(itself)) == (137, told)


def test_no_more_processes_than_that_are_started_and_that_is_told(vm: Machine) -> None:
    """The program hears that it could not be."""
    result = vm.aisb("--net none --pids-limit 30", "python3", "-c", COUNT)

    told = "aisb: the sandbox could not start another process: it had all that it may have (--pids-limit 30)"
    assert (result.code, result.text) == (0, "True Resource temporarily unavailable\n"), result.errors
    assert _last(result) == told


def test_no_more_of_the_processors_is_used(vm: Machine) -> None:
    """Half a processor of two, by the kernel's own account."""
    result = vm.aisb("--net none --cpus 0.5", "python3", "-c", BUSY)

    assert result.text.split()[:2] == ["True", "True"], result.text + result.errors


def test_without_caps_the_same_programs_go_on(vm: Machine) -> None:
    """What stops them elsewhere is the cap, and nothing of this machine."""
    programs = " && ".join(shlex.join(("python3", "-c", program)) for program in (TAKE, COUNT, BUSY))
    result = vm.aisb("--net none --memory 0 --cpus 0 --pids-limit 0", "sh", "-c", programs)

    assert (result.code, result.text.split()[:2]) == (0, ["False", "False"]), result.text + result.errors


def test_a_command_ends_when_its_time_is_over(vm: Machine) -> None:
    """It is told first; 124."""
    result = vm.aisb("--net none --timeout 5s", "sh", "-c", "trap 'echo told; exit 3' TERM; sleep 600 & wait")

    assert (result.code, result.text) == (124, "told\n"), result.errors
    assert _last(result) == "aisb: the command was ended: its time was over (--timeout 5s)"


def test_a_fork_bomb_leaves_the_host_usable(vm: Machine) -> None:
    """While it has all that it may have, another sandbox runs; it ends when it is told to, and nothing is left of it. (A58)"""
    caps = "--net none --pids-limit 100 --cpus 1 --memory 256m"
    with vm.start_aisb(caps, "python3", "-c", ENDLESS) as bomb:
        assert bomb.stdout is not None
        assert bomb.stdout.readline() == b"full\n"
        beside = vm.aisb("-q --net none", "echo", "usable")
        is_going = bomb.poll() is None
        vm.end_aisb()
        _, errors = bomb.communicate(timeout=RUN_SECONDS)
    left = vm.run("podman ps --all --quiet; pgrep --count --full told")

    assert (beside.code, beside.text, is_going) == (0, "usable\n", True), beside.errors
    assert bomb.returncode == 143
    assert errors.decode().splitlines()[-1] == (
        "aisb: the sandbox could not start another process: it had all that it may have (--pids-limit 100)"
    )
    assert left.text.split() == ["0"]


@pytest.mark.parametrize(
    ("most", "verdict", "evidence"),
    [(MOST_PROCESSES, PASS, "EAGAIN"), (0, FAIL, "as many as were wanted")],
    ids=["capped", "without a cap"],
)
def test_the_fork_bomb_of_doctors_is_held_off_where_the_kernel_counts(
    vm: Machine, most: int, verdict: str, evidence: str
) -> None:
    """The same program as `aisb doctor --deep` sends in, with nothing else in it. Without the cap it is told as a failure."""
    others = [attempt.name for attempt in ATTEMPTS if attempt.name != BOMB]
    words = program({"where": "sandbox", "left_out": others, "most_processes": MOST_PROCESSES})
    flags = f"-q --net none --ephemeral-home --require-limits --pids-limit {most}"
    with vm.start_aisb(flags, *COMMAND) as bomb:
        report, errors = bomb.communicate(words, timeout=RUN_SECONDS)

    (found,) = [result for result in judge(parse_report(report, SANDBOX), {}) if result.attempt == BOMB]
    assert (bomb.returncode, found.verdict, found.evidence) == (0, verdict, evidence), errors.decode()
