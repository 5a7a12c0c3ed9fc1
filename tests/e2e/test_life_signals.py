"""Keys and signals: they reach the command, and once; and they end aisb cleanly whenever they come."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from tests.e2e.sandbox import outside, report_of
from tests.e2e.test_life_kill import FORGET, SLOW, SLOW_PODMAN, SLOW_RUNTIME
from tests.e2e.test_life_terminal import NOTHING_LEFT, READY, RUN, ask, at_prompt, suspend

if TYPE_CHECKING:
    from tests.e2e.lab import Lab, Result

INTERRUPT, SUSPEND = "\x03", "\x1a"


def test_an_interrupt_at_a_shell_is_the_shells(lab: Lab) -> None:
    """C57: it ends what runs there; so does ^Z what it does there, and fg."""
    with at_prompt(lab) as shell:
        shell.sendline("aisb -q --net none -- bash --norc -i")
        shell.expect("bash-[0-9.]+[$] ")
        shell.sendline(f"sh -c 'echo {READY}; exec sleep 1000'")
        shell.expect("ready\r\n")
        shell.send(INTERRUPT)
        shell.expect("bash-[0-9.]+[$] ")
        shell.sendline("echo code: $?")
        shell.expect("code: 130\r\n")
        shell.sendline(f"sh -c 'echo {READY}; read line; echo $line'")
        shell.expect("ready\r\n")
        shell.send(SUSPEND)
        shell.expect("Stopped.*bash-[0-9.]+[$] ")
        shell.sendline("fg")
        shell.expect("sh -c")
        shell.sendline("go on")
        shell.expect("go on\r\n.*go on\r\n")
        shell.sendline("exit 7")
        shell.expect("host> ")
        ask(shell, "echo code: $?", "code: 7\r\n")


COUNT = f"""
trap 'echo caught' INT; echo {READY}
while :; do read line && [ "$line" = done ] && exit 6; done
"""


def test_each_interrupt_arrives_once(lab: Lab) -> None:
    """C57: at a program that does not end of it, and twice."""
    with lab.terminal(RUN + 'sh -c "$COUNT"; echo "code: $?"', env={"COUNT": COUNT}) as terminal:
        terminal.expect("ready\r\n")
        terminal.send(INTERRUPT)
        terminal.expect("caught\r\n")
        terminal.send(INTERRUPT)
        terminal.expect("caught\r\n")
        terminal.sendline("done")
        terminal.expect("code: 6\r\n")

        assert b"caught" not in terminal.before


AT_ONCE = f"trap 'echo caught; exit 6' INT; echo {READY}; while :; do sleep 0.1; done"


def test_an_interrupt_at_the_commands_first_word_is_the_commands(lab: Lab) -> None:
    """C57: aisb may not have seen yet that the command is there, and has the key itself. Each time of a few."""
    for _ in range(8):
        with lab.terminal(f'exec {RUN} sh -c "$AT_ONCE"', env={"AT_ONCE": AT_ONCE}) as terminal:
            terminal.delaybeforesend = None
            terminal.expect("ready\r\n")
            terminal.send(INTERRUPT)
            terminal.expect("caught\r\n", timeout=20)
            terminal.expect(pexpect.EOF)
            terminal.close()
            assert terminal.exitstatus == 6


def test_an_interrupt_reaches_a_whole_command_that_has_no_terminal_inside(lab: Lab) -> None:
    """C57: the program that a shell waits for ends, and the shell, as on the host."""
    with at_prompt(lab) as shell:
        shell.sendline(RUN + "sh -c 'touch up; sleep 1000; echo not reached' >said; echo code: $?")
        wait_until_up(lab)
        shell.send(INTERRUPT)
        shell.expect("code: 130\r\n")
        shell.expect("host> ")
        ask(shell, "cat said; echo said: $?", "\r\nsaid: 0")


def wait_until_up(lab: Lab) -> None:
    """Until the command has made its file, in the only call that runs there."""
    result = lab.run("until ls ~/../*/project/up; do sleep 0.05; done")
    assert result.code == 0


GATED = "aisb -q --allow allowed.test -- "


@pytest.mark.parametrize("run", [RUN, GATED], ids=["none", "allow"])
@pytest.mark.parametrize("to", ["", " >said"], ids=["terminal", "no terminal inside"])
def test_a_command_that_is_no_shell_can_be_suspended_and_continued(lab: Lab, to: str, run: str) -> None:
    """C57: ^Z gives the caller's shell back, in the state it was; fg continues it, its keys work, nothing is left."""
    with at_prompt(lab) as shell:
        ask(shell, "stty -g >before", "")
        shell.sendline(run + f"sh -c ': >up; read line; echo it: $line; sleep 1000' {to}")
        wait_until_up(lab)
        suspend(shell)
        ask(shell, "stty -g | cmp before - && echo as it was: $?", "as it was: 0")
        shell.sendline("fg")
        shell.expect("aisb[^\r\n]*\r\n")
        shell.sendline("go on")
        if not to:
            shell.expect("it: go on")
        shell.send(INTERRUPT)
        shell.expect("host> ")
        ask(shell, "echo code: $?", "code: 130\r\n")
        ask(shell, NOTHING_LEFT, "\r\n0\r\n0\r\n")


