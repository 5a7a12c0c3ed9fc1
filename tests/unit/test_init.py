"""`aisb init`: what the user's own tools are configured to use is allowed and trusted; what the project says is proposed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.allow_file import parse_allow_file
from aisb.domain.entries import parse_entry
from aisb.domain.policy import parse_allow
from aisb.domain.seen_project import TOOLS, Seen, Tool, allow_list, entries_in
from aisb.effects.guard import ROOTS, roots_of
from aisb.effects.init import look_at, write_allow_list
from aisb.effects.session import open_session
from aisb.effects.trust import record_path
from aisb.errors import UsageError

NPM = TOOLS[0]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("registry=https://u:p@npm.corp.test/x/", ["exact:npm.corp.test"]),
        ('url = "http://Pip.Test:8080/simple"', ["exact:pip.test:8080"]),
        ("index = 'sparse+https://crates.test:443/i/'", ["exact:crates.test"]),
        ("GOPROXY=https://a.test,https://b.test,direct", ["exact:a.test", "exact:b.test"]),
        ("https://a.test/x https://a.test/y", ["exact:a.test"]),
        ("https://10.0.0.1/ https://localhost/ https://[::1]/ https://a..b/ https://x:0/ ftp://a.test/", []),
        ("https://a.test\u202e.evil/ https://" + 300 * "a" + "/", []),
    ],
)
def test_a_host_is_found_where_something_is_fetched_from(text: str, entries: list[str]) -> None:
    assert entries_in(text) == entries


def test_a_module_of_go_is_fetched_from_its_first_name() -> None:
    text = "module a.test/x\nrequire b.test/y v1.0.0\nrequire (\n\tc.test/z/w v0.1.0 // indirect\n)\nreplace d.test/q => ../q\n"

    assert entries_in(text, "go") == ["exact:b.test", "exact:c.test"]
    assert entries_in(text, "npm") == []


def test_the_list_allows_what_is_the_users_and_proposes_what_is_the_projects() -> None:
    seen = [
        Seen(NPM, {"~/.npmrc": "https://n.test/"}, {"package-lock.json": "https://n.test/ https://evil.test/"}, ("x",)),
        Seen(TOOLS[3], {"$GOPROXY": "https://n.test,https://g.test:8443"}, {}),
        Seen(TOOLS[2], {"~/.cargo/config.toml": "[net]"}, {}),
    ]

    assert allow_list(seen) == (
        "# What may be reached from this project, one entry a line.\n"
        "# What it comes to: aisb policy show\n"
        "\n"
        "# package.json: npm\n"
        "@npm\n"
        "exact:n.test  # ~/.npmrc\n"
        "# Named by files that an agent can write. To allow one, take its # away:\n"
        "#exact:evil.test  # package-lock.json\n"
        "# x could not be read\n"
        "\n"
        "# go.mod: go\n"
        "exact:g.test:8443  # $GOPROXY\n"
        "\n"
        "# Cargo.toml: cargo\n"
        "# No host is configured for cargo. What it needs: aisb learn\n"
    )


texts = st.text() | st.lists(
    st.sampled_from(
        ["https://", "http://", "a.test", "/", ":", "443", "@", " ", "\n", "# ", "*", "..", "x", "v1", "require "]
    )
).map("".join)


@given(texts, texts, st.sampled_from(TOOLS))
def test_whatever_a_project_says_allows_nothing(own: str, theirs: str, tool: Tool) -> None:
    """The list can always be read, each entry of it is one exact name, and each comes from the user's configuration."""
    seen = Seen(tool, {"own": own}, {"theirs": theirs})

    entries = [
        (text, where) for text, where in parse_allow_file(allow_list([seen]).encode(), "f") if not text.startswith("@")
    ]

    parse_allow("allow", entries)
    assert sorted(text for text, _ in entries) == sorted(entries_in(own, seen.tool.name))
    assert all(parse_entry(text).text() == text for text, _ in entries)


@pytest.mark.parametrize("piece", ["a", "\n", "https://", "https://a.", "@", " ", "a.", "require a.b/"])
def test_a_text_made_to_be_slow_is_not(piece: str) -> None:
    """A megabyte is what is read of a file at most; quadratic work on it would take minutes."""
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()

    entries_in(text, "go")

    assert time.process_time() - start < 30


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of npm and cargo, and a home with a configuration of npm."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".npmrc").write_text(
        "; https://comment.test\nregistry=https://n.test/\nhttps-proxy=https://p.test\n"
    )
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "package.json").write_text("{}")
    (tmp_path / "p" / "package-lock.json").write_text('{"resolved": "https://evil.test/x.tgz"}')
    (tmp_path / "p" / "Cargo.toml").write_text("")
    return tmp_path / "p"


def aisb(project: Path, *words: str, **environ: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "aisb", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=project,
        env={"HOME": str(project.parent / "home"), "PATH": os.defpath, **environ},
        check=False,
    )
    return done.returncode, done.stderr if words[0] != "policy" else done.stdout


