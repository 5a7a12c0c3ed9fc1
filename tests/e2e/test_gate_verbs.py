"""`aisb gate` on real gates: one that serves, one that hangs, one in use."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# A policy of the test's own: its gate is nobody else's.
RUN = "aisb -q --allow gate-verbs.test --allow allowed.test"
NAME = "aisb --allow gate-verbs.test --allow allowed.test -- true 2>&1 | sed -n 's/.*; gate \\([0-9a-f]*\\) .*/\\1/p'"


def test_a_gate_that_serves_and_one_that_hangs(lab: Lab) -> None:
    """Its own proof tells them apart: squid is asked, past the gate's own judgement. A new run has a new gate."""
    result = lab.run(f"""
gate=$({NAME})
aisb gate status $gate; echo $?
aisb gate logs --all $gate | grep bridge; aisb gate logs $gate 2>&1
podman unshare kill -STOP $(podman top aisb-gate-$gate hpid comm | sed -n 's/ *squid$//p')
aisb gate status $gate; echo $?
aisb gate down $gate 2>&1; echo $?
aisb gate status $gate; echo $?
{RUN} -- curl -sS https://allowed.test/ >/dev/null; echo $?
aisb gate down $gate 2>&1
""")

    text = re.sub(r"[0-9a-f]{12}", "GATE", re.sub(r"up [0-9]+s", "up TIME", result.text))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:3] == ["GATE  proved   2 entries  no run  up TIME", "0", "bridge: ready"], result.errors
    # squid speaks much of its start, and of no trouble.
    assert lines[3] == "aisb: gate GATE: no trouble; all that it has said: aisb gate logs --all GATE"
    hangs = lines.index("GATE  wedged   2 entries  no run  up TIME")
    assert lines[hangs + 1].startswith("the gate says: the gate does not pass its own probe: squid did not answer")
    assert lines[lines.index("69") :] == [
        "69",
        "aisb: gate GATE ended",
        "0",
        "GATE  ended    2 entries  no run",
        "0",
        "0",
        "aisb: gate GATE ended",
    ]


def test_a_gate_that_a_run_uses_stays_and_ended_all_the_same_nothing_is_reached(lab: Lab) -> None:
    """Closed, not open."""
    result = lab.run(f"""
gate=$({NAME})
mkfifo go
{RUN} -- sh -c 'echo up; read line <go; curl -sS -m 5 -o /dev/null https://allowed.test/; echo "curl $?"' >out 2>err &
until [ -s out ]; do sleep 0.02; done
aisb gate status $gate
aisb gate down $gate 2>&1; echo $?
aisb gate down --all $gate 2>&1; echo $?
echo >go; wait
cat out
""")

    lines = re.sub(r"[0-9a-f]{12}", "GATE", result.text).splitlines()
    assert re.fullmatch(r"GATE  proved   2 entries  runs [0-9a-f]{8}  up [0-9]+s", lines[0]), (
        result.text + result.errors
    )
    assert lines[1:6] == [
        "aisb: gate GATE stays: a run uses it; end it all the same: --all",
        "69",
        "aisb: gate GATE ended",
        "0",
        "up",
    ]
    assert lines[6] in {"curl 7", "curl 35", "curl 56", "curl 28"}
    assert lab.sinks("request", sink="allowed.test") == []


UP = """
mkdir .ai-sandbox; echo $OWN >.ai-sandbox/allow
aisb gate up --allow allowed.test </dev/null 2>/dev/null; echo $?
hash=$(aisb trust --show 2>&1 | grep -oE '[0-9a-f]{64}' | head -1)
aisb gate up --allow allowed.test --trust-once $hash
aisb gate up --allow allowed.test --trust-once $hash
aisb --allow allowed.test --trust-once $hash -- true 2>&1 | grep -o 'gate [0-9a-f]* [a-z]*'
aisb gate down $(aisb gate up --allow allowed.test --trust-once $hash | cut -d' ' -f1) 2>/dev/null
aisb gate up --allow allowed.test --trust-once $hash | sed 's/^[0-9a-f]* //'
"""


def test_a_gate_that_is_up_beforehand_is_the_runs(lab: Lab) -> None:
    """By the project's files too, once they are trusted. No gate of such a policy was there before."""
    result = lab.run(UP, env={"OWN": f"{secrets.token_hex(8)}.test"})

    code, first, second, run, after = result.text.splitlines()
    name = first.removesuffix(" started")
    assert (code, second, run, after) == ("78", f"{name} was there", f"gate {name} warm", "started"), result.errors
    assert re.fullmatch(r"[0-9a-f]{12}", name)