def test_a_suspended_command_can_be_ended(lab: Lab) -> None:
    """C57: by kill, also after bg, in which nothing of it reads from the terminal."""
    with at_prompt(lab) as shell:
        shell.sendline(RUN + "sh -c ': >up; exec sleep 1000'")
        wait_until_up(lab)
        suspend(shell)
        ask(shell, "bg", "&")
        ask(shell, "until jobs -s | grep Stopped; do sleep 0.1; done", "Stopped")
        ask(shell, "aisb=$(jobs -p %1); kill %1; while kill -0 $aisb; do sleep 0.1; done; echo gone: $?", "gone: 0")
        ask(shell, NOTHING_LEFT, "\r\n0\r\n0\r\n")


# podman has a runtime that changes what it asked for. By its path: a build looks for a name elsewhere.
OWN_RUNTIME = r"""
mkdir -p rt ~/.config/containers; printf '[engine]\nruntime = "%s"\n' "$PWD/rt/runtime" >~/.config/containers/containers.conf
printf '%s' "$RUNTIME" >rt/runtime; chmod +x rt/runtime; printf '%s' "$CHANGE" >rt/change
"""


def own_runtime(change: str) -> dict[str, str]:
    """The variables of OWN_RUNTIME, with what is changed: Python with `config`, the container's configuration."""
    return {"RUNTIME": outside("runtime"), "CHANGE": change}


NEVER_READY = "config['process']['args'] = ['/bin/sleep', '1000']"
GATES = "podman ps -q --filter name=aisb-gate"


def interrupt(lab: Lab, shell: pexpect.spawn, command: str, moment: str) -> None:
    """Type a command, and ^C as soon as a condition holds on the host: it ends with 130."""
    shell.sendline(command)
    assert lab.run(f"until {moment}; do sleep 0.05; done").code == 0
    shell.send(INTERRUPT)
    shell.expect("host> ")
    ask(shell, "echo code: $?", "code: 130\r\n")


def test_an_interrupt_while_a_gate_is_awaited_leaves_no_gate(lab: Lab) -> None:
    """C57: with 130, and nothing of it is left."""
    assert lab.run(f"{GATES} -a | xargs -r podman rm -f --time 0").code == 0
    with at_prompt(lab, OWN_RUNTIME, own_runtime(NEVER_READY)) as shell:
        interrupt(lab, shell, "aisb --allow allowed.test --gate-idle 79 -- true", f'[ "$({GATES})" ]')
        ask(shell, f"{GATES} -a | wc -l", "\r\n0\r\n")
        ask(shell, NOTHING_LEFT, "\r\n0\r\n0\r\n")


AWAITED = rf"""
aisb --allow allowed.test --gate-idle 83 -- true & aisb=$!
until [ "$({GATES})" ]; do sleep 0.05; done
kill -$NAME $aisb; wait $aisb; echo code $?
{GATES} -a | wc -l; podman ps -aq --filter name=aisb-run | wc -l
aisb ps --all --json | python3 -c 'import json, sys
for run in json.load(sys.stdin)["runs"]: print(run["by"], run["reason"])'
"""


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_a_signal_while_a_gate_is_awaited_leaves_no_gate_and_is_on_record(lab: Lab, name: str) -> None:
    """C57: as ^C does; the record says which signal it was."""
    assert lab.run(f"{GATES} -a | xargs -r podman rm -f --time 0").code == 0
    result = lab.run(OWN_RUNTIME + AWAITED, env={"NAME": name, **own_runtime(NEVER_READY)})

    code = 128 + getattr(signal, f"SIG{name}")
    assert result.text.splitlines() == [
        f"code {code}", "0", "0", f"signal ended by SIG{name} before its command began",
    ], result.errors  # fmt: skip


