"""What is shown before a run beside what that run does: the same words to podman, the same files, the same paths."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.preview_world import Call, Seen, World

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = {
    "baseUrl": "https://a.test/v1",
    "api": "openai-completions",
    "apiKey": "$AI_API_TOKEN",
    "models": [{"id": "m"}],
}
# Of a run's directory: what aisb keeps there for itself, and what a shell has files for in the place of descriptors.
OF_A_RUN = {"origins.json", "roots.json", "run.json", "variables"}
OF_A_SHELL = {"given", "phases", "ready"}
OF_BOTH = {"owner", "lock", "start", "ctl.sock"}


@pytest.fixture
def world() -> Iterator[World]:
    """A project with a repository, secrets, a policy directory of its own, and directories beside it."""
    with tempfile.TemporaryDirectory(prefix="world-") as made:
        home = Path(made)
        world = World(home)
        project = home / "p"
        subprocess.run(["git", "init", "-q", project], check=True)
        for path in (".env", "keys/id_rsa", "sub/.env.local", "tools/run", ".envrc", "hidden/x"):
            (project / path).parent.mkdir(exist_ok=True)
            (project / path).write_text("-----BEGIN PRIVATE KEY-----\n" if path == "keys/id_rsa" else "x\n")
        (project / ".ai-sandbox").mkdir()
        (project / ".ai-sandbox/config.yaml").write_text("install: [jq]\n")
        for path in ("rw", "ro"):
            (home / path).mkdir()
            (home / path / ".env").write_text("y\n")
        subprocess.run(["git", "init", "-q", home / "rw"], check=True)
        (home / ".pi/agent").mkdir(parents=True)
        (home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"own": MODEL}}))
        (home / "v.env").write_text("FILED=f\n")
        (home / "v.env").chmod(0o600)
        yield world
        world.end()


MOUNTS = ("--mount", "../rw:/mnt/rw:rw", "--mount", "../ro:/mnt/ro", "--mount", "../v.env:/mnt/v.env")
PATHS = (
    "--protect",
    "tools/run",
    "--protect",
    "later",
    "--unprotect",
    ".husky",
    "--mask",
    "hidden",
    "--mask",
    "*.local",
    "--mask",
    ".envrc",
)
CLOSED = ("--net", "none", "--env", "A=1", "--env", "B=@AI_API_TOKEN", "--env-file", "../v.env", "--read-only")
RUNS = {
    "closed": (*CLOSED, *MOUNTS, *PATHS, "--", "sh", "-c", "echo 'it is'"),
    "gated": ("--allow", "a.test,10.1.2.3:5432", "--gate-idle", "60", "--memory", "0"),
    "served by its own gate": (
        *("--allow", "a.test,b.test", "--env", "T=@AI_API_TOKEN", "--inject", "T@b.test:X-Key", "--ephemeral-home"),
        *("--proxy", "http://203.0.113.9:3128", "--proxy-auth", "LOGIN", "--no-pi-config", "--", "true"),
    ),
    "pi's token stays out": ("--allow", "a.test", "--pi-inject"),
    "without a gate": ("--no-gate", "--allow", "10.1.2.3:5432", "--no-default-masks", "--shared-home", "--", "true"),
    "open": ("--net", "full", "--no-pi-config", "--no-cwd", "--", "true"),
}
VALUES = {"AI_API_TOKEN": "hunter2-hunter2", "LOGIN": "me:p w"}


@pytest.mark.parametrize("words", RUNS.values(), ids=RUNS.keys())
def test_what_is_printed_does_what_a_run_does(world: World, words: tuple[str, ...]) -> None:
    """Each word to podman, each directory and file with its mode, each variable, and what a gate alone is told."""
    run = world.run(*words, **VALUES)
    printed = world.preview("--dry-run", *words, **VALUES)
    pasted = world.paste(printed.lines, **VALUES, A="1", FILED="f", T=VALUES["AI_API_TOKEN"])

    assert (run.code, printed.code, pasted.code) == (0, 0, 0), (run, printed.errors, pasted.errors)
    assert [plain(call) for call in pasted.calls] == [plain(call) for call in run.calls]
    assert {Path(path).name for path in pasted.calls[-1].tree} - {Path(path).name for path in run.calls[-1].tree} <= (
        OF_A_SHELL
    )


@pytest.mark.parametrize("words", RUNS.values(), ids=RUNS.keys())
def test_a_printed_policy_names_what_a_run_mounts_protects_and_masks(world: World, words: tuple[str, ...]) -> None:
    """All of it, by what podman was told: what is read-only over itself, what is shown as nothing, and what is mounted."""
    run = world.run(*words, **VALUES)
    printed = world.preview("--print-policy", *words, **VALUES)
    shown = dict(line.split("=", 1) for line in printed.lines)

    assert (run.code, printed.code) == (0, 0), (run.errors, printed.errors)
    assert of_files(shown) == files_of(run, world.home)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--mount", ".:/mnt/again:rw"), id="another way to what is protected"),
        pytest.param(("--mount", ".env:/mnt/env"), id="another way to what is masked"),
        pytest.param(("--mount", "../ro:/project/.git/hooks"), id="on what is protected"),
    ],
)
@pytest.mark.parametrize("what", ["--dry-run", "--print-policy"])
def test_a_mount_that_a_run_refuses_is_refused_when_it_is_shown(
    world: World, what: str, words: tuple[str, ...]
) -> None:
    """What is printed could be pasted, and would lay bare what the run would not."""
    words = ("--net", "none", "--no-pi-config", *words, "--", "true")
    run = world.run(*words)
    shown = world.preview(what, *words)

    assert run.errors.startswith("refused: --mount")
    assert (shown.code, shown.lines, shown.errors) == (run.code, [], run.errors)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--mount", "../v.env:/mnt/v.env"), id="in a file that is mounted"),
        pytest.param(("--env", "OTHER=@AI_API_TOKEN"), id="in another variable"),
        pytest.param(("--env", "T=@SHORT"), id="what is no token"),
    ],
)
def test_a_secret_that_a_run_refuses_to_inject_is_refused_when_the_run_is_shown(
    world: World, words: tuple[str, ...]
) -> None:
    """It would be inside as well, of a line that was pasted."""
    (world.home / "v.env").write_text("FILED=hunter2-hunter2\n")
    words = ("--no-pi-config", "--allow", "a.test", "--env", "T=@AI_API_TOKEN", "--inject", "T@a.test", *words)
    run = world.run(*words, "--", "true", **VALUES, SHORT="x")
    shown = world.preview("--dry-run", *words, "--", "true", **VALUES, SHORT="x")

    assert (run.code, shown.code, shown.lines) == (2, 2, [])
    assert run.errors.splitlines()[-1] == shown.errors.splitlines()[-1]


def test_a_secret_that_is_not_set_yet_changes_nothing_of_what_is_printed(world: World) -> None:
    """The shell that the lines are pasted in has it."""
    words = ("--dry-run", "--no-pi-config", "--allow", "a.test", "--inject", "T@a.test", "--", "true")
    # Who has run it once trusts the project.
    world.run("--net", "none", "--", "true")
    unset, is_set = world.preview(*words), world.preview(*words, T="hunter2-hunter2")

    assert (unset.code, is_set.code, unset.lines) == (0, 0, is_set.lines)


def test_a_cap_that_is_not_kept_is_not_shown_as_one_that_is(world: World) -> None:
    """With what a start says of it; who will not run without it is refused as by a run."""
    words = ("--net", "none", "--no-pi-config", "--memory", "1g", "--cpus", "0", "--pids-limit", "0", "--", "true")
    run = world.run(*words, manager="cgroupfs")
    shown = world.preview("--dry-run", *words, manager="cgroupfs")
    strict = [do("--require-limits", *words, manager="cgroupfs") for do in (world.run, world.preview_of_run)]

    (said,) = (line.removeprefix("aisb: note: ") for line in run.errors.splitlines() if "no cap" in line)
    assert [line for line in shown.lines if "no cap" in line or "--memory" in line] == [
        "# in force: memory 1g (--memory)",
        f"# but {said}",
    ]
    assert [(seen.code, seen.lines, seen.errors) for seen in strict] == 2 * [(77, [], strict[0].errors)]
    assert "refused to run without its limits" in strict[0].errors


def test_a_dry_run_says_which_way_in_a_run_alone_has(world: World) -> None:
    """A port of the host, and the place of a mount in a home that stays: its links are an agent's."""
    words = ("--no-pi-config", "--allow", "host:8080", "--mount", "../ro:/home/sandbox/ro", "--dry-run")
    # Who has run it once trusts the project.
    world.run("--net", "none", "--", "true")
    lines = world.preview(*words, "--", "true").lines
    gone = world.preview(*words, "--ephemeral-home", "--", "true").lines

    of_the_port = ["# host:8080 is aisb's own doing: a run has a process that leads there, and these lines have none"]
    of_the_home = [
        "# the place of ~/ro is aisb's own doing: a run makes it in the home, as yours, and follows no link;",
        "# of these lines podman makes it, as root's for ever, and follows where an agent has made it lead",
    ]
    own = [[line for line in found if "own doing" in line or "podman makes it" in line] for found in (lines, gone)]
    assert own == [of_the_port + of_the_home, of_the_port]


