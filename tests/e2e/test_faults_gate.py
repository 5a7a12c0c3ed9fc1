"""A gate that dies while sandboxes use it: they are without network, a new run has a new gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

INSIDE = """
probe() { curl -sS -o /dev/null -w '%{http_code}' --max-time 10 "$@" 2>>errors || echo " failed"; }
echo "before: $(probe https://allowed.test/) $(probe --noproxy '*' https://allowed.test/)"
touch up; until [ -e killed ]; do sleep 0.05; done
started=$(date +%s)
echo "explicit: $(probe https://allowed.test/) $(probe http://allowed.test/) $(probe https://evil.test/)"
echo "transparent: $(probe --noproxy '*' https://allowed.test/) $(probe --noproxy '*' http://203.0.113.11/)"
getent ahosts new.allowed.test || echo "no name"
[ $(($(date +%s) - started)) -lt 10 ] && echo "at once"
touch closed; until [ -e again ]; do sleep 0.05; done
echo "after: $(probe https://allowed.test/) $(probe --noproxy '*' https://evil.test/)"
exit 7
"""
# A gate of the test's own: how long it stays is part of what a gate is made of.
RUN = """
aisb --allow allowed.test --gate-idle 77 -- sh -c "$INSIDE" >said 2>words &
until [ -e up ]; do kill -0 $! || { cat words; exit 9; }; sleep 0.02; done
gate=$(sed -n 's/.*gate \\([0-9a-f]*\\) .*/aisb-gate-\\1/p' words)
bridge=$(podman inspect --format '{{.State.Pid}}' $gate)
%s
while podman container exists $gate; do sleep 0.05; done
until grep -q '^aisb: warning: the gate of this run has ended' words; do kill -0 $! || exit 7; sleep 0.02; done; echo told
touch killed; until [ -e closed ]; do kill -0 $! || exit 8; sleep 0.02; done
aisb -q --allow allowed.test --gate-idle 77 -- curl -sS https://allowed.test/
touch again; wait $!; echo "exit $?"
cat said
podman rm -f --time 0 $gate >/dev/null
"""


@pytest.mark.parametrize(
    "blow",
    [
        pytest.param("podman kill --signal KILL $gate >/dev/null", id="the container"),
        pytest.param("kill -9 $bridge", id="the bridge"),
        pytest.param("podman unshare kill -9 $(pgrep -P $bridge)", id="squid"),
    ],
)
def test_without_its_gate_a_sandbox_is_closed(lab: Lab, blow: str) -> None:
    """C44: it is told, nothing is reached, and nothing hangs; the next run has a gate again, the old one's sandbox has not."""
    result = lab.run(RUN % blow, env={"INSIDE": INSIDE})

    assert result.text.splitlines() == [
        "told",
        "hello from allowed.test",
        "exit 7",
        "before: 200 200",
        "explicit: 000 failed 502 000 failed",
        "transparent: 000 failed 502",
        "no name",
        "at once",
        "after: 000 failed 000 failed",
    ]
    assert [request["sink"] for request in lab.sinks("request")] == 3 * ["allowed.test"]
    assert lab.sinks(sink="evil.test") == []
