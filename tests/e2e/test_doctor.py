"""`aisb doctor` on a real host: green where runs work, and red where `aisb run` refuses, by the same words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from aisb.domain.attempts import (
    ATTACK,
    ATTEMPTS,
    BOMB,
    FAIL,
    NEVER_TRIED,
    PASS,
    SANDBOX,
    UNHEARD,
    UNTOUCHED,
    UNTRIED,
)
from tests.e2e.sandbox import Case, outside, report_of, run_cases
from tests.e2e.test_life_kill import FORGET

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

BOTH = """
aisb doctor --json >"$TOLD"; echo $? >>"$TOLD"
aisb -q --net none -- true; code=$?
cat "$TOLD"; exit $code
"""
# What answers in podman's place, and hands everything else on.
SHIM = '#!/bin/sh\n{}\nexec /usr/bin/podman "$@"\n'


def told(stdout: str) -> tuple[dict[str, tuple[str, str, str]], int]:
    """What was found by check, and the exit code."""
    text, _, code = stdout.strip().rpartition("\n")
    document: dict[str, Any] = json.loads(text)
    return {item["check"]: (item["level"], item["evidence"], item["fix"]) for item in document["checks"]}, int(code)


def both(before: str, *, podman: str = "") -> Case:
    """doctor, and a run, after a change of the machine; a podman of our own goes before the real one."""
    script = f'export TOLD="$HOME/told" PATH="$HOME/first:$PATH"\n{before}\n{BOTH}'
    return Case(("sh", "-c", script), {"first/podman": SHIM.format(podman)} if podman else {})


OLD = 'case $1 in --version) echo "podman version 4.2.1"; exit ;; esac'
ADDED = """
mkdir ~/srv
printf '[containers]\\nvolumes = ["%s:/srv"]\\n' ~/srv >~/.config/containers/containers.conf
trap 'rm ~/.config/containers/containers.conf' EXIT
"""
REFUSED = {
    "user": both(f"exec unshare -r sh -c '{BOTH}'"),
    "python": both("export PYTHONPATH=:"),
    "home": both("export HOME=/nowhere"),
    "runtime directory": both("unset XDG_RUNTIME_DIR"),
    "podman's settings": both(ADDED),
    "podman": both("", podman=OLD),
}


def test_where_runs_work_nothing_is_red(lab: Lab) -> None:
    """What this host cannot cap is a warning, and counts with --strict. (C66)"""
    lines, strict = run_cases(
        lab, [Case(("aisb", "doctor")), Case(("sh", "-c", "aisb doctor --strict --json; echo $?"))]
    )

    assert (lines.code, lines.stderr, "fail" in lines.stdout) == (0, "", False)
    assert lines.stdout.splitlines()[-1] == "a run will work here and be enforced; see the warnings"
    found, code = told(strict.stdout)
    assert ({check for check, (level, *_) in found.items() if level != "ok"}, code) == ({"control groups"}, 69)


def test_what_a_run_refuses_is_red(lab: Lab) -> None:
    """C66: a check is of the same mind as a run."""
    ended = dict(zip(REFUSED, run_cases(lab, list(REFUSED.values())), strict=True))

    found = {name: told(item.stdout) for name, item in ended.items()}
    red = {
        name: [check for check, (level, *_) in checks.items() if level == "fail"] for name, (checks, _) in found.items()
    }
    assert red == {name: [name] for name in REFUSED}
    evidence = {name: checks[name][1] for name, (checks, _) in found.items()}
    assert {name: (checks[name][0], code) for name, (checks, code) in found.items()} == dict.fromkeys(
        REFUSED, ("fail", 69)
    )
    assert {name: item.code for name, item in ended.items()} == dict.fromkeys(REFUSED, 69) | {"podman's settings": 77}
    # What is in podman's settings a run sees when it finds the mount.
    said = {name: text for name, text in evidence.items() if text in ended[name].stderr}
    assert said.keys() == REFUSED.keys() - {"podman's settings"}


class Broken(NamedTuple):
    """A host that is broken: by root, by its account, or in what its login says; and what doctor finds, in turn."""

    told: list[list[str]]
    by_root: str = ""
    by_account: str = "true"
    login: str = "true"


# What is mounted over is only there for this host, and as long.
OWN_ETC = """
mkdir -p /run/aisb-doctor/up /run/aisb-doctor/work
mount -t overlay -o lowerdir=/etc,upperdir=/run/aisb-doctor/up,workdir=/run/aisb-doctor/work none /etc
"""
BROKEN = {
    # A shell that is no login, and a podman that others may have put there.
    "login": Broken(
        [["runtime directory"], ["podman"]],
        by_root="""
        mkdir /home/aisb-lab/first; ln -s /usr/bin/podman /home/aisb-lab/first/podman
        chown -hR aisb-lab: /home/aisb-lab/first; chmod 777 /home/aisb-lab/first
        """,
        login='unset XDG_RUNTIME_DIR; export PATH="/home/aisb-lab/first:$PATH"',
    ),
    # What maps ids was copied from somewhere, and its bit got lost.
    "mappers": Broken(
        [["podman", "id mappers"]],
        by_root="""
        for name in newuidmap newgidmap; do
            cp /usr/bin/$name /var/tmp/aisb-$name; chmod u-s /var/tmp/aisb-$name
            mount --bind /var/tmp/aisb-$name /usr/bin/$name
        done
        """,
        by_account="podman system migrate",
    ),
    # An account that was made without a range of ids, and has used podman so.
    "ids": Broken(
        [["subordinate ids", "user namespace"]],
        by_root=f"{OWN_ETC} sed -i /^aisb-lab:/d /etc/subuid /etc/subgid",
        by_account="podman system migrate; podman unshare true",
    ),
}
MADE_WHOLE = """
umount /etc || true
for name in newuidmap newgidmap; do umount /usr/bin/$name || true; done
rm -rf /run/aisb-doctor /var/tmp/aisb-new*idmap /home/aisb-lab/first
"""
MOST_ROUNDS = 4


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_host_is_mended_by_what_doctor_says_alone(lab: Lab, broken: Broken) -> None:
    """Each command as it stands there, behind its words; those with sudo as root. Until nothing is red: then a run works."""
    told: list[list[str]] = []
    said: list[str] = [broken.login]
    # What holds the namespace of a gate's network goes with what holds podman's.
    lab.run(FORGET)
    lab.as_root(broken.by_root or "true")
    try:
        lab.run(broken.by_account)
        before = lab.run("\n".join([*said, "aisb -q --net none -- echo ran"]))
        while len(told) < MOST_ROUNDS:
            checks = json.loads(lab.run("\n".join([*said, "aisb doctor --json"])).stdout)["checks"]
            red = {item["check"]: item["fix"].rpartition(": ")[2] for item in checks if item["level"] == "fail"}
            if not red:
                break
            told.append(list(red))
            for command in red.values():
                if command.startswith("sudo "):
                    lab.as_root(command.removeprefix("sudo "))
                else:
                    said.append(f"{command} >/dev/null")
        after = lab.run("\n".join([*said, "aisb -q --net none -- echo ran"]))
    finally:
        lab.as_root(MADE_WHOLE)
        lab.run(f"{FORGET}; podman system migrate")

    assert told == broken.told
    assert (before.code, before.text, after.code, after.text) == (69, "", 0, "ran\n"), after.errors


# From where nothing is, with settings of the user's that a run would heed; and one that is ended while its run begins.
DEEP = """
mkdir -p ~/.config/ai-sandbox ~/shown; export MINE=mine
printf 'allow: [evil.test]\\nenv: [MINE]\\nmount: [~/shown]\\n' >~/.config/ai-sandbox/config.yaml
mkdir gone && cd gone && rmdir ../gone
aisb doctor --deep >/dev/null &
until ls -d "$XDG_RUNTIME_DIR"/aisb-deep-*/g/*/r/*/ >/dev/null 2>&1; do sleep 0.02; done
kill $!; wait $!; echo "ended: $?" >&2
aisb doctor --deep --json; code=$?
cd /
ls -A "$XDG_RUNTIME_DIR" "$XDG_CACHE_HOME/ai-sandbox" | grep -E '^(aisb-deep-|deep-)' >&2
ls -d ~/.local/state/ai-sandbox 2>/dev/null >&2
podman ps --all --quiet --filter label=aisb.owner | xargs -r podman inspect --format '{{index .Config.Labels "aisb.project"}}' |
    grep /deep- >&2
