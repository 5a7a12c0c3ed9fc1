"""The life of the sandbox that the host's pi has: its begin, deaths of every kind, its end, and what it may reach."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.pi_host import host_pi, texts

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

BASH = ["bash", {"command": "echo made by the tool >by-target.txt; id -u"}]
# One call of each tool, on something that the host has.
EACH = [
    ["read", {"path": "read-target.txt"}],
    ["write", {"path": "write-target.txt", "content": "x"}],
    ["edit", {"path": "read-target.txt", "edits": [{"oldText": "one", "newText": "x"}]}],
    ["ls", {}],
    ["grep", {"pattern": "one"}],
    ["find", {"pattern": "*"}],
    BASH,
]
FILES = {"read-target.txt": "one\n"}
# Everything of runs: containers, volumes, directories; those of gates stay, which is theirs to do.
STATE = """
state() {
    {
        podman ps -a --format '{{.Names}}' | grep -v gate
        podman volume ls --format '{{.Name}}'
        ls $XDG_RUNTIME_DIR/aisb/r $XDG_RUNTIME_DIR/aisb/g/*/r 2>/dev/null | grep -E '^[0-9a-f]{8}$'
    } | LC_ALL=C sort
}
"""
KEEP = f"{STATE} state >~/before"
# Until nothing is there that was not there before; else what that is. What others left may go meanwhile.
GONE = f"""
{STATE}
for turn in $(seq 300); do
    state >~/after
    LC_ALL=C comm -13 ~/before ~/after >~/new
    [ -s ~/new ] || exec echo gone
    sleep 0.2
done
cat ~/new
"""


def refused(report: dict[str, Any], results: list[dict[str, Any]], words: str) -> None:
    """Every one of these calls has failed with these words, and nothing was executed or touched on the host."""
    assert [(result["error"], words in result["text"]) for result in results] == [(True, True)] * len(results), results
    assert report["seen"]["file"] == []
    assert {line.rpartition("/")[2] for line in report["seen"]["program"]} <= {"aisb serve"}
    assert not {"write-target.txt", "by-target.txt"} & set(report["left"])


def test_a_session_leaves_nothing_behind(lab: Lab) -> None:
    """
    Containers, volumes and directories are as before; each session has a sandbox of its own: what was in the old one's
    /tmp is gone, and the project is not.
    """
    running = ["shell", "podman ps -q --filter name=aisb-run-$RUN"]
    mark = ["bash", "touch /tmp/mark kept; ls /tmp/mark kept", False]
    look = ["bash", "ls /tmp/mark kept", False]
    alone = ["shell", "pgrep -c -P $PI_PID -f 'aisb serve'"]
    steps = [
        ["hear", "tools run in sandbox"],
        ["tools", [BASH]],
        running,
        mark,
        ["session"],
        look,
        alone,
        ["close"],
        ["shell", GONE],
    ]

    report = host_pi(lab, files=FILES, before=KEEP, steps=steps)

    _, results, running_then, before, _, after, serving, code, gone = report["steps"]
    assert texts(results) == ["1000\n"]
    assert running_then["out"].strip() != ""
    assert before["exitCode"] == 0
    assert "kept" in after["output"]
    assert "/tmp/mark': No such file" in after["output"]
    assert serving["out"] == "1\n"
    assert (code, gone["out"]) == (0, "gone\n")
    assert report["footers"][0] == "sandbox: starting"
    assert "no network" in report["footers"][1]


def test_what_became_of_files_is_told_when_the_next_session_begins_or_pi_ends(lab: Lab) -> None:
    """A repository that was planted is obeyed by the next `git status` on the host, and nobody else would say so."""

    def plant(name: str) -> list[object]:
        return ["bash", {"command": f"git init -q {name} && git -C {name} config core.fsmonitor ./x && echo done"}]

    told = "/.git is new, and git on this machine obeys what is in it: core.fsmonitor=./x; to undo it: rm -rf "
    steps = [
        ["hear", "tools run in sandbox"],
        ["tools", [plant("one")]],
        ["session"],
        ["hear", f"/one{told}"],
        ["tools", [plant("two")]],
        ["close"],
    ]

    report = host_pi(lab, steps=steps)

    assert [texts(report["steps"][step]) for step in (1, 4)] == [["done\n"], ["done\n"]]
    assert [f"/{name}{told}" in report["errors"] for name in ("one", "two")] == [False, True]


# The words of the record of the first run, once they are there.
ON_RECORD = """
for turn in $(seq 300); do
    aisb inspect $(cat ~/first) | grep -o '/[^" ]*/files' >~/files && exec cat $(cat ~/files)
    sleep 0.2
done
"""


@pytest.mark.parametrize("victim", ["container", "aisb"])
def test_what_a_sandbox_that_died_has_left_is_told_or_on_record(lab: Lab, victim: str) -> None:
    """The one in its place finds it there. pi's user hears of it from aisb; of an aisb that was killed its record tells."""
    kill = {"container": "podman kill aisb-run-$RUN", "aisb": "kill -9 $(pgrep -P $PI_PID -f 'aisb serve')"}[victim]
    told = "/one/.git is new, and git on this machine obeys what is in it: core.fsmonitor=./x; to undo it: rm -rf "
    plant = ["bash", {"command": "git init -q one && git -C one config core.fsmonitor ./x && echo done"}]
    steps = [
        ["hear", "tools run in sandbox"],
        ["tools", [plant]],
        ["shell", f"echo $RUN >~/first; {kill}"],
        ["hear", "the sandbox died and is started again" if victim == "aisb" else told],
        ["tools", [BASH]],
        ["shell", ON_RECORD],
        ["close"],
    ]

    report = host_pi(lab, steps=steps)

    _, planted, _, _, again, record, _ = report["steps"]
    assert (texts(planted), texts(again)) == (["done\n"], ["1000\n"])
    assert told in record["out"]
    assert any(told in text for text in report["said"]) == (victim == "container")


def test_a_container_that_is_killed_is_started_once_more(lab: Lab) -> None:
    """What was running fails, and says so; the next call runs in the new one. After the second death every call fails."""
    long = ["bash", "touch begun; sleep 4242", False]
    killed = ["shell", "until [ -e begun ]; do sleep 0.1; done; podman kill --signal KILL aisb-run-$RUN; rm begun"]
    steps = [
        ["hear", "tools run in sandbox"],
        ["parallel", [long, killed]],
        ["tools", [BASH]],
        ["shell", "rm by-target.txt; podman kill --signal KILL aisb-run-$RUN"],
        ["hear", "nothing can be run"],
        ["tools", EACH],
        ["bash", "touch by-target.txt", False],
    ]

    report = host_pi(lab, files=FILES, steps=steps)

    _, (running, _), again, _, _, dead, user = report["steps"]
    assert running["success"] is False
    assert texts(again) == ["1000\n"]
    assert any("the sandbox died and is started again" in text for text in report["said"])
    refused(report, dead, "There is no sandbox, so nothing was run")
    assert user["success"] is False
    assert report["footers"][-1] == "NO SANDBOX: nothing can be run"


@pytest.mark.parametrize("victim", ["pi", "aisb"])
def test_killed_without_a_word(lab: Lab, victim: str) -> None:
    """kill -9 of pi takes the sandbox along; kill -9 of aisb too, and pi starts another one (C59)."""
    kill = "kill -9 $PI_PID" if victim == "pi" else "kill -9 $(pgrep -P $PI_PID -f 'aisb serve')"
    steps = [["hear", "tools run in sandbox"], ["tools", [BASH]], ["shell", kill]]
    # A call that is on its way when aisb dies fails, and says that it may have been done.
    again = [["hear", "the sandbox died"], ["tools", [BASH]]] if victim == "aisb" else []
    after = [*again, ["close"], ["shell", GONE]]

    report = host_pi(lab, before=KEEP, steps=[*steps, *after])

    assert report["steps"][-1]["out"] == "gone\n"
    assert texts(report["steps"][1]) == ["1000\n"]
    if victim == "aisb":
        assert texts(report["steps"][4]) == ["1000\n"]


def test_without_podman_nothing_is_executed(lab: Lab) -> None:
    """Nor without aisb: each tool and both user commands say why."""
    steps = [
        ["tools", EACH],
        ["bash", "touch by-target.txt", False],
        ["bash", "touch by-target.txt", True],
        ["prompt", "/sandbox-status"],
    ]
    without_podman = host_pi(lab, files=FILES, steps=steps, hidden=["podman"])
    without_aisb = host_pi(lab, files=FILES, steps=steps, hidden=["aisb"])

    for report, words in ((without_podman, "podman"), (without_aisb, "aisb is not on PATH")):
        results, shown, hidden, status = report["steps"]
        refused(report, results, words)
        assert (shown["success"], hidden["success"]) == (False, False)
        assert words in shown["error"]
        assert "sandbox: dead" in status[0]
        assert report["footers"][-1] == "NO SANDBOX: nothing can be run"


def test_no_sandbox_is_said_all_the_while(lab: Lab) -> None:
    """The only way to the host."""
    steps = [["tools", [BASH]], ["bash", "id -u", False], ["shell", "id -u"]]

    report = host_pi(lab, steps=steps, flags=["--no-sandbox"])

    results, user, host = report["steps"]
    assert texts(results) == [user["output"]] == [host["out"]]
    assert report["footers"] == ["NO SANDBOX: tools run on this machine"]


POLICY = """
networkPolicies:
  - host: allowed.test
    policies:
      - {action: ALLOW, path: "/.*", method: GET}
"""
CURL = "curl -sS -o /dev/null -w '%{http_code}\\n'"


def test_the_policy_is_the_users_and_what_is_denied_is_told(lab: Lab) -> None:
    """GET passes and POST is refused; the denial comes with what would allow it, and that works once it is agreed to."""
    get, post = f"{CURL} https://allowed.test/", f"{CURL} -d x https://allowed.test/"
    other = f"{CURL} http://cdn.test/"
    steps = [
        ["bash", f"{get}; {post}; {other}", False],
        ["hear", "/sandbox-allow cdn.test"],
        ["prompt", "/sandbox-allow cdn.test"],
        ["bash", other, False],
        ["prompt", "/sandbox-status"],
    ]

    report = host_pi(lab, files={"~/policy.yaml": POLICY}, steps=steps, flags=["--egress-policy=~/policy.yaml"])

    first, told, allowed, second, status = report["steps"]
    assert first["output"].split() == ["200", "403", "403"]
    assert any("denied cdn.test:80" in text for text in told)
    assert "asked: Let the sandbox reach cdn.test?" in report["said"]
    assert allowed[-1].startswith("allowed until this session ends: cdn.test")
    assert second["output"] == "200\n"
    assert "last denied:" in status[0]
    assert [(item["sink"], item["method"]) for item in lab.sinks("request")] == [
        ("allowed.test", "GET"),
        ("cdn.test", "GET"),
    ]
    assert lab.sinks("request", sink="evil.test") == []


@pytest.mark.parametrize("victim", ["container", "aisb"])
def test_what_the_user_agreed_to_outlives_a_sandbox_that_died(lab: Lab, victim: str) -> None:
    """Until the session ends, as was said; what `aisb deny` has closed since is not opened again."""
    kill = {"container": "podman kill aisb-run-$RUN", "aisb": "kill -9 $(pgrep -P $PI_PID -f 'aisb serve')"}[victim]
    both = ["bash", f"{CURL} http://cdn.test/; {CURL} http://evil.test/", False]
    steps = [
        ["prompt", "/sandbox-allow cdn.test"],
        ["prompt", "/sandbox-allow evil.test"],
        both,
        ["shell", "aisb deny evil.test --run $RUN"],
        both,
        ["hear", "the user has closed it for this run"],
        ["shell", kill],
        ["hear", "allowed again, until this session ends: cdn.test"],
        both,
    ]

    report = host_pi(lab, steps=steps, flags=["--sandbox-allow=allowed.test"])

    found = [report["steps"][number]["output"].split() for number in (2, 4, 8)]
    assert found == [["200", "200"], ["200", "403"], ["200", "403"]]
    assert [text for text in report["said"] if "no longer allowed" in text or "allowed again" in text] == [
        "allowed again, until this session ends: cdn.test"
    ]


def test_what_print_mode_tells_is_on_stderr(lab: Lab) -> None:
    """The status once it is there, and that there is no network; without a sandbox pi's exit code is 0 all the same."""
    status = host_pi(lab, mode="print", prompt="/sandbox-status")
    allow = host_pi(lab, mode="print", prompt="/sandbox-allow evil.test")
    none = host_pi(lab, mode="print", prompt=f"CALLS {json.dumps([BASH])}", hidden=["podman"])

    told = status["errors"].splitlines()
    assert "aisb: sandbox: ready" in told
    assert any(line.endswith(": no network; hosts are allowed by: pi --sandbox-allow HOST") for line in told)
    assert "aisb: this session has no network, which stays so: " in allow["errors"]
    assert "There is no sandbox, so nothing was run: " in none["out"]
    assert "aisb: no sandbox, so nothing can be run: " in none["errors"]
    assert [report["exit"] for report in (status, allow, none)] == [0, 0, 0]


def test_what_is_outside_is_named(lab: Lab) -> None:
    """MCP servers and tools of other extensions, at the start and in /sandbox-status; a taken name is blocked."""
    other = """
    export default function (pi) {
      const parameters = { type: "object", properties: {} };
      const execute = async () => ({ content: [{ type: "text", text: "on the host" }], details: undefined });
      const register = (name) => pi.registerTool({ name, label: name, description: name, parameters, execute });
      register("deploy");
      // Of two that do so while they are loaded pi refuses to start.
      pi.on("session_start", () => register("read"));
    }
    """
    files = {"~/other.ts": other, "~/.pi/agent/mcp.json": '{"mcpServers": {"files": {"command": "false"}}}', **FILES}
    steps = [
        ["hear", "outside of the sandbox"],
        ["tools", [["read", {"path": "read-target.txt"}], ["deploy", {}]]],
        ["prompt", "/sandbox-status"],
    ]

    report = host_pi(lab, files=files, steps=steps, flags=["--extension", "~/other.ts"], first=True)

    (said, *_), (read, deploy), (*_, status) = report["steps"]
    for text in (said, status):
        assert "MCP server files: a program on this machine" in text
        assert "other.ts, on this machine: deploy" in text
        assert "another extension has taken read: calls are blocked" in text
    assert (read["error"], "blocked" in read["text"]) == (True, True)
    assert deploy["text"] == "on the host"
