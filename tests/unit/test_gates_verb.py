"""`aisb gate`: what is said of gates, and which of them go."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest

from aisb.cli.gate import _for_a_gate
from aisb.domain.gates import ENDED, PROVED, WEDGED, GateSeen, chosen, count_entries, troubles
from aisb.domain.policy import HOSTS_HINT
from aisb.effects.gates import end_gate_container, log_of, look_at_gates
from aisb.effects.process import Finished
from aisb.effects.session import open_session
from aisb.errors import UsageError
from aisb.render.gates import duration, status_json, status_lines
from tests.fakes import FakeRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "0123456789abcdef" * 4
NAME = KEY[:12]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def runtime() -> Iterator[str]:
    """A socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="gates-") as directory:
        yield directory


def make(runtime: str, name: str = NAME, *, owner: str = "", policy: str = "{}") -> str:
    directory = f"{runtime}/g/{name}"
    os.makedirs(f"{directory}/conf")
    files = {"key": KEY, "log": "bridge: ready\n", "conf/policy.json": policy, **({"owner": owner} if owner else {})}
    for path, text in files.items():
        with open(f"{directory}/{path}", "w") as file:
            file.write(text)
    return directory


def serve(directory: str, *answers: dict[str, object]) -> threading.Thread:
    """A control socket that looks like a gate's: the first connection only looks whether it is there."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{directory}/ctl.sock")
    listener.listen()

    def run() -> None:
        with listener:
            listener.accept()[0].close()
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_each_gate_is_asked_to_prove_itself(runtime: str) -> None:
    """One whose socket nobody listens at has ended; one that is being made is none yet."""
    policy = json.dumps({"names": [1, 2], "addresses": [1], "host_ports": [], "rules": [], "injections": [1, 1]})
    fine, bad, over = make(runtime, policy=policy), make(runtime, "b" * 12, owner="0000aaaa"), make(runtime, "c" * 12)
    os.makedirs(f"{runtime}/g/{'d' * 12}")
    session = open_session(f"{fine}/r", "0000bbbb", {}, "")
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(f"{over}/ctl.sock")
    threads = [serve(fine, {"ok": True, "proved": True}), serve(bad, {"ok": False, "error": "squid did not answer"})]

    found = look_at_gates(runtime)

    for thread in threads:
        thread.join()
    assert [(gate.name, gate.state, gate.runs, gate.allows, gate.container) for gate in found] == [
        (NAME, PROVED, (session.run,), 3, f"aisb-gate-{NAME}"),
        ("b" * 12, WEDGED, (), 0, f"aisb-gate-{NAME}-0000aaaa"),
        ("c" * 12, ENDED, (), 0, f"aisb-gate-{NAME}"),
    ]
    assert [gate.fault.splitlines()[:1] for gate in found] == [[], ["the gate says: squid did not answer"], []]
    assert log_of(found[0]) == "bridge: ready\n"


def test_where_there_was_never_a_gate_there_is_none(runtime: str) -> None:
    assert look_at_gates(runtime) == []
    assert status_lines([]) == ["no gate is there: the next run starts one"]


def test_a_gate_in_use_stays_unless_it_is_said(runtime: str) -> None:
    """A run holds the lock for as long as it lives."""
    directory = make(runtime)
    gate = GateSeen(NAME, f"aisb-gate-{NAME}", directory, PROVED)
    runner = FakeRunner(Finished(0), Finished(0))
    held = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_SH)

    stays = end_gate_container("podman", gate, runner, in_use=False)
    forced = end_gate_container("podman", gate, runner, in_use=True)
    os.close(held)
    goes = end_gate_container("podman", gate, runner, in_use=False)

    assert (stays, forced, goes) == ("a run uses it", "", "")
    command = ("podman", "rm", "--force", "--time", "0", "--ignore", f"aisb-gate-{NAME}")
    assert runner.argvs == [command, command]


GATES = [
    GateSeen("aa0000000000", "", "", PROVED, runs=("0000bbbb", "0000cccc"), allows=2, seconds=200),
    GateSeen("ab0000000000", "", "", WEDGED, fault="the gate says: no\x1b\nmore", allows=1, seconds=7300),
    GateSeen("b00000000000", "", "", ENDED),
]


def test_the_status_is_a_line_a_gate_with_what_is_wrong_below() -> None:
    assert status_lines(GATES) == [
        "aa0000000000  proved   2 entries  runs 0000bbbb, 0000cccc  up 3m",
        "ab0000000000  wedged     1 entry  no run  up 2h",
        r"              the gate says: no\x1b",
        "              more",
        "b00000000000  ended    0 entries  no run",
    ]
    assert status_json(GATES[:1]) == {
        "gates": [
            {
                "name": "aa0000000000",
                "container": "",
                "directory": "",
                "state": "proved",
                "fault": "",
                "runs": ("0000bbbb", "0000cccc"),
                "allows": 2,
                "seconds": 200,
            }
        ],
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0.4, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (86399, "23h"), (9e5, "10d")],
)
def test_a_time_is_said_as_people_say_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


WELL = """
2026/03/01 11:00:00| Processing Configuration File: /run/aisb/conf/squid.conf (depth 0)
2026/03/01 11:00:00| Created PID file (/run/squid/squid.pid)
2026/03/01 11:00:00 kid1| Starting Squid Cache version 6.13 for x86_64-pc-linux-gnu...
2026/03/01 11:00:00 kid1| WARNING: no_suid: setuid(0): (1) Operation not permitted
2026/03/01 11:00:00 kid1| With 16384 file descriptors available
2026/03/01 11:00:00| Adding nameserver 203.0.113.53 from /etc/resolv.conf
2026/03/01 11:00:00| helperOpenServers: Starting 1/1 'python3' processes
2026/03/01 11:00:00| Accepting SSL bumped HTTP Socket connections at conn9 local=127.0.0.1:3129 remote=[::] FD 15 flags=9
    listening port: tls