exit $code
"""


def test_everything_that_is_tried_inside_is_held_off_and_nothing_is_left(lab: Lab) -> None:
    """
    C66: what has to be denied is, and what has to work does. No host hears of it. What this host cannot show is not
    tried, and not said to be well.
    """
    result = lab.run(DEEP)

    document = json.loads(result.text)
    wrong = [item for item in document["attempts"] if item["verdict"] == FAIL]
    assert (result.code, result.errors, wrong) == (0, "ended: 143\n", [])
    found = [(item["attempt"], item["verdict"]) for item in document["attempts"]]
    untried = {*NEVER_TRIED, BOMB}
    assert found == [(item.name, UNTRIED if item.name in untried else PASS) for item in ATTEMPTS]
    assert document["verdict"] == "warn"
    assert lab.sinks() == []


# An ordinary user has no raw socket on the host's network, whatever encloses its container; and of a network of its own,
# whatever encloses it, nothing of the host's is in reach.
PASSES_ANYHOW = {
    "host": {"ICMP", "raw sockets"},
    "none": {"the host's loopback", "the host's abstract sockets", UNHEARD},
}


def test_without_its_walls_each_attack_comes_out_as_a_failure(lab: Lab) -> None:
    """The same attacks in containers that nothing encloses: what passed there as well would show nothing."""
    python = 'read -r first <"$(command -v aisb)"; first=${first#??}; exec "${first%% *}" -'

    found = report_of(lab.run(python, stdin=outside("open").encode()))

    seen_from_outside = {UNHEARD, UNTOUCHED}
    attacks = {item.name for item in ATTEMPTS if item.kind == ATTACK and item.where == SANDBOX} - {BOMB}
    for network, passes in PASSES_ANYHOW.items():
        verdicts = {name: found[network].get(name) for name in attacks | seen_from_outside}
        assert verdicts == {name: PASS if name in passes else FAIL for name in verdicts}, network
