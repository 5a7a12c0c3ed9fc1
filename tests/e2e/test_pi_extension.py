"""The host's pi with the extension: its seven tools and the user's commands execute in the sandbox, and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.pi_host import PICTURE, host_pi, texts

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# Each name holds the word that the canary looks for.
FILES = {
    "read-target.txt": "one\ntwo\n",
    "picture-target.txt": f"base64:{PICTURE}",
    "edit-target.txt": "old text\r\nkept\r\n",
    "ls-target/entry.txt": "",
    "ls-target/below/x": "",
    "grep-target/a.txt": "before\na needle\nafter\n",
    "find-target/sub/found.py": "",
    "find-target/.gitignore": "ignored.py\n",
    "find-target/ignored.py": "",
}
WHERE = 'id -u; pwd; echo $HOME; echo "secret=$HOST_SECRET"'
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read", {"path": "read-target.txt"}),
    "image": ("read", {"path": "picture-target.txt"}),
    "write": ("write", {"path": "made/write-target.txt", "content": "made\n"}),
    "edit": ("edit", {"path": "edit-target.txt", "edits": [{"oldText": "old text", "newText": "new text"}]}),
    "ls": ("ls", {"path": "ls-target"}),
    "grep": ("grep", {"pattern": "needle", "path": "grep-target", "context": 1}),
    "find": ("find", {"pattern": "*.py", "path": "find-target"}),
    "bash": ("bash", {"command": f"{WHERE}; cat read-target.txt >bash-target.txt"}),
}
ALL = ["tools", list(TOOLS.values())]
SECRET = {"HOST_SECRET": "of the host"}


def programs(report: dict[str, Any]) -> set[str]:
    """Names of what pi itself has started."""
    return {path.rpartition("/")[2] for path in report["seen"]["program"]}


@pytest.fixture
def control(lab: Lab) -> dict[str, Any]:
    """The same without the extension: what the canary then sees of each tool."""
    steps = [ALL, ["bash", "true", False]]
    return host_pi(lab, with_extension=False, files=FILES, steps=steps, variables=SECRET)


def test_seven_tools_and_the_users_commands_execute_inside(lab: Lab, control: dict[str, Any]) -> None:
    """Offline; the results are pi's own; no file of the tools is touched by the host's pi, and only aisb is started."""
    steps = [ALL, ["bash", WHERE, False], ["bash", WHERE, True], ["shell", "id -u; pwd"]]

    report = host_pi(lab, files=FILES, steps=steps, variables=SECRET)

    results, shown, hidden, host = report["steps"]
    told = dict(zip(TOOLS, texts(results), strict=True))
    assert [result["error"] for result in results] == [False] * len(TOOLS), told
    assert told["read"] == "one\ntwo\n"
    assert told["image"] == "Read image file [image/png]<image/png>"
    assert told["write"] == "Successfully wrote to made/write-target.txt"
    assert told["edit"] == "Successfully replaced 1 block(s) in edit-target.txt."
    assert told["ls"] == "below/\nentry.txt"
    assert told["grep"] == "a.txt-1- before\na.txt:2: a needle\na.txt-3- after"
    assert told["find"] == "sub/found.py"
    host_uid, project = host["out"].split()
    assert told["bash"].splitlines() == ["1000", project, "/home/sandbox", "secret="]
    assert host_uid != "1000"
    assert shown["output"] == hidden["output"] == told["bash"]
    assert {"made/write-target.txt", "bash-target.txt"} <= set(report["left"])
    assert report["seen"]["file"] == []
    assert programs(report) == {"aisb"}
    assert report["exit"] == 0
    # What shows that the canary is awake: it sees each tool where there is no extension.
    for name in ("read-target.txt", "picture-target.txt", "write-target.txt", "edit-target.txt", "ls-target"):
        assert any(name in seen for seen in control["seen"]["file"]), name
    assert programs(control) >= {"bash", "rg", "fd"}


@pytest.mark.parametrize("mode", ["print", "json"])
def test_in_print_and_json_mode_too(lab: Lab, mode: str) -> None:
    """Nothing of the tools' files is touched by the host's pi; the results are the same."""
    prompt = f"CALLS {json.dumps(list(TOOLS.values()))}"

    report = host_pi(lab, files=FILES, mode=mode, prompt=prompt, variables=SECRET)

    assert report["exit"] == 0, report["errors"]
    lines = report["out"].splitlines()
    answer = lines[-1] if mode == "print" else json.loads(next(line for line in lines if '"agent_end"' in line))
    said = answer if isinstance(answer, str) else answer["messages"][-1]["content"][0]["text"]
    told = json.loads(said)
    assert told[0] == "one\ntwo\n"
    assert told[5] == "a.txt-1- before\na.txt:2: a needle\na.txt-3- after"
    assert told[7].splitlines()[0] == "1000"
    assert report["seen"]["file"] == []
    assert programs(report) == {"aisb"}


def test_paths_outside_of_the_mount_are_the_sandboxs_own(lab: Lab) -> None:
    """A file of the host's is not there, by whatever tool; what the sandbox has of that name is what is read."""
    home = {"path": "~/host-target.txt"}
    calls = [
        ["read", home],
        ["read", {"path": "/etc/hostname-target"}],
        ["edit", {**home, "edits": [{"oldText": "host", "newText": "x"}]}],
        ["ls", {"path": "~/host-target"}],
        ["grep", {"pattern": "host", "path": "~/host-target"}],
        ["find", {"pattern": "*", "path": "~/host-target"}],
        ["write", {**home, "content": "inside"}],
        ["read", home],
        ["bash", {"command": "cat ~/host-target.txt; ls -a /etc/passwd"}],
    ]
    files = {"~/host-target.txt": "the host's", "~/host-target/x": "the host's"}
    steps = [["tools", calls], ["shell", "cat ~/host-target.txt"]]

    report = host_pi(lab, files=files, steps=steps)

    results, host = report["steps"]
    assert [result["error"] for result in results] == [True] * 6 + [False] * 3, texts(results)
    assert "ENOENT" in results[0]["text"]
    assert texts(results)[7:] == ["inside", "inside/etc/passwd\n"]
    assert host["out"] == "the host's"
    assert report["seen"]["file"] == []