def test_what_was_written_is_trusted_and_nothing_else(project: Path) -> None:
    (project / ".ai-sandbox").mkdir()
    (project / ".ai-sandbox" / "policy.yaml").write_text("allow: [evil.test]\n")

    code, said = aisb(project, "init")
    untrusted = aisb(project, "policy", "check", "n.test")
    (project / ".ai-sandbox" / "policy.yaml").unlink()

    assert (code, said) == (
        0,
        f"aisb: {project}/.ai-sandbox/allow: 2 entries, trusted (from package.json, Cargo.toml)\n"
        "aisb:   @npm\n"
        "aisb:   exact:n.test\n"
        "aisb: 1 more that files of the project name are in it as comments: look at them, then: aisb trust\n"
        "aisb: .ai-sandbox/policy.yaml is new: see it with: aisb trust\n",
    )
    assert untrusted[0] == 78
    # What the preset stands for, nobody knows before the image is built: the others may be in it.
    assert [
        aisb(project, "policy", "check", host)[0] for host in ("n.test", "evil.test", "p.test", "comment.test")
    ] == [0, 69, 69, 69]
    assert aisb(project, "init") == (
        2,
        f"aisb: {project}/.ai-sandbox/allow is there already\naisb:   edit it, and say so: aisb trust\n",
    )


@pytest.mark.parametrize("what", ["read", "written"])
def test_nothing_is_written_that_nobody_would_trust(project: Path, what: str) -> None:
    """Where what was trusted cannot be known or remembered, that is found before there is a list."""
    state = project.parent / "home/.local/state/ai-sandbox"
    record = Path(record_path(str(state), str(project)))
    state.mkdir(parents=True, mode=0o700)
    if what == "read":
        record.parent.mkdir(mode=0o700)
        record.mkdir()
    else:
        # Nothing is there to be read, and nothing can be put there.
        record.parent.symlink_to("nowhere")

    ended, said = aisb(project, "init")

    assert (ended, "the record of what was trusted" in said, (project / ".ai-sandbox").exists()) == (
        69,
        True,
        False,
    ), said


def test_a_project_of_no_kind_that_is_known_gets_an_empty_list(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "bare").mkdir()

    assert aisb(tmp_path / "bare", "init") == (
        0,
        f"aisb: {tmp_path}/bare/.ai-sandbox/allow: 0 entries, trusted (no project file that aisb knows is here)\n",
    )


NO_PIP = "aisb: note: @pypi stands for nothing without pip in the image: --install python3-pip puts it there\n"


@pytest.mark.parametrize(
    ("config", "note"),
    [("", NO_PIP), ("install: [python3-pip]\n", ""), ("nonsense: 1\n", NO_PIP)],
    ids=["as it is", "with pip", "settings that are no good"],
)
def test_a_preset_that_the_image_will_have_nothing_for_is_said(tmp_path: Path, config: str, note: str) -> None:
    """Before it is built its packages are known."""
    (tmp_path / "home/.config/ai-sandbox").mkdir(parents=True)
    (tmp_path / "home/.config/ai-sandbox/config.yaml").write_text(config or "# nothing yet\n")
    (tmp_path / "p").mkdir()
    for name in ("package.json", "pyproject.toml"):
        (tmp_path / "p" / name).write_text("")

    code, said = aisb(tmp_path / "p", "init")

    assert (code, said) == (
        0,
        f"aisb: {tmp_path}/p/.ai-sandbox/allow: 2 entries, trusted (from package.json, pyproject.toml)\n"
        f"aisb:   @npm\naisb:   @pypi\n{note}",
    )


def test_a_list_that_is_made_while_a_run_goes_on_says_what_becomes_of_the_next_one(project: Path) -> None:
    """Its agent could put another one there; that of a run that has it read-only cannot."""
    # A socket's path is short, whatever pytest calls its directories.
    with TemporaryDirectory() as runtime:
        for run, covered in (("0a", []), ("0b", [f"{project}/.ai-sandbox"])):
            roots = {ROOTS: roots_of([str(project)], covered)}
            open_session(f"{runtime}/aisb/g/0123456789ab/r", run, {}, "{}", roots)
        code, said = aisb(project, "init", XDG_RUNTIME_DIR=runtime)

    assert (code, [line for line in said.splitlines() if "run 0" in line]) == (
        0,
        [
            "aisb: note: run 0a began without .ai-sandbox and can write there: the next run here is refused until it "
            "ends, by itself or by: aisb stop 0a"
        ],
    )


@pytest.mark.parametrize("what", ["directory", "list"])
def test_nothing_is_written_through_a_link(project: Path, what: str) -> None:
    """An agent that was here before would choose where."""
    (project.parent / "elsewhere").mkdir()
    if what == "directory":
        (project / ".ai-sandbox").symlink_to(project.parent / "elsewhere")
    else:
        (project / ".ai-sandbox").mkdir()
        (project / ".ai-sandbox" / "allow").symlink_to(project.parent / "elsewhere" / "allow")

    with pytest.raises(UsageError):
        write_allow_list(str(project), [])
    assert os.listdir(project.parent / "elsewhere") == []


def test_a_configuration_that_is_a_link_into_the_project_is_not_the_users(project: Path) -> None:
    home = project.parent / "home"
    (home / ".npmrc").rename(project / "npmrc")
    (home / ".npmrc").symlink_to(project / "npmrc")

    assert [seen.own for seen in look_at(str(project), {"HOME": str(home)}) if seen.tool == NPM] == [{}]


def test_a_file_of_the_project_that_is_no_file_is_said(project: Path) -> None:
    (project / "package-lock.json").unlink()
    os.mkfifo(project / "package-lock.json")
    (project / ".npmrc").symlink_to(project.parent / "home" / ".npmrc")

    (npm, _) = look_at(str(project), {"HOME": ""})

    assert (npm.theirs, npm.unread) == ({}, (".npmrc", "package-lock.json"))
