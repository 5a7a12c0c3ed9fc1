"""aisb is killed: the sandbox goes with it, at whatever moment, and nothing of the run is left."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.e2e.sandbox import outside, report_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab

# In the arguments of all processes of a run, and of no others: the hosts share one table of processes.
MARK = f"mark-of-a-killed-run-{os.getpid()}"
PROMISED_SECONDS = 2.0
DEAF = "trap '' TERM INT HUP QUIT; touch up; while :; do sleep 0.05; done"
CLEAN = {"left": [], "again": 0, "terminal": True}
# A gate of the test's own: how long it stays is part of what a gate is made of.
GATED = ("--allow", "allowed.test", "--gate-idle", "78")
FORGET = "podman ps -aq --filter name=aisb-gate | xargs -r podman rm -f --time 0 >/dev/null"


def killed(
    lab: Lab,
    moment: str,
    command: str = DEAF,
    *,
    flags: tuple[str, ...] = ("--net=none",),
    prepare: str = "",
    variables: Mapping[str, str] | None = None,
    after: str = "",
) -> dict[str, Any]:
    """Kill aisb at a moment; what is left. The command is a text for a shell in the sandbox."""
    words = " ".join((moment, "-q", *flags))
    text = f'{prepare}\npython3 -c "$KILL" {words} -- sh -c "$DO" $MARK\nended=$?\n{after}\nexit $ended'
    given = {"KILL": outside("kill"), "MARK": MARK, "DO": command, **(variables or {})}
    found: dict[str, Any] = report_of(lab.run(text, env=given))
    return found


@pytest.mark.parametrize("moment", ["spawned", "podman"])
def test_a_killed_aisb_takes_its_sandbox_along(lab: Lab, moment: str) -> None:
    """C59: within 2 s, a command that ignores signals too, and a new run starts at once."""
    found = killed(lab, moment)

    assert found.pop("seconds") < PROMISED_SECONDS
    found.pop("was there")
    assert found == CLEAN


def test_an_interactive_shell_in_a_terminal_goes_too(lab: Lab) -> None:
    """C59: it ignores TERM. podman gives the terminal back as it ends, which nobody waits for here."""
    found = killed(lab, "up", f"touch up; exec bash --norc -i -s {MARK}", variables={"TERMINAL": "yes"})

    assert found.pop("seconds") < PROMISED_SECONDS
    found.pop("terminal")
    assert found == {"was there": True, "left": [], "again": 0}


# Between aisb and podman, or between podman and crun: waits for the file `go`, and follows no signal meanwhile.
SLOW = r"""#!/bin/sh
case " $* " in *"%s"*) touch "$HOME/project/here"
    trap '' TERM; until [ -e "$HOME/project/go" ]; do sleep 0.02; done ;;
esac
exec %s "$@"
"""
SLOW_PODMAN = """
mkdir -p ~/slow; printf '%s' "$SLOW" >~/slow/podman; chmod +x ~/slow/podman; export PATH="$HOME/slow:$PATH"
echo 'touch go' >release
"""
SLOW_RUNTIME = """
mkdir -p ~/slow ~/.config/containers; printf '%s' "$SLOW" >~/slow/runtime; chmod +x ~/slow/runtime
printf '[engine]\\nruntime = "slow"\\n[engine.runtimes]\\nslow = ["%s"]\\n' "$HOME/slow/runtime" \
    >~/.config/containers/containers.conf