def test_large_output_streams_and_is_kept_inside(lab: Lab) -> None:
    """The model is told where all of it is, and finds it there; none of it is left on the host."""
    steps = [
        ["tools", [["bash", {"command": "seq 1 2000000"}]]],
        ["shell", "ls /tmp | grep pi-bash; true"],
        ["bash", "f=$(ls /tmp/pi-bash-*.log) && wc -l <$f && tail -n 1 $f", False],
    ]

    report = host_pi(lab, steps=steps)

    results, host, inside = report["steps"]
    assert "Full output: /tmp/pi-bash-" in results[0]["text"]
    assert "\n2000000\n" in results[0]["text"]
    assert host["out"] == ""
    assert inside["output"] == "2000000\n2000000\n"


def test_an_abort_and_a_time_limit_end_everything_that_was_started(lab: Lab) -> None:
    """Within the seconds that pi's user waits for Esc, background processes in sessions of their own included."""
    tree = "setsid sleep 4242 & sleep 4242 & echo started; wait"
    alive = ["bash", "pgrep -c -f '[s]leep 4242'; true", False]
    steps = [["abort", "bash", {"command": tree}], alive, ["tools", [["bash", {"command": tree, "timeout": 2}]]], alive]

    report = host_pi(lab, steps=steps)

    cancelled, after_abort, limited, after_limit = report["steps"]
    assert (cancelled["error"], "Command aborted" in cancelled["text"]) == (True, True), cancelled
    assert cancelled["seconds"] < 10
    assert "Command timed out after 2 seconds" in limited[0]["text"]
    assert "started" in limited[0]["text"]
    assert (after_abort["output"], after_limit["output"]) == ("0\n", "0\n")


def test_calls_side_by_side(lab: Lab) -> None:
    """A command of the user's does not wait for one that is slow: the slow one ends when the quick one says so."""
    slow = ["bash", "until [ -e quick ]; do sleep 0.1; done; echo slow", False]
    steps = [["parallel", [slow, ["bash", "touch quick; echo quick", False]]]]

    report = host_pi(lab, steps=steps)

    assert [one["output"] for one in report["steps"][0]] == ["slow\n", "quick\n"]
