"""The gate's life as runs see it: lists that overlap, starts under load, late and dead gates, several runs at once."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import asked, needs_sinks, requested

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

_GATE = re.compile(r"gate ([0-9a-f]{12}) (warm|started)$", re.MULTILINE)

# A podman whose gates are another program: $1 takes the place of the gate's own.
SHIM = """
mkdir ~/shim && cat >~/shim/podman <<'END'
#!/bin/sh
case " $* " in
    *" --label=aisb.role=gate "*) %s ;;
esac
exec /usr/bin/podman "$@"
END
chmod +x ~/shim/podman && export PATH="$HOME/shim:$PATH"
"""

KEY = "sed -n 's/.*gate \\([0-9a-f]*\\) .*/\\1/p' said"


def new_name() -> str:
    """A name that no gate knows yet: the first run with it starts one."""
    return f"n{secrets.token_hex(4)}.allowed.test"


def gates(text: str) -> list[tuple[str, str]]:
    """Key and state of each gate that aisb has spoken of."""
    return _GATE.findall(text)


def test_entries_that_overlap_are_one_list(lab: Lab) -> None:
    """In every order, doubled, in capitals and with a final dot: one gate, which starts. (C08)"""
    name = new_name()
    lists = (
        f"api.{name},{name}",
        f"{name},api.{name}",
        f"{name},{name}",
        f"API.{name}.,{name.upper()},exact:{name},*.{name}",
    )
    command = "".join(f"aisb --allow '{entries}' -- curl -sS https://api.{name}/; " for entries in lists)

    result = lab.run(command)

    assert result.text == "hello from allowed.test\n" * len(lists)
    assert [state for _, state in gates(result.errors)] == ["started", "warm", "warm", "warm"]
    assert len({key for key, _ in gates(result.errors)}) == 1


def test_entries_that_overlap_in_part_are_no_trouble(lab: Lab) -> None:
    """A name below another one with a port of its own; a name and what is below it apart. (C08)"""
    name = new_name()
    lists = (f"api.{name}:5432,{name}", f"exact:{name},below:{name},{name}:5432,api.{name}:22")
    command = "".join(f"aisb --allow {entries} -- curl -sS https://api.{name}/; " for entries in lists)

    result = lab.run(command)

    assert result.text == "hello from allowed.test\n" * len(lists)
    assert [state for _, state in gates(result.errors)] == ["started", "started"]


def test_ten_runs_at_once_share_a_gate_that_none_of_them_found(lab: Lab) -> None:
    """The first request of each of them works, though all start together and one has to start the gate. (C43, C47)"""
    name = new_name()
    run = f"aisb --allow {name} -- curl -sS https://{name}/ 2>said"

    result = lab.run(
        f"for number in $(seq 10); do mkdir $number; (cd $number && exec sh -c '{run}') & done; wait; cat */said"
    )

    assert result.text.count("hello from allowed.test\n") == 10
    assert sorted(state for _, state in gates(result.text)) == ["started", *["warm"] * 9]
    assert len({key for key, _ in gates(result.text)}) == 1


def test_a_late_gate_is_waited_for(lab: Lab) -> None:
    """No command runs before its gate is proved. (C43)"""
    name = new_name()

    result = lab.run(f"{SHIM % 'sleep 3'} aisb --allow {name} -- curl -sS https://{name}/")

    assert (result.code, result.text) == (0, "hello from allowed.test\n")
    assert result.seconds > 3


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("echo trouble >/run/aisb/log", ["the gate did not start", "ended", "trouble"], id="ends"),
        pytest.param("echo failed by itself >&3", ["the gate did not start: by itself"], id="fails"),
        pytest.param("echo stuck >/run/aisb/log; exec sleep 60", ["not ready within 20 s", "stuck"], id="hangs"),
    ],
)
def test_a_gate_that_does_not_come_up_ends_the_run(lab: Lab, program: str, words: list[str]) -> None:
    """69, in bounded time, with what the gate wrote; nothing was run, and nothing stays. (C43)"""
    entrypoint = f'shift; set -- run --entrypoint \'["/bin/sh","-c","{program}"]\' "$@"'
    shown = "podman ps -a --format '{{.Names}}' | sort"

    result = lab.run(
        f"{SHIM % entrypoint} {shown} >before; aisb --allow {new_name()} -- touch ran; echo $?; ls; {shown} | diff before -"
    )

    assert result.text.split() == ["69", "before"]
    assert [word for word in words if word not in result.errors] == []
    assert result.seconds < 30


def test_a_changed_list_has_a_gate_of_its_own(lab: Lab) -> None:
    """In one project, while the run with the old list goes on: neither run has the other's names. (C46, C47)"""
    old, new = new_name(), new_name()
    tries = f"for name in {old} {new}; do curl -sS http://$name/$0 | head -n 1; done"

    result = lab.run(
        f"mkfifo up go; (exec aisb --allow {old} -- sh -c 'echo >up; read -r _ <go; {tries}' old) & read -r _ <up\n"
        f"aisb --allow {new} -- sh -c '{tries}' new; echo >go; wait"
    )

    denied = "403 Access denied by egress policy"
    assert result.text.splitlines() == [denied, "hello from allowed.test", "hello from allowed.test", denied]
    assert requested(lab) == [
        f"allowed.test GET http://{name}/{path}" for name, path in sorted([(old, "old"), (new, "new")])
    ]
    assert len({key for key, _ in gates(result.errors)}) == 2