echo 'touch go' >release
"""


HANG = """
cat >hold <<'END'
set -e
podman inspect --format '{{.State.Pid}}' $(podman ps -q --filter name=aisb-gate | head -n 1) >bridge
kill -STOP $(cat bridge); touch on
END
echo 'kill -CONT $(cat bridge)' >release
"""


def gated(seconds: int) -> tuple[str, ...]:
    """Flags of a run whose gate nobody else has: it is cold, and stays for that long."""
    return ("--allow", f"{secrets.token_hex(8)}.test", "--gate-idle", str(seconds))


# Where nothing depends on whether it is cold.
WARM = gated(60)


class Phase(NamedTuple):
    """
    A phase of a run in which aisb is killed: when that is, whether there is a sandbox by then, and whose the exit code
    is on the run's record, "" for no record yet.
    """

    moment: str = "here"
    # Another moment after that.
    then: str = ""
    was_there: bool = True
    by: str = "unknown"
    # podman outlives its aisb, and is waited for: it is no longer in the way of the next run then.
    outlives: bool = False
    is_cold: bool = False


PHASES = {
    "planned": Phase(was_there=False, by="", outlives=True),
    "volume": Phase(was_there=False, by="", outlives=True),
    "recorded": Phase(was_there=False, outlives=True, is_cold=True),
    "gate starting": Phase(was_there=False, outlives=True, is_cold=True),
    "gate proved": Phase(was_there=False, outlives=True, is_cold=True),
    # Where podman goes on because nothing has told it to end.
    "podman": Phase(was_there=False),
    "entrypoint": Phase("inside"),
    "begun": Phase(then="inside"),
    "checked": Phase(then="inside"),
    "rules": Phase(then="inside"),
    "launcher": Phase(then="inside"),
    "relay": Phase(then="inside"),
    "proved": Phase(then="inside"),
    "exec": Phase(then="inside"),
    "running": Phase("up"),
    "ending": Phase("up", "recorded", was_there=False, by="command", is_cold=True),
}
# What a start asks podman is a phase each; the others look at the machine, where nothing is remembered of it, and take
# away what is left.
ASKED = {"volume create", "container exists", "run gate", "run sandbox"}
BESIDES = {"--version", "events", "image", "images", "info", "rm"}
HOLDING = """
mkdir -p ~/first; printf '%s' "$SHIM" >~/first/podman; chmod +x ~/first/podman; export PATH="$HOME/first:$PATH"
printf '%s' "$PHASE" >~/hold; echo "rm ~/hold; touch go; until [ -e $UNTIL ]; do sleep 0.02; done" >release
"""


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_of_a_run_nothing_is_left_of_it(lab: Lab, phase: str) -> None:
    """C59: a sandbox is gone within 2 s, the next run takes the rest away, and the record says what is known."""
    wanted = PHASES[phase]
    flags = gated(5) if wanted.is_cold else WARM
    variables = {"AGAIN": " ".join(flags) if wanted.is_cold else "--net none", "RECORDS": "yes"}
    variables |= {"THEN": wanted.then} if wanted.then else {}
    command, prepare = DEAF, HOLDING
    if phase == "ending":
        # The bridge hangs when it is asked to close the run: so aisb is cleaning up when it is killed.
        command, prepare = "touch up; until [ -e on ]; do sleep 0.02; done", FORGET + HANG
    else:
        variables |= {"SHIM": outside("phases"), "PHASE": phase, "UNTIL": "done" if wanted.outlives else "go"}

    found = killed(lab, wanted.moment, command, flags=flags, prepare=prepare, variables=variables)

    assert found.pop("seconds") < PROMISED_SECONDS
    assert set(found.pop("asked")) - BESIDES <= ASKED
    records = [wanted.by] if wanted.by else []
    assert found == {"was there": wanted.was_there, "records": records, **CLEAN}


def test_a_container_that_is_being_made_is_taken_away(lab: Lab) -> None:
    """C59: where podman knows it, and its runtime is still at work."""
    slow = SLOW % (" create ", "/usr/bin/crun")

    found = killed(lab, "here", prepare=SLOW_RUNTIME, variables={"SLOW": slow})

    assert found.pop("seconds") < PROMISED_SECONDS
    assert found == {"was there": False, **CLEAN}


def test_the_sandbox_is_killed_also_where_podman_takes_its_time(lab: Lab) -> None:
    """C59: podman's removal of the container begins only when the sandbox's last process has ended."""
    slow = SLOW % (" rm --force", "/usr/bin/podman")

    found = killed(lab, "up", prepare=SLOW_PODMAN + "mv release gone", variables={"SLOW": slow})

    assert found.pop("seconds") < PROMISED_SECONDS
    assert found == {"was there": True, **CLEAN}


def test_a_gate_that_is_being_started_is_no_obstacle(lab: Lab) -> None:
    """C59: killed while podman makes the gate, aisb leaves a gate that serves the next run, or none."""
    check = "aisb -q --allow allowed.test --gate-idle 78 -- curl -sS https://allowed.test/ >&2"
    found = killed(lab, "gate", "true", flags=GATED, prepare=FORGET, after=f"{check} || ended=$?\n{FORGET}")

    assert found == {"was there": False, "seconds": 0.0, **CLEAN}


def test_without_its_guardian_the_command_is_told_to_end(lab: Lab) -> None:
    """C59: podman's own signal is left, and the next run takes away what it leaves."""
    command = "touch up; while :; do sleep 0.05; done"
    found = killed(lab, "up", command, variables={"WITH": "guard"})

    assert found.pop("seconds") < PROMISED_SECONDS
    assert found == {"was there": True, **CLEAN}


ORPHAN = """
probe() { curl -sS -o /dev/null -w '%{http_code}' --max-time 5 https://allowed.test/ 2>/dev/null; }
trap '' TERM HUP INT
echo "before $(probe)" >>said; touch up
until [ -e killed ]; do sleep 0.05; done
while [ "$(probe)" = 200 ]; do sleep 0.1; done
echo "after $(probe) $(curl -sS -o /dev/null -w '%{http_code}' --noproxy '*' --max-time 5 http://203.0.113.11/)" >>said; touch closed
while :; do sleep 0.05; done
"""
KILL_ALL = """
aisb -q --allow allowed.test --gate-idle 3 -- sh -c "$ORPHAN" & aisb=$!
until [ -e up ]; do kill -0 $aisb || exit 9; sleep 0.02; done
run=$(podman ps --format '{{.Names}}' --filter name=aisb-run-)
gate=$(podman ps --format '{{.Names}}' --filter name=aisb-gate- | head -n 1)
kill -9 $aisb $(pgrep -P $aisb); touch killed
until [ -e closed ]; do podman container exists $run || exit 8; sleep 0.1; done; cat said
while podman container exists $gate; do sleep 0.1; done
aisb -q --allow allowed.test --gate-idle 3 -- curl -sS https://allowed.test/
podman container exists $run && echo "still there"; ls -d $XDG_RUNTIME_DIR/aisb/g/*/r/${run#aisb-run-} 2>/dev/null
true
"""


def test_when_all_that_watch_are_killed_the_sandbox_has_no_network(lab: Lab) -> None:
    """C59: aisb, its guardian and podman at once: the gate ends, and the next run takes away what is left."""
    result = lab.run(KILL_ALL, env={"ORPHAN": ORPHAN})

    assert result.text.splitlines() == ["before 200", "after 000 502", "hello from allowed.test"]
    assert lab.sinks(sink="evil.test") == []