def test_what_earlier_runs_had_found_is_shown_as_masked(world: World) -> None:
    """As a run masks it, though an agent hid it in a crowd; that is looked at, and nothing is written down."""
    words = ("--net", "none", "--no-pi-config", "--", "true")
    project = world.home / "p"
    world.run(*words)
    (project / "a").mkdir()
    for number in range(6000):
        (project / "a" / f"{number}").touch()

    shown = dict(line.split("=", 1) for line in world.preview("--print-policy", *words).lines)
    printed = world.preview("--dry-run", *words)
    run = world.run(*words)

    assert str(project / "sub/.env.local") in run_masks(run, world.home)
    assert of_files(shown) == files_of(run, world.home)
    assert [plain(call) for call in world.paste(printed.lines).calls[-1:]] == [plain(call) for call in run.calls[-1:]]


def run_masks(run: Seen, home: Path) -> list[str]:
    """What reads as nothing in a run."""
    found = files_of(run, home)["masked"]
    assert isinstance(found, list)
    return found


def of_files(shown: dict[str, str]) -> dict[str, object]:
    """What a printed policy says of files."""
    numbers = [key.split(".")[1] for key in shown if key.startswith("protect.") and key.endswith(".how")]
    return {
        "mounts": {
            shown[key]: shown[f"{key}.origin"] for key in shown if key.startswith("mount.") and key.count(".") == 1
        },
        "masked": sorted(value for key, value in shown.items() if key.startswith("mask.")),
        "protected": {shown[f"protect.{number}"]: shown[f"protect.{number}.how"] for number in numbers},
        "tokens": {
            shown[key]: shown[f"{key}.for"] for key in shown if key.startswith("pi.token.") and key.count(".") == 2
        },
    }