def test_a_gate_ends_when_nobody_needs_it(lab: Lab) -> None:
    """After its idle time, by itself; the next run starts another. (C46)"""
    name = new_name()
    run = f"aisb --gate-idle 1 --allow {name} -- curl -sS http://{name}/ 2>&1"

    result = lab.run(f"{run} | tee said; podman wait aisb-gate-$({KEY}) 2>&1; {run}")

    # As podman says it of the gate that has ended.
    assert "0" in result.text.split("\n")
    assert [state for _, state in gates(result.text)] == ["started", "started"]


# The run that lives through its gate's death, told when by a pipe.
SURVIVOR = """
echo >up; read -r _ <go
curl -sS --max-time 1 http://$0/
curl -sS --max-time 1 https://$0/ 2>/dev/null; echo tunnel $?
timeout 1 getent hosts $0; echo look-up $?
unset http_proxy https_proxy HTTPS_PROXY
curl -sS --max-time 1 http://203.0.113.10/
curl -sS --max-time 1 https://203.0.113.10/ 2>/dev/null; echo direct $?
"""


def test_a_dead_gate_leaves_no_network_and_is_replaced(lab: Lab) -> None:
    """Killed under a run: its sandbox is refused at once and told why, and the next run has a gate again. (C46)"""
    name = new_name()

    result = lab.run(
        f'mkfifo up go; (exec aisb --allow {name} -- sh -c "$SURVIVOR" {name} 2>said) & read -r _ <up\n'
        f"squid=$(podman top aisb-gate-$({KEY}) hpid comm | sed -n 's/ *squid$//p')\n"
        f"podman unshare kill -9 $squid; podman wait aisb-gate-$({KEY}) >/dev/null\n"
        f"echo >go; wait; aisb -q --allow {name} -- curl -sS http://{name}/",
        env={"SURVIVOR": SURVIVOR},
    )

    told = "aisb: the gate does not answer; this sandbox has no network until it is started again"
    *lines, answer = result.text.splitlines()
    # Reset before or after curl has noticed that it was connected.
    cut = lines.pop()
    assert (lines, cut in {"direct 7", "direct 35"}, answer) == (
        [told, "tunnel 56", "look-up 2", told],
        True,
        "hello from allowed.test",
    )
    assert asked(lab) <= {name}


def test_a_gate_whose_squid_hangs_begins_no_run(lab: Lab) -> None:
    """It listens, and passes nothing: in bounded time a sentence, and no command; when it goes on it is good again. (C45)"""
    name = new_name()

    result = lab.run(
        f"aisb --allow {name} -- true 2>said\n"
        f"squid=$(podman top aisb-gate-$({KEY}) hpid comm | sed -n 's/ *squid$//p')\n"
        f"podman unshare kill -STOP $squid; aisb --allow {name} -- touch ran; echo $?; ls\n"
        f"podman unshare kill -CONT $squid; aisb -q --allow {name} -- curl -sS http://{name}/"
    )

    assert result.text == "77\nsaid\nhello from allowed.test\n", result.errors
    assert "aisb: refused to run unprotected: " in result.errors
    assert requested(lab) == [f"allowed.test GET http://{name}/"]
