"""How a sandbox ended, and whose exit code it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisb.__main__ import keep_descriptors_to_ourselves
from aisb.effects.sealed import sealed
from aisb.effects.supervise import Lines, Outcome, Wiring, run_attached
from aisb.errors import AisbError, Unavailable, Unprotected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REACHED = {"rules": 1.0, "relay": 2.0, "proved": 3.0, "exec": 4.0}


@pytest.mark.parametrize("status", [0, 1, 2, 42, 77, 125, 126, 127, 137, 139, 143, 255])
def test_after_the_phase_exec_the_status_is_the_commands(status: int) -> None:
    assert Outcome(status, REACHED, "").exit_code() == status


@pytest.mark.parametrize(
    ("status", "refusal", "kind", "code"),
    [
        (77, "the network rules could not be loaded", Unprotected, 77),
        (77, "", Unprotected, 77),
        (125, "", Unavailable, 69),
        (126, "", Unavailable, 69),
        (127, "", Unavailable, 69),
        (0, "", Unavailable, 69),
    ],
)
def test_before_it_the_failure_is_ours(status: int, refusal: str, kind: type[AisbError], code: int) -> None:
    with pytest.raises(kind) as caught:
        Outcome(status, {"rules": 1.0}, refusal).exit_code()
    assert caught.value.exit_code == code


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_phases_are_read_in_whatever_pieces_they_come(noise: list[bytes]) -> None:
    lines = Lines(clock=lambda: 1.0)
    data = b"".join([*(piece.replace(b"\n", b"") + b"\n" for piece in noise), b"exec\n"])

    for byte in data:
        lines.feed(bytes([byte]))

    assert "exec" in lines.phases


def test_the_first_refusal_counts_and_is_bounded() -> None:
    lines = Lines()

    lines.feed(b"refused " + b"x" * 1000 + b"\nrefused second\n")

    assert lines.refusal == "x" * 500


def test_what_became_of_files_in_the_home_is_read_and_bounded() -> None:
    lines = Lines(clock=lambda: 1.0)

    lines.feed(b"seeded edited .pi/agent/models.json\nproved\n" + b"seeded new x\n" * 100)

    assert lines.seeds == [("edited", ".pi/agent/models.json"), *[("new", "x")] * 19]
    assert lines.phases == {"proved": 1.0}


def test_a_command_that_cannot_be_begun_is_told_before_it_would_have() -> None:
    """Nothing else that a sandbox may say is taken for it."""
    lines = Lines(clock=lambda: 1.0)

    lines.feed(b"unstarted 0\nunstarted 128\nunstarted x\n")
    before = lines.unstarted
    lines.feed(b"unstarted 127\nexec\n")

    assert (before, lines.unstarted, lines.phases["exec"]) == (0, 127, 1.0)


def test_a_flood_of_phases_is_cut_off() -> None:
    lines = Lines()

    for _ in range(100):
        lines.feed(b"".join(b"%d\n" % number for number in range(1000)))

    assert len(lines.phases) < 20_000


def test_nobody_can_change_the_variables_any_more() -> None:
    descriptor = sealed(b"A=1\0")

    assert os.pread(descriptor, 10, 0) == b"A=1\0"
    assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) == 0b1111
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"B", 0)
    os.close(descriptor)


def nothing() -> None:
    """What there is to kill, and to do meanwhile."""


def run_script(script: str, on_begin: Callable[[], None] | None = None) -> Outcome:
    variables = sealed(b"A=1\0")
    held = os.open(os.devnull, os.O_WRONLY)
    try:
        return run_attached(
            ("/bin/sh", "-c", script),
            Wiring(variables, held, None, (), "", terminal=False, on_begin=on_begin),
            nothing,
            nothing,
        )
    finally:
        os.close(variables)
        os.close(held)


@pytest.mark.parametrize(
    ("said", "begun", "unstarted"),
    [("proved\\nexec", ["begun"], 0), ("proved\\nunstarted 127\\nexec", [], 127), ("unstarted 126\\nexec", [], 126)],
)
def test_nobody_goes_on_with_a_command_that_is_not_there(said: str, begun: list[str], unstarted: int) -> None:
    """Who waits for it to begin, as --detach does, hears of its end instead, with its code."""
    told: list[str] = []

    outcome = run_script(f"printf '{said}\\n' >&4; exit 127", lambda: told.append("begun"))

    assert (told, outcome.unstarted, outcome.exit_code()) == (begun, unstarted, 127)


def test_the_program_gets_the_variables_and_the_pipe() -> None:
    outcome = run_script("case $(readlink /proc/$$/fd/3) in *memfd:*) echo exec >&4 && exit 42; esac")

    assert (outcome.status, list(outcome.phases)) == (42, ["exec", "command"])


def test_what_the_caller_left_open_is_not_handed_on() -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)

    keep_descriptors_to_ourselves()

    assert [os.get_inheritable(descriptor) for descriptor in (read_end, write_end)] == [False, False]
    os.close(read_end)
    os.close(write_end)


def test_a_signal_is_128_and_its_number() -> None:
    assert run_script("kill -KILL $$").status == 128 + signal.SIGKILL


PASSED_ON = """
import os
from aisb.effects.sealed import sealed
from aisb.effects.supervise import Wiring, run_attached
script = "trap 'exit 5' TERM; echo exec >&4; kill -TERM $PPID; while :; do read -r x <&4; done"
wiring = Wiring(sealed(b""), os.open("/dev/null", os.O_WRONLY), None, (), "", terminal=False)
print(run_attached(("/bin/sh", "-c", script), wiring, lambda: None, lambda: None).status)
"""


def test_term_is_passed_on() -> None:
    """In a process of its own: another thread of this one might take the signal."""
    done = subprocess.run((sys.executable, "-c", PASSED_ON), capture_output=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (0, b"5\n")


def test_a_command_whose_time_is_over_is_told_and_killed_and_ends_with_124(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it ends with then does not count."""
    monkeypatch.setattr("aisb.effects.supervise.GRACE_SECONDS", 0.1)
    number = tmp_path / "number"
    variables, held = sealed(b""), os.open(os.devnull, os.O_WRONLY)
    wiring = Wiring(variables, held, None, (), "", terminal=False, timeout_seconds=1)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(number.read_text()), signal.SIGKILL)

    script = f"echo $$ >{number}; echo exec >&4; exec sleep 100"
    outcome = run_attached(("/bin/sh", "-c", script), wiring, kill, lambda: None)

    os.close(variables)
    os.close(held)
    assert (outcome.status, outcome.hits, list(outcome.phases)) == (124, ("timeout",), ["exec", "command"])