def test_an_interrupt_during_the_clean_up_changes_nothing(lab: Lab) -> None:
    """C57: the command's own code, and nothing left; the gate takes its time to close the run."""
    with at_prompt(lab) as shell:
        inside = "touch up; until [ -e on ]; do sleep 0.02; done; exit 4"
        shell.sendline(f"aisb -q --allow allowed.test --gate-idle 80 -- sh -c '{inside}'")
        wait_until_up(lab)
        stop = (
            'cd "$(dirname ~/../*/project/up)"; run=$(podman ps -q --filter name=aisb-run); '
            f"for gate in $({GATES}); do podman inspect --format '{{{{.State.Pid}}}}' $gate; done >pids; "
            "kill -STOP $(cat pids); touch on; while podman container exists $run; do sleep 0.05; done"
        )
        assert lab.run(stop).code == 0
        shell.send(INTERRUPT)
        shell.send(INTERRUPT)
        shell.expect("host> ")
        ask(shell, "echo code: $?", "code: 4\r\n")
        ask(shell, f"{NOTHING_LEFT}; kill -CONT $(cat pids)", "\r\n0\r\n0\r\n")


# What a program of a build's step stands for: it does not end. The step's own process, which watches aisb, is setup's.
HANG = """
mkdir -p rt; echo "exec sh -c 'while :; do sleep 0.1; done' $MARK" >rt/hang; chmod +x rt/hang
"""
HANGING_STEP = """
import os
hang = os.environ['HOME'] + '/project/rt/hang'
mount = {'destination': '/usr/bin/apt-get', 'type': 'bind', 'source': hang, 'options': ['bind', 'ro']}
config['mounts'].append(mount)
"""
# Images, containers, contexts, and what is lent to a build.
OF_BUILDS = (
    "podman images -aq; podman ps -aq --external; ls -A $XDG_CACHE_HOME/ai-sandbox/contexts $XDG_RUNTIME_DIR/aisb/build"
)


def test_an_interrupt_ends_a_build(lab: Lab) -> None:
    """C57: in the middle of a step, with 130; nothing of it goes on, and nothing is left behind."""
    # The hosts share one table of processes.
    mark = f"mark-of-a-hanging-step-{lab.name}-{os.getpid()}"
    going_on = f"pgrep -f '[m]{mark[1:]}'"
    with at_prompt(lab, OWN_RUNTIME + HANG, {**own_runtime(HANGING_STEP), "MARK": mark}) as shell:
        ask(shell, f"look() {{ {OF_BUILDS}; }}; look >before; wc -l <before", "[1-9][0-9]*\r\n")
        interrupt(lab, shell, "aisb build --install hanging", going_on)
        ask(shell, f"{going_on}; echo going on: $?", "\r\ngoing on: 1\r\n")
        ask(shell, "look | diff before - && echo nothing le''ft", "\r\nnothing left\r\n")


# The hosts share one table of processes.
HELD = f"mark-of-a-held-start-{os.getpid()}"
# The sandbox's first process waits, as the ones do that it is before it is the command's init.
SLOW_SANDBOX = f"""
wait = 'until [ -e /project/go ]; do sleep 0.02; done; exec "$@"'
config['process']['args'] = ['/bin/sh', '-c', wait, '{HELD}', *config['process']['args']]
"""
# podman ends only when its runtime has: so that has to go on.
HOLD = {
    "podman": (SLOW_PODMAN, SLOW.replace("trap '' TERM; ", "") % (" --name aisb-run-", "/usr/bin/podman"), ""),
    "runtime": (SLOW_RUNTIME, SLOW % (" create ", "/usr/bin/crun"), "after"),
    "sandbox": (OWN_RUNTIME, "", ""),
}
# A gate of the test's own, and none of it afterwards: its runtime goes with this call.
ALLOW = "--allow allowed.test --gate-idle 81"
GATE_IS = {"": "true", "cold": FORGET, "warm": f"{FORGET}; aisb -q {ALLOW} -- true"}


def signalled_early(lab: Lab, moment: str, how: str, gate: str = "", command: str = "sleep 1000") -> dict[str, Any]:
    """Hold the start of a sandbox, or of the gate where that is cold, at a moment, send aisb a signal; how it ended."""
    prepare, slow, go = HOLD[moment]
    given = {"SLOW": slow, "HELD": HELD, "GO": go, "EARLY": outside("early"), **own_runtime(SLOW_SANDBOX)}
    flags, after = (ALLOW, f"touch go; {FORGET}") if gate else ("--net=none", "true")
    text = f"{GATE_IS[gate]}\n{prepare}\n{how} -q {flags} -- {command}\nended=$?; {after}; exit $ended"
    found: dict[str, Any] = report_of(lab.run(text, env=given))
    return found


EARLY = [
    *(("", how) for how in ("key", "TERM", "INT", "HUP", "QUIT")),
    *((gate, how) for gate in ("cold", "warm") for how in ("key", "TERM")),
]


