"""Programs that are run to their end: what they are told, what they say, and how much of it."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from aisb.effects.process import LONGEST_LINE, Command, Finished, SystemRunner, TracingRunner, spawn
from aisb.errors import CommandError
from tests.fakes import FakeRunner, said

MANY = "x" * 300_000


def shell(script: str, told: bytes | None = None, cwd: str = "/", timeout_seconds: float = 10) -> Command:
    return Command(("/bin/sh", "-c", script), timeout_seconds, input=told, cwd=cwd)


@pytest.mark.parametrize(
    ("command", "finished"),
    [
        (shell("echo out; echo err >&2; exit 3"), Finished(3, b"out\n", b"err\n")),
        (shell("cat; pwd", told=b"in\0put\n", cwd="/usr"), Finished(0, b"in\0put\n/usr\n")),
        (shell("cat"), Finished(0)),
        (shell("cat", told=b""), Finished(0)),
        (shell("exec 0<&-; sleep 0.1; echo deaf", told=MANY.encode()), Finished(0, b"deaf\n")),
        (shell("tee /dev/stderr", told=MANY.encode()), Finished(0, MANY.encode(), MANY.encode())),
        (shell("kill -s TERM $$"), Finished(-15)),
        (shell("exec >&- 2>&-; sleep 0.1; exit 4"), Finished(4)),
    ],
)
def test_a_program_is_told_its_input_and_heard_to_the_end(command: Command, finished: Finished) -> None:
    assert SystemRunner().run(command) == finished


@pytest.mark.parametrize("script", ["sleep 60", "exec >&- 2>&-; exec sleep 60", "while :; do echo x; done"])
def test_one_that_takes_too_long_is_ended(script: str) -> None:
    with pytest.raises(CommandError, match=r"took longer than 0\.3 s"):
        SystemRunner().run(shell(f"exec sh -c '{script}'", timeout_seconds=0.3))


@pytest.mark.parametrize("where", ["", ">&2"])
def test_one_that_says_more_than_anybody_has_room_for_is_ended(where: str) -> None:
    """Such as the python of somebody else's image, which is asked what its tools are configured to use."""
    runner = SystemRunner()
    runner.largest = 100_000
    with pytest.raises(CommandError, match="said more than 100000 bytes"):
        runner.run(shell(f"exec yes {where}"))


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="was not found"):
        SystemRunner().run(Command(("/no/such/program",), 10))


def test_a_line_without_an_end_comes_in_pieces() -> None:
    """A step of a build in somebody else's image may never end one."""
    program = f"print('a'); print('b' * {10 * LONGEST_LINE}); print('c')"
    lines: list[str] = []

    code = SystemRunner().stream(Command((sys.executable, "-c", program), 20), lines.append, lambda: None)

    assert (code, lines[0], lines[-1], "".join(lines[1:-1])) == (0, "a", "c", "b" * 10 * LONGEST_LINE)
    assert max(map(len, lines)) <= 2 * LONGEST_LINE


IGNORED = "sed -n 's/^SigIgn:[[:space:]]*//p' /proc/$$/status >&3"


def test_one_that_has_the_terminal_is_stopped_where_it_reads_in_the_background_whatever_its_caller_ignores() -> None:
    """
    It is continued when the terminal is its own; told that the terminal is broken, it would never read a key. What it
    sets of the terminal meanwhile is not to stop it: so we ignore that, and it does.
    """
    numbers = (signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    source, target = os.pipe2(os.O_CLOEXEC)
    try:
        child = spawn(("/bin/sh", "-c", IGNORED), {3: target}, {}, own_group=True)
    finally:
        os.close(target)
        for number, old in zip(numbers, before, strict=True):
            signal.signal(number, old)
    with os.fdopen(source) as told:
        ignored = int(told.read(), 16)
    os.waitpid(child, 0)

    assert [number for number in numbers if ignored >> (number - 1) & 1] == [signal.SIGTTOU]


def test_each_command_is_said_before_it_runs() -> None:
    """Ready to be pasted; also what a sandbox is started by, and what is followed line by line."""
    lines: list[str] = []
    inner = FakeRunner(said("1"), said("2"))
    runner = TracingRunner(inner, lambda text: lines.append(f"{len(inner.argvs)} {text}"))

    runner.announce(("podman", "run", "a b"))
    answers = (
        runner.run(Command(("podman", "ps", "it's"), 10)),
        runner.stream(Command(("podman", "build"), 10), lines.append, lambda: None),
    )

    assert lines == ["0 + podman run 'a b'", """0 + podman ps 'it'"'"'s'""", "1 + podman build", "2"]
    assert answers == (said("1"), 0)