WITH_A_TERMINAL = """
import os, sys
from aisb.effects.sealed import sealed
from aisb.effects.supervise import Wiring, run_attached
wiring = Wiring(sealed(b""), os.open("/dev/null", os.O_WRONLY), None, (), sys.argv[1], terminal=True)
reader = (sys.executable, "-c", sys.argv[2], sys.argv[1])
print("ended with", run_attached(reader, wiring, lambda: None, lambda: None).status)
"""
# As podman does: it begins a sandbox whose command is there a moment later, reads from its terminal, and takes SIGTTIN
# as one of the signals to pass on.
READER = """
import os, select, signal, sys, time
tries = 0
def count(*_):
    global tries
    tries += 1
signal.signal(signal.SIGTTIN, count)
podman = os.getpid()
(begun, begins), (trying, tries_to), (life, lives) = os.pipe(), os.pipe(), os.pipe()
def wait_until_held():
    for _ in range(1000):
        if open(f"/proc/{podman}/stat").read().rpartition(")")[2].split()[0] == "T": return
        time.sleep(0.01)
if not os.fork():
    os.close(lives)
    os.setsid()
    if command := os.fork():
        with open(sys.argv[1], "w") as number: number.write(str(os.getpid()))
        os.waitpid(command, 0)
        os._exit(0)
    os.setpgid(0, 0)
    os.write(4, b"begun\\n")
    wait_until_held()
    os.write(begins, b".")
    if select.select([trying], [], [], 0.3)[0]: time.sleep(0.3)
    os.write(4, b"exec\\n")
    os.read(life, 1)
    os._exit(0)
os.read(begun, 1)
os.write(tries_to, b".")
print("heard", os.read(0, 9).decode().strip(), "after", tries, "tries", flush=True)
"""


def test_who_reads_from_a_terminal_that_is_not_its_own_yet_is_held(tmp_path: Path) -> None:
    """Each try would be a signal of its own, and what comes after them would have to wait for all."""
    child = pexpect.spawn(
        sys.executable, ["-c", WITH_A_TERMINAL, f"{tmp_path}/number", READER], timeout=30, encoding="utf-8"
    )
    with contextlib.closing(child):
        child.sendline("keys")
        child.expect("heard keys after ([0-9]+) tries\r\nended with 0\r\n")

    assert child.match.group(1) == "0"