def files_of(run: Seen, home: Path) -> dict[str, object]:
    """The same of a run, by the mounts that podman was asked for."""
    fields = [word.split(",") for word in run.calls[-1].argv if word.startswith("--mount=type=bind,")]
    mounts = [(words[1].removeprefix("src="), words[2].removeprefix("dst="), words[-1] == "ro") for words in fields]
    tops = {"/project": f"{home}/p"} | {
        target: source for source, target, _ in mounts if Path(target).parent == Path("/mnt")
    }
    besides = [mount for mount in mounts if mount[1] in tops and mount[1] != "/project"]
    inner = [
        (source, f"{top}{target.removeprefix(above)}", read_only)
        for source, target, read_only in mounts
        for above, top in tops.items()
        if target.startswith(f"{above}/")
    ]
    masked = sorted(path for source, path, _ in inner if source.startswith(f"{home}/run/"))
    kept = {path for source, path, read_only in inner if read_only and source == path}
    ways = {path: "read-only" if path in kept or path in masked else "watched" for path in (*run.watched, *kept)}
    # As they were named, which is beside the project here.
    named = [(source.replace(f"{home}/", f"{home}/p/../"), source, target) for source, target, _ in besides]
    return {
        "mounts": {
            f"{' -> '.join(way)} ({'ro' if read_only else 'rw'})": "--mount"
            for way, (_, _, read_only) in zip(named, besides, strict=True)
        },
        "masked": masked,
        "protected": ways,
        "tokens": tokens_of(run),
    }


def tokens_of(run: Seen) -> dict[str, str]:
    """What a run's pi takes for its provider, where it has that: the value, or what stands for it."""
    found = dict(word.split("=", 1) for word in run.calls[-1].variables).get("AI_API_TOKEN", "")
    what = "goes in" if found == VALUES["AI_API_TOKEN"] else "stays in the gate"
    return {"AI_API_TOKEN": f"own at a.test, {what}"} if found else {}


def plain(call: Call) -> Call:
    """The same, less what either has for itself; whose a gate is stands in it, and whose a run is differs."""
    own = OF_A_RUN | OF_A_SHELL | OF_BOTH
    names = {path: "owner of a gate" if path.endswith("KEY/owner") else Path(path).name for path in call.tree}
    return call._replace(tree={path: what for path, what in call.tree.items() if names[path] not in own})
