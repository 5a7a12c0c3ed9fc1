"""A command with a terminal has the caller's: its size, its colours, its keys; and the caller has it back as it was."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pexpect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.lab import Lab

# A shell with job control, as people use aisb from.
SHELL = "exec bash --norc -i"
PROMPT = {"PS1": "host> ", "TERM": "dumb"}
RUN = "aisb -q --net none -- "
# Containers of runs, and directories of runs that have begun since this call has, with its new home.
NOTHING_LEFT = (
    "podman ps -aq --filter name=aisb-run | wc -l; "
    "find $XDG_RUNTIME_DIR/aisb -path '*/r/????????' -newer ~/.config/containers/storage.conf | wc -l"
)
# What is typed is shown too: what a command says has to differ from how it is told to say it.
READY = "rea''dy"


@contextlib.contextmanager
def at_prompt(lab: Lab, prepare: str = "", env: Mapping[str, str] | None = None) -> Iterator[pexpect.spawn]:
    """A shell in a terminal, at its prompt, after a program of `sh` with these variables."""
    with lab.terminal(f"{prepare}\n{SHELL}", env={**PROMPT, **(env or {})}) as shell:
        shell.expect("host> ")
        yield shell


def ask(shell: pexpect.spawn, line: str, answer: str) -> str:
    """Type a line at the prompt; what matched the answer, after which the prompt has come again."""
    shell.sendline(line)
    shell.expect(answer)
    found: str = shell.match.group(0).decode()
    shell.expect("host> ")
    return found


def suspend(shell: pexpect.spawn) -> None:
    """
    Press ^Z until the shell has the terminal again.

    podman passes on that it was continued itself, at a command's start perhaps later than that key.
    """
    shell.send("\x1a")
    while shell.expect(["Stopped.*host> ", pexpect.TIMEOUT], timeout=10):
        shell.send("\x1a")


def test_the_terminal_has_the_callers_size_and_kind(lab: Lab) -> None:
    """C62: size and TERM, and COLORTERM for whoever passes it in, at the command's first instruction."""
    command = "aisb -q --net none --env COLORTERM -- sh -c 'stty size; echo $TERM $COLORTERM'"
    env = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

    with lab.terminal(command, env=env, size=(31, 97)) as terminal:
        terminal.expect("31 97\r\nxterm-256color truecolor\r\n")


# A shell forgets a signal that comes while its trap is at work.
SIZES = """
import os, signal, sys
def show(*_):
    size = os.get_terminal_size()
    os.write(1, f"{size.lines} {size.columns}\\n".encode())
signal.signal(signal.SIGWINCH, show)
os.write(1, b"ready\\n")
sys.stdin.readline()
"""


def test_a_change_of_the_size_arrives(lab: Lab) -> None:
    """C62: as the signal, and as the new size; also where one follows on another."""
    with lab.terminal(RUN + 'python3 -c "$SIZES"', env={"SIZES": SIZES}) as terminal:
        terminal.expect("ready\r\n")
        terminal.setwinsize(30, 100)
        terminal.setwinsize(45, 111)
        terminal.expect("45 111\r\n")
        terminal.sendline()
        terminal.expect(pexpect.EOF)


def test_a_change_of_the_size_while_it_was_stopped_arrives_with_fg(lab: Lab) -> None:
    """C62: the kernel tells it to the shell, which had the terminal then, and to nobody in the background."""
    with at_prompt(lab, env={"SIZES": SIZES}) as shell:
        shell.sendline(RUN + 'python3 -c "$SIZES"')
        shell.expect("ready\r\n")
        suspend(shell)
        shell.setwinsize(33, 99)
        shell.sendline("fg")
        shell.expect("33 99\r\n")
        shell.sendline()
        shell.expect("host> ")


IGNORING = """
import os, signal
signal.signal(signal.SIGTTIN, signal.SIG_IGN)
os.execvp("aisb", ["aisb", "-q", "--net", "none", "--", "sh", "-c", "echo rea''dy; read x; echo heard $x"])
"""


def test_keys_arrive_in_a_window_of_its_own(lab: Lab) -> None:
    """tmux begins a window's command with the signal ignored by which who reads in the background is stopped."""
    with lab.terminal('exec python3 -c "$IGNORING"', env={"IGNORING": IGNORING}) as terminal:
        terminal.expect("ready\r\n")
        terminal.sendline("keys")
        terminal.expect("heard keys\r\n")