@pytest.mark.parametrize("moment", sorted(HOLD))
@pytest.mark.parametrize(("gate", "how"), EARLY, ids=[f"{how}-{gate or 'no'} gate" for gate, how in EARLY])
def test_a_signal_before_there_is_a_command_ends_the_run(lab: Lab, how: str, moment: str, gate: str) -> None:
    """C56, C57: at once, without a word, with nothing left, in a terminal and without."""
    found = signalled_early(lab, moment, f'python3 -c "$EARLY" {how}', gate)

    code = 128 + signal.SIGINT if how == "key" else 128 + getattr(signal, f"SIG{how}")
    # The terminal shows the key as long as podman has not made it raw.
    assert found.pop("said") in (("", "^C") if how == "key" else ("",))
    assert found == {"code": code, "left": []}


def test_a_signal_that_the_caller_ignores_is_ignored_during_the_start_too(lab: Lab) -> None:
    """C56: as nohup has it."""
    how = "trap '' HUP; export GO=after; python3 -c \"$EARLY\" HUP"
    found = signalled_early(lab, "sandbox", how, command="sh -c 'exit 9'")

    assert found == {"code": 9, "said": "", "left": []}


SEND = r"""
import os, signal, subprocess, sys, time
number = getattr(signal, "SIG" + sys.argv[1])
aisb = subprocess.Popen(["aisb", "-q", "--net=none", "--", "sh", "-c", os.environ["INSIDE"]])
while not os.path.exists("up"):
    assert aisb.poll() is None
    time.sleep(0.02)
aisb.send_signal(number)
print("exit", aisb.wait(), flush=True)
"""


each_signal = pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT"])


def sent(lab: Lab, name: str, inside: str, after: str = "") -> Result:
    """Run a shell's program in a sandbox, and send aisb a signal when there is the file `up`."""
    return lab.run(f'python3 -c "$SEND" {name}; {after}', env={"SEND": SEND, "INSIDE": inside})


STOP = r"""
import glob, os, signal, subprocess, sys, time
mark = os.environ["MARK"]
def of(path):
    try:
        return open(path).read()
    except OSError:
        return ""
def state(pid):
    return of(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
def wait(condition, what):
    end = time.monotonic() + 30
    while not condition():
        if aisb.poll() is not None or time.monotonic() > end:
            aisb.kill()
            sys.exit(what)
        time.sleep(0.02)
# It starts no program: one that is stopped before it has begun leaves the shell that waits for that in no state to stop.
inside = ["sh", "-c", "mkfifo /tmp/never; : >up; : </tmp/never", mark]
aisb = subprocess.Popen(["aisb", "-q", *sys.argv[1:], "--", *inside], stdin=subprocess.DEVNULL, start_new_session=True)
wait(lambda: os.path.exists("up"), "up")
mine = "\0".join(inside) + "\0"
command = next(path.split("/")[2] for path in glob.glob("/proc/[0-9]*/cmdline") if of(path) == mine)
for number, wanted in (signal.SIGTSTP, True), (signal.SIGCONT, False):
    aisb.send_signal(number)
    for pid in aisb.pid, command:
        wait(lambda: (state(pid) == "T") == wanted, f"{number.name}: {pid} is {state(pid)}")
aisb.terminate()
print("exit", aisb.wait())
"""


@pytest.mark.parametrize("flags", ["--net=none", "--allow allowed.test"], ids=["none", "allow"])
def test_without_a_terminal_the_command_stops_and_goes_on_with_aisb(lab: Lab, flags: str) -> None:
    """C57: TSTP and CONT to aisb alone."""
    # The hosts share one table of processes.
    result = lab.run(f'python3 -c "$STOP" {flags}', env={"STOP": STOP, "MARK": f"mark-of-a-stop-{os.getpid()}"})

    assert result.text == "exit 143\n", result.errors


@each_signal
def test_a_signal_to_aisb_ends_the_command(lab: Lab, name: str) -> None:
    """C56: the command has the time to end by itself; its code is aisb's."""
    inside = f"trap 'sleep 0.3; echo caught; exit 5' {name}; touch up; while :; do sleep 0.05; done"

    result = sent(lab, name, inside)

    assert result.text.splitlines() == ["caught", "exit 5"], result.errors


@each_signal
def test_a_command_that_a_signal_ends_gives_its_code(lab: Lab, name: str) -> None:
    """C56: 128 and the signal's number, as a shell says it."""
    inside = "touch up; while :; do sleep 0.05; done"

    result = sent(lab, name, inside)

    assert result.text.splitlines() == [f"exit {128 + getattr(signal, f'SIG{name}')}"], result.errors


def test_after_ten_seconds_a_command_that_does_not_end_is_killed(lab: Lab) -> None:
    """C56: TERM is a request with a bound."""
    inside = "trap '' TERM; touch up; while :; do sleep 0.05; done"

    result = sent(lab, "TERM", inside, NOTHING_LEFT)

    assert result.text.split() == ["exit", "137", "0", "0"], result.errors
    assert result.seconds > 10
