"""The host's pi with the extension: its seven tools and the user's commands execute in the sandbox, and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import NAMES
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
    return {line.split()[0].rpartition("/")[2] for line in report["seen"]["program"]}


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


PROMPT = f"CALLS {json.dumps(list(TOOLS.values()))}"


def executed_inside(report: dict[str, Any], told: list[str]) -> None:
    """What the model was told of each tool, and that the host's pi had no part in it."""
    assert told[0] == "one\ntwo\n"
    assert told[5] == "a.txt-1- before\na.txt:2: a needle\na.txt-3- after"
    assert told[7].splitlines()[0] == "1000"
    assert report["seen"]["file"] == []
    assert programs(report) == {"aisb"}


def test_in_json_mode_too(lab: Lab) -> None:
    """Nothing of the tools' files is touched by the host's pi; the results are the same."""
    report = host_pi(lab, files=FILES, mode="json", prompt=PROMPT, variables=SECRET)

    assert report["exit"] == 0, report["errors"]
    end = json.loads(next(line for line in report["out"].splitlines() if '"agent_end"' in line))
    executed_inside(report, json.loads(end["messages"][-1]["content"][0]["text"]))


# As docs/pi-extension.md has them; for a real npm and a real git.
CLONED = "~/.pi/agent/extensions/ai-sandbox"
WAYS = {
    "pi install": 'pi install "$CHECKOUT/pi-extension"',
    "git clone": f"""
        cd "$CHECKOUT"; git init --quiet; git add .
        git -c user.name=x -c user.email=x@y.test commit --quiet -m x; git clone --quiet "$CHECKOUT" {CLONED}
    """,
    "npm pack, unpacked": f"""
        cd ~; npm pack --silent "$CHECKOUT/pi-extension"; tar -xzf ai-sandbox-pi-*.tgz
        mkdir -p {CLONED}; mv package/* {CLONED}
    """,
    "npm pack, installed": "pi install npm:ai-sandbox-pi@file:$(ls ~/ai-sandbox-pi-*.tgz)",
}


# Of the host's podman nothing depends on the way: one host will do.
@pytest.mark.parametrize("lab", NAMES[:1], indirect=True)
def test_in_print_mode_however_it_was_installed(lab: Lab) -> None:
    """`pi install`, a clone, and what npm packs: each loads by itself, and the tools execute inside."""
    report = host_pi(lab, files=FILES, mode="install", ways=list(WAYS.values()), prompt=PROMPT, variables=SECRET)

    for way, one in zip(WAYS, report["ways"], strict=True):
        assert (one["install"]["exit"], one["exit"]) == (0, 0), (way, one)
        executed_inside(one, json.loads(one["out"].splitlines()[-1]))


def test_in_a_terminal_too(lab: Lab) -> None:
    """Typed: all seven tools, `!` and `!!`, and Esc; for its own sake pi asks tmux what it can, and fd and rg for their version."""
    steps = [
        ("see", "^host>"),
        ("type", 'pi; echo "ended with $?"'),
        ("press", "Enter"),
        ("see", "sandbox [0-9a-f]{8}: no network"),
        ("type", "!echo shown-$((6*7))-$(id -u)"),
        ("enter", "^ *shown-42-1000"),
        ("type", "!!echo hidden-$((6*7))-$(id -u)"),
        ("enter", "^ *hidden-42-1000"),
        ("type", PROMPT),
        ("enter", r'^ *\["one'),
        ("type", 'CALLS [["bash", {"command": "echo up-$((6*7)); sleep 4243"}]]'),
        ("enter", "^ *up-42"),
        ("press", "Escape"),
        ("see", "Command aborted"),
        ("type", "!pgrep -fc '[s]leep 4243'; echo none-$((6*7))"),
        ("enter", r"^ *0\n *none-42"),
        ("press", "C-d"),
        ("see", "^ended with 0"),
    ]

    report = host_pi(lab, files=FILES, mode="terminal", steps=steps, variables=SECRET)

    assert report["exit"] == 0, report["out"] + report["errors"]
    assert {"made/write-target.txt", "bash-target.txt"} <= set(report["left"])
    assert report["seen"]["file"] == []
    started = {line.rpartition("/")[2] for line in report["seen"]["program"] if not line.startswith("tmux ")}
    assert started <= {"aisb serve", "fd --version", "fdfind --version", "rg --version"}


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


def test_commands_stream_side_by_side_and_end(lab: Lab) -> None:
    """
    The model is told where all of a large output is, and finds it there; a command does not wait for a slow one; an
    abort and a time limit end everything that was started, background processes in sessions of their own included.
    """
    tree = "setsid sleep 4242 & sleep 4242 & echo started; wait"
    alive = ["bash", "pgrep -c -f '[s]leep 4242'; true", False]
    slow = ["bash", "until [ -e quick ]; do sleep 0.1; done; echo slow", False]
    steps = [
        ["tools", [["bash", {"command": "seq 1 2000000"}]]],
        ["shell", "ls /tmp | grep pi-bash; true"],
        ["bash", "f=$(ls /tmp/pi-bash-*.log) && wc -l <$f && tail -n 1 $f", False],
        ["parallel", [slow, ["bash", "touch quick; echo quick", False]]],
        ["abort", "bash", {"command": tree}],
        alive,
        ["tools", [["bash", {"command": tree, "timeout": 2}]]],
        alive,
    ]

    report = host_pi(lab, steps=steps)

    large, host, inside, both, cancelled, after_abort, limited, after_limit = report["steps"]
    assert "Full output: /tmp/pi-bash-" in large[0]["text"]
    assert "\n2000000\n" in large[0]["text"]
    assert host["out"] == ""
    assert inside["output"] == "2000000\n2000000\n"
    assert [one["output"] for one in both] == ["slow\n", "quick\n"]
    assert (cancelled["error"], "Command aborted" in cancelled["text"]) == (True, True), cancelled
    assert cancelled["seconds"] < 10
    assert "Command timed out after 2 seconds" in limited[0]["text"]
    assert "started" in limited[0]["text"]
    assert (after_abort["output"], after_limit["output"]) == ("0\n", "0\n")