KEYS = """
stty raw -echo; printf 'rea''dy.'
head -c 1 | od -An -tx1; head -c 2 | od -An -tx1
stty sane; exit 3
"""


def test_the_detach_keys_are_the_commands(lab: Lab) -> None:
    """C62: ^P arrives at once, not with the key after it; ^P^Q arrives too, and leaves no sandbox alone."""
    with lab.terminal(RUN + 'sh -c "$KEYS"; echo "exit $?"', env={"KEYS": KEYS}) as terminal:
        terminal.expect(r"ready\.")
        terminal.send("\x10")
        terminal.expect(" 10")
        terminal.send("\x10\x11")
        terminal.expect(" 10 11")
        terminal.expect("exit 3\r\n")


def test_the_terminal_is_as_it_was_after_the_run(lab: Lab) -> None:
    """Also after a command that has changed its own, and where podman is killed, which had it in raw mode."""
    left_raw = RUN + "sh -c 'stty raw -echo'"
    # The hosts share one table of processes.
    mark = f"mark-of-a-killed-podman-{os.getpid()}"
    deaf = RUN + f"sh -c 'touch up; trap \"\" TERM; while :; do sleep 0.05; done' {mark}"
    kill_when_up = f"(until [ -e up ]; do sleep 0.05; done; pkill -9 -f 'podman run .*{mark}') & "

    with at_prompt(lab) as shell:
        ask(shell, "stty -g >before", "")
        ask(shell, f"{left_raw}; stty -g | cmp before - && echo as it was: $?", "as it was: 0")
        ask(shell, f"set +m; {kill_when_up} {deaf}; echo code: $?", "code: 137")
        ask(shell, "stty -g | cmp before - && echo as it was: $?", "as it was: 0")
        ask(shell, NOTHING_LEFT, "\r\n0\r\n0\r\n")


# A run with a terminal that is not ours, told to end when its command is there.
COUNTING = """
import os, signal
stops = 0
def count(*_):
    global stops
    stops += 1
def end(*_):
    os.write(1, f"stopped {stops} times\\n".encode())
    os._exit(3)
signal.signal(signal.SIGTTIN, count)
signal.signal(signal.SIGTERM, end)
open("begun", "w").close()
while True:
    signal.pause()
"""
IN_A_TERMINAL = r"""
in_a_terminal() { script -qfec "$1" /dev/null </dev/null >said 2>&1 & until [ -e begun ]; do sleep 0.05; done; rm begun; }
record() { aisb ps --all --json | python3 -c 'import json, sys
for run in json.load(sys.stdin)["runs"]: print(run["exit"], run["by"], run["reason"])'; }
"""


def test_a_signal_to_a_run_with_a_terminal_is_its_commands_first(lab: Lab) -> None:
    """podman takes each try to read from a terminal that it has not got yet for a signal to pass on."""
    script = f"""{IN_A_TERMINAL}
in_a_terminal 'aisb -q --net none -- python3 -c "$COUNTING"'
aisb stop .; wait; grep -o 'stopped.*' said; record
"""

    result = lab.run(script, env={"COUNTING": COUNTING})

    said, *record = [line.strip() for line in result.text.splitlines()]
    assert (said, record) == ("stopped 0 times", ["3 command the command ended with 3"]), result.errors


def test_a_shell_ends_when_it_is_told_to(lab: Lab) -> None:
    """An interactive shell does not heed SIGTERM, and would be killed after ten seconds without a word to anybody."""
    script = f"""{IN_A_TERMINAL}
mkfifo keys; exec 9<>keys; echo "touch begun" >&9
script -qfec 'aisb -q --net none --shell' /dev/null <&9 >said 2>&1 & until [ -e begun ]; do sleep 0.05; done
aisb stop .; wait; record
"""

    result = lab.run(script)

    assert result.text.splitlines() == ["129 signal somebody ended it by SIGTERM"], result.errors


def test_a_terminal_that_is_closed_ends_the_run_as_its_signal(lab: Lab) -> None:
    script = f"""{IN_A_TERMINAL}
in_a_terminal 'exec aisb -q --net none -- sh -c "touch begun; exec sleep 1000" 2>errors'
ours=$(pgrep -P $!); kill -9 $!; tail -f /dev/null --pid $ours
grep -v 'Unable to restore terminal' errors; record; {NOTHING_LEFT}
"""

    result = lab.run(script)

    assert result.text.splitlines() == ["129 signal somebody ended it by SIGHUP", "0", "0"], result.errors
