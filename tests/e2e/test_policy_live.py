"""`aisb allow` and `aisb deny`: what a sandbox may reach is changed while it runs, from its host and for it alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.e2e.legs import needs_sinks, requested

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

# begin DIRECTORY FLAG... starts a run there that does what it is asked to; ask DIRECTORY COMMAND has it done, and prints
# what came of it; finish ends all of them.
HELPERS = """
inside='touch ready; while [ ! -e stop ]; do
    if [ -e ask ]; then mv ask asked; sh ./asked >answer.new 2>&1; mv answer.new answer; fi; sleep 0.05; done'
begin() {
    mkdir -p "$1"
    (cd "$1" && rm -f ready stop && shift && exec aisb "$@" -- sh -c "$inside" 2>said) &
    for _ in $(seq 600); do [ ! -e "$1/ready" ] || return 0; sleep 0.1; done
    cat "$1/said"; exit 9
}
put() { printf '%s' "$2" >"$1/ask.new"; mv "$1/ask.new" "$1/ask"; }
answer() { until [ -e "$1/answer" ]; do sleep 0.05; done; cat "$1/answer"; rm "$1/answer"; }
ask() { put "$1" "$2"; answer "$1"; }
finish() { for place; do touch "$place/stop"; done; wait; }
get() { ask "$1" "curl -sS -o /dev/null -w '%{http_code} %{http_connect}\\n' https://$2/ 2>/dev/null"; }
direct() { ask "$1" "env -u https_proxy -u HTTPS_PROXY curl -sS https://$2/ 2>/dev/null || echo refused"; }
"""
OPEN, CLOSED = "200 200", "000 403"


def script(lab: Lab, text: str, timeout: float = 120) -> tuple[list[str], str]:
    """What the script printed, in lines, and its errors."""
    result = lab.run(HELPERS + text, timeout=timeout)
    assert result.code == 0, result.text + result.errors
    return result.text.splitlines(), result.errors


def audit(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_what_is_allowed_while_it_runs_works_at_once_and_in_that_run_alone(lab: Lab) -> None:
    """Refused before, allowed after, by proxy and without; a run beside it on the same gate is still refused."""
    lines, errors = script(
        lab,
        """
        begin one --allow allowed.test; begin other --allow allowed.test
        get one evil.test; direct one evil.test; get other evil.test
        (cd one && aisb allow evil.test)
        get one evil.test; direct one evil.test; get other evil.test; direct other evil.test; get other allowed.test
        grep -ho 'gate [0-9a-f]* ' */said | sort -u | wc -l
        finish one other
        cat ~/.local/state/ai-sandbox/runs/*/audit.jsonl
        """,
    )

    assert lines[:9] == [CLOSED, "refused", CLOSED, OPEN, "hello from evil.test", CLOSED, "refused", OPEN, "1"]
    assert "evil.test is allowed until the run ends\n" in errors
    allowed = [line for line in audit(lines) if line["host"] == "evil.test" and line["decision"] == "allow"]
    assert [line["rule"] for line in allowed] == ["aisb allow evil.test"] * 2
    assert len({line["run"] for line in allowed}) == 1
    assert requested(lab).count("evil.test GET https://evil.test/") == 2


TALK = """python3 - <<'END'
import json, socket, time
count = 0
try:
    client = socket.create_connection(("db.allowed.test", 5432), 20)
    while True:
        client.sendall(b"x")
        if not client.recv(1):
            break
        count += 1
        if count == 5:
            open("talking", "w").close()
        time.sleep(0.02)
except OSError:
    pass
print(json.dumps({"count": count, "ended": time.time()}))
END"""


def test_a_denial_cuts_what_is_open(lab: Lab) -> None:
    """A tunnel in use ends within a second, nothing more reaches the server, and a new one is refused."""
    lines, errors = script(
        lab,
        f"""
        begin one --allow allowed.test,db.allowed.test:5432,cdn.test; begin other --allow allowed.test,db.allowed.test:5432,cdn.test
        put one {quoted(TALK)}; put other {quoted(TALK)}
        until [ -e one/talking ] && [ -e other/talking ]; do sleep 0.05; done
        (cd one && aisb deny allowed.test)
        date +%s.%N
        answer one
        get one allowed.test; get one x.allowed.test; get one cdn.test
        ask one {quoted(TALK)} | tail -n 1
        (cd other && aisb deny db.allowed.test:5432)
        answer other
        get other allowed.test
        finish one other
        """,
    )

    confirmed, ended = float(lines[0]), json.loads(lines[1])
    assert ended["count"] >= 5
    assert ended["ended"] < confirmed + 1
    assert lines[2:5] == [CLOSED, CLOSED, OPEN]
    assert json.loads(lines[5])["count"] == 0
    assert json.loads(lines[6])["count"] > ended["count"]
    assert lines[7] == OPEN
    assert errors.count("is denied until the run ends; 1 connection was ended\n") == 2


def test_nothing_new_arrives_after_a_denial(lab: Lab) -> None:
    lines, _ = script(
        lab,
        f"""
        begin one --allow db.allowed.test:5432
        put one {quoted(TALK)}
        until [ -e one/talking ]; do sleep 0.05; done
        (cd one && aisb deny allowed.test)
        date +%s.%N
        answer one
        finish one
        """,
    )

    arrived = lab.sinks("data", sink="allowed.test")
    assert len(arrived) >= 5
    assert max(float(event["time"]) for event in arrived) < float(lines[0])


def test_a_time_is_over_by_itself(lab: Lab) -> None:
    """No aisb but the run's own is there to end it."""
    lines, errors = script(
        lab,
        """
        begin one --allow allowed.test
        (cd one && aisb allow evil.test --for 3s)
        get one evil.test
        for _ in $(seq 100); do last=$(get one evil.test); [ "$last" != '000 403' ] || break; done
        echo "$last"; get one allowed.test
        finish one
        """,
    )

    assert lines == [OPEN, CLOSED, OPEN]
    assert "evil.test is allowed for 3s\n" in errors


def test_what_is_saved_counts_for_later_runs(lab: Lab) -> None:
    """Written and trusted, with a run and without; lines that somebody else wrote are not trusted along with it."""
    lines, errors = script(
        lab,
        """
        run() { aisb -- curl -sS https://$1/; echo $?; }
        aisb allow allowed.test --save; echo $?
        begin . --project .
        aisb allow cdn.test --save; echo $?
        get . cdn.test
        finish .
        cat .ai-sandbox/allow
        run cdn.test
        echo evil.test >>.ai-sandbox/allow
        aisb allow llm.test --save; echo $?
        run cdn.test
        tail -n 1 .ai-sandbox/allow
        """,
    )

    assert lines == [
        "0", "0", OPEN, "allowed.test", "cdn.test", "hello from cdn.test", "0", "78", "78", "evil.test",
    ]  # fmt: skip
    assert errors.count(".ai-sandbox/allow has changed") == 2


def test_it_has_to_be_clear_which_sandbox_is_meant(lab: Lab) -> None:
    lines, errors = script(
        lab,
        """
        aisb allow evil.test; echo $?
        aisb deny evil.test; echo $?
        aisb allow evil.test --for 1h; echo $?
        begin . --allow allowed.test; mv said first; rm ready
        (exec aisb --allow allowed.test -- sh -c 'touch second; while [ ! -e stop ]; do sleep 0.05; done' 2>said) &
        until [ -e second ]; do sleep 0.1; done
        aisb allow evil.test 2>which; echo $?
        run=$(sed -n 's/.*say which: --run //p' which); echo ${#run}
        aisb allow evil.test --run $run; echo $?
        aisb allow evil.test --run zz; echo $?
        aisb allow 'GET evil.test/x' --run $run; echo $?
        aisb allow 10.0.0.5:5432 --run $run; echo $?
        finish .
        begin none --net none
        (cd none && aisb allow evil.test); echo $?
        finish none
        cat which
        """,
    )

    assert lines[:11] == ["2", "2", "2", "2", "8", "0", "2", "2", "2", "2", lines[10]]
    assert "this project: there are 2 runs: " in lines[10]
    assert errors.count(" is running\n") == 3
    for sentence in (
        "--run zz: there is no run of that id",
        "while a sandbox runs, only names and addresses change",
        "10.0.0.5:5432: an address is opened when a gate starts",
        "has no gate: it was started with another --net",
    ):
        assert sentence in errors


FROM_INSIDE = """
import json, os, shutil, socket, subprocess
entry = {"action": "allow", "host": "evil.test", "match": "tree", "ports": [80, 443], "until": 0}
question = {"op": "say", "run": "RUN", "entries": [entry], "seconds": 0}
found = {"aisb": shutil.which("aisb")}
client = socket.socket(socket.AF_UNIX)
client.connect("/run/aisb/gate/gate.sock")
client.sendall(json.dumps(question).encode() + b"\\n\\r\\n\\r\\n")
found["socket"] = client.recv(65536).split(b"\\r\\n")[0].decode()
for path in ("/run/aisb/policy.json", "/run/aisb/live.json", "/run/aisb/gate/live.json", "/run/aisb/gate/new"):
    try:
        open(path, "a").close()
        found[path] = "written"
    except OSError as error:
        found[path] = "refused"
found["sockets"] = subprocess.run(
    ["find", "/", "-xdev", "-name", "ctl.sock"], capture_output=True, text=True
).stdout + subprocess.run(["find", "/run", "-name", "*.sock"], capture_output=True, text=True).stdout
found["policy"] = json.load(open("/run/aisb/policy.json"))["names"][0]["host"]
print(json.dumps(found))
"""


def test_nothing_inside_can_change_it(lab: Lab) -> None:
    """There is no aisb, no control socket, and nothing to write; the sandbox's own socket takes no such words."""
    lines, _ = script(
        lab,
        f"""
        begin one --allow allowed.test
        cat >one/try.py <<'END'\n{FROM_INSIDE}\nEND
        ask one 'python3 try.py'
        get one evil.test
        (cd one && aisb allow evil.test)
        ask one "grep -c evil.test /run/aisb/policy.json"
        finish one
        """,
    )

    assert json.loads(lines[0]) == {
        "aisb": None,
        "socket": "HTTP/1.1 400 Bad request: bad-request",
        "/run/aisb/policy.json": "refused",
        "/run/aisb/live.json": "refused",
        "/run/aisb/gate/live.json": "refused",
        "/run/aisb/gate/new": "refused",
        "sockets": "/run/aisb/gate/gate.sock\n",
        "policy": "allowed.test",
    }
    # What the run began with stays what is written there.
    assert lines[1:] == [CLOSED, "0"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_no_yes_without_the_gate(lab: Lab) -> None:
    """A squid that does not answer: 69, what to do, and the permission is taken back."""
    lines, errors = script(
        lab,
        """
        begin one --allow allowed.test
        gate=$(sed -n 's/.*gate \\([0-9a-f]*\\) .*/\\1/p' one/said)
        squid=$(pgrep -x -P "$(podman inspect --format '{{.State.Pid}}' "aisb-gate-$gate")" squid)
        podman unshare kill -STOP "$squid"
        (cd one && aisb allow evil.test); echo $?
        podman unshare kill -CONT "$squid"
        get one allowed.test; get one evil.test
        finish one
        """,
    )

    assert lines == ["69", OPEN, CLOSED]
    assert "evil.test is not allowed in run" in errors