bridge: ready

2026/03/01 11:00:05| Reconfiguring Squid Cache (version 6.13)...
"""
ILL = """\
2026/03/01 11:00:06| WARNING: All 1/1 rules processes are busy.
2026/03/01 11:00:06 kid1| ERROR: failed to negotiate a TLS connection
2026/03/01 11:00:07| FATAL: The rules helpers are crashing too rapidly, need help!
2026/03/01 11:00:08| Detected DEAD Parent: up
gate: not used as a name server: fe80::1%eth0
Traceback (most recent call last):
  File "/usr/libexec/aisb/gate/bridge.py", line 1, in main
bridge: the gate ends: squid has ended
2026/03/01 11:00:09 a line of something else
"""


def test_of_a_gates_log_the_troubles_are_shown() -> None:
    """What squid says of its start is none; a line that nobody knows is one."""
    assert troubles(WELL) == []
    assert troubles(WELL + ILL + WELL) == ILL.splitlines()


def asked(runtime: str, *words: str) -> tuple[int, str, str]:
    """What `aisb gate` says there, asked by an ordinary user."""
    environ = {"HOME": runtime, "PATH": os.defpath, "XDG_RUNTIME_DIR": runtime, "PYTHONPATH": ROOT}
    user = os.getuid() or 7
    os.chown(f"{runtime}/aisb", user, -1)
    program = f"import os, sys; os.getuid = os.geteuid = lambda: {user}\n"
    program += "from aisb.effects import state; state._runtime_directory = lambda environ: environ['XDG_RUNTIME_DIR']\n"
    program += "from aisb.cli.main import main; sys.exit(main(['gate', *sys.argv[1:]]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_gates_that_have_ended_are_counted_unless_they_are_asked_for(runtime: str) -> None:
    """And of a log without trouble that is said, with where the rest is."""
    directory = make(f"{runtime}/aisb")
    ended = f"{NAME}  ended    0 entries  no run\n"

    assert asked(runtime, "status") == (
        0,
        "no gate is there: the next run starts one\n",
        "aisb: 1 gate has ended: aisb gate status --all\n",
    )
    assert asked(runtime, "status", "--all") == asked(runtime, "status", NAME[:4]) == (0, ended, "")
    none = f"aisb: gate {NAME}: no trouble; all that it has said: aisb gate logs --all {NAME}\n"
    assert asked(runtime, "logs") == (0, "", none)
    assert asked(runtime, "logs", "--all") == (0, "bridge: ready\n", "")
    with open(f"{directory}/log", "a") as file:
        file.write("bridge: the gate ends: \x1b\n")
    code, text, said = asked(runtime, "logs", "--json")
    assert (code, json.loads(text), said) == (
        0,
        {"version": 1, "gate": NAME, "lines": ["bridge: the gate ends: \\x1b"]},
        "",
    )


def test_a_gate_is_named_by_how_its_name_begins() -> None:
    assert chosen(GATES, []) == GATES
    assert chosen(GATES, ["ab", "b"]) == GATES[1:]
    for name, what in (("a", "more than one gate"), ("c", "no gate"), ("aa00000000001", "no gate")):
        with pytest.raises(UsageError, match=what):
            chosen(GATES, [name])


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "7", '{"names": 7}'])
def test_a_policy_that_cannot_be_read_has_no_entries(text: str) -> None:
    assert count_entries(text) == 0


def test_where_nothing_is_allowed_the_flag_of_this_verb_is_proposed() -> None:
    """A gate has no --net to say."""

    def hint(of_a_run: str) -> str:
        with pytest.raises(UsageError, match="nothing") as refused, _for_a_gate():
            raise UsageError("nothing", hint=of_a_run)
        return refused.value.hint

    assert hint(HOSTS_HINT) == "write: aisb gate up --allow llm.example.com"
    assert hint("another") == "another"
