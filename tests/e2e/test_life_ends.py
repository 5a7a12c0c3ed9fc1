"""How a run ends: with the command's own code."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

from tests.e2e.sandbox import Case, run_cases

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

QUIET = ("aisb", "-q", "--net=none", "--")
SAY_NOT_FOUND = "aisb: no-such-program: command not found\n"
ENDS: dict[str, tuple[tuple[str, ...], int, str]] = {
    **{f"exit {code}": (("sh", "-c", f"exit {code}"), code, "") for code in (0, 1, 2, 42, 69, 77, 125, 126, 127, 255)},
    **{
        f"killed by {name}": (("sh", "-c", f"kill -{name} $$"), 128 + getattr(signal, f"SIG{name}"), "")
        for name in ("TERM", "KILL", "SEGV")
    },
    "not found": (("no-such-program",), 127, SAY_NOT_FOUND),
    "not found at its path": (("/project/nothing",), 127, "aisb: /project/nothing: command not found\n"),
    "not executable": (("/etc/passwd",), 126, "aisb: /etc/passwd: not executable\n"),
    "a directory": (("/usr",), 126, "aisb: /usr: not executable\n"),
    "without an interpreter": (("./wrong",), 127, "[FATAL tini (N)] exec ./wrong failed: No such file or directory\n"),
    "a text without a first line for the kernel": (("./text",), 3, ""),
}
FILES = {"project/wrong": "#!/no/such/interpreter\n", "project/text": "exit 3\n"}


def test_the_commands_exit_code_is_passed_on(lab: Lab) -> None:
    """C56: also those that podman and aisb use themselves, and signals as a shell says them."""
    ended = run_cases(lab, [Case((*QUIET, *command), FILES) for command, _, _ in ENDS.values()])

    found = {
        name: (item.code, item.stdout, re.sub(r"tini \([0-9]+\)", "tini (N)", item.stderr))
        for name, item in zip(ENDS, ended, strict=True)
    }
    assert found == {name: (code, "", words) for name, (_, code, words) in ENDS.items()}


LOSES = """#!/bin/sh
/usr/bin/podman "$@"; code=$?
case $1 in run) echo "ended with $code" >>~/ended; exit 127 ;; esac
exit $code
"""


def test_a_code_that_podman_has_lost_is_the_commands_all_the_same(lab: Lab) -> None:
    """A podman whose clean-up was faster says 127: its record of events is asked. Where it was 127, it is 127."""
    commands = ("exit 7", "exit 0", "exit 127", "kill -9 $$")
    script = "\n".join(f"aisb -q --net none -- sh -c '{command}'; echo $?" for command in commands)

    ended = lab.run(
        f'mkdir ~/first; cat >~/first/podman; chmod 755 ~/first/podman; PATH="$HOME/first:$PATH"\n{script}\ncat ~/ended\n'
        "aisb ps --all --json; cat ~/.local/state/ai-sandbox/runs/*/policy | sort -u | grep net=",
        stdin=LOSES.encode(),
    )

    codes = ["7", "0", "127", "137"]
    lines, _, listed = ended.text.partition("{")
    assert lines.splitlines() == [*codes, *(f"ended with {code}" for code in codes)], ended.errors
    # So the record of each says as well, with whose it was, and runs without a gate have one.
    runs, end = json.JSONDecoder().raw_decode("{" + listed)
    found = [(str(run["exit"]), run["by"], run["state"], run["command"]) for run in runs["runs"]]
    assert found == [(code, "command", "ended", "sh") for code in codes]
    assert listed[end - 1 :].split() == ["net=none"]
