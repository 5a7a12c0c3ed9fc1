"""The files of a run: each read once, trusted before it is parsed, and parsed once for all runs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pexpect
import pytest

from aisb.cli.trust import may_install
from aisb.domain.layers import PROJECT, USER, Setting
from aisb.domain.limits import BUILT_IN_CAPS
from aisb.domain.source_files import SourceFile
from aisb.effects import sources
from aisb.effects.env_files import stand_in_of
from aisb.effects.situation import read_ca_bundle
from aisb.effects.sources import Sources, Wish, read_named, read_sources
from aisb.effects.state import Directories
from aisb.effects.trust import write_record
from aisb.errors import Untrusted, UsageError

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EVERYTHING = {
    "allow": "a.test\n",
    "policy.yaml": "allow: [b.test]\n",
    "config.yaml": "net: none\n",
}


@pytest.fixture
def where(tmp_path: Path) -> Directories:
    """aisb's directories, none of them made."""
    return Directories(*(str(tmp_path / name) for name in ("runtime", "cache", "state", "config")))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that says everything that one can."""
    (tmp_path / "p" / ".ai-sandbox").mkdir(parents=True)
    for name, text in EVERYTHING.items():
        (tmp_path / "p" / ".ai-sandbox" / name).write_text(text)
    return tmp_path / "p"


def trust(project: Path, where: Directories, *others: str) -> None:
    names = [*(f".ai-sandbox/{name}" for name in EVERYTHING), *others]
    files = [SourceFile(name, (project / name).read_text()) for name in names if (project / name).exists()]
    write_record(where.state, str(project), files)


def configure(where: Directories, text: str) -> None:
    os.makedirs(where.config)
    with open(f"{where.config}/config.yaml", "w", encoding="utf-8") as file:
        file.write(text)


def test_every_file_has_its_place(project: Path, where: Directories, tmp_path: Path) -> None:
    """The user's configuration and the project's as layers; the rest as it was read, the weakest first."""
    configure(where, "allow: [c.test]\n")
    (tmp_path / "own.yaml").write_text("version: 1\n")
    (project / "sub.yaml").write_text("version: 1\n")
    trust(project, where, "sub.yaml")
    paths = (str(tmp_path / "own.yaml"), str(project / "sub.yaml"), str(project / ".ai-sandbox" / "policy.yaml"))

    read = read_sources(Wish(str(project), paths), where, None)

    status = (project / ".ai-sandbox").stat()
    assert [(layer.kind, dict(layer.scalars), dict(layer.lists)) for layer in read.layers] == [
        (USER, {}, {"allow": (Setting("c.test", f"{where.config}/config.yaml:1"),)}),
        (PROJECT, {"net": Setting("none", ".ai-sandbox/config.yaml:1")}, {}),
    ]
    assert read._replace(layers=()) == Sources(
        allow_files=(SourceFile(".ai-sandbox/allow", "a.test\n"),),
        policy_files=(
            SourceFile(".ai-sandbox/policy.yaml", "allow: [b.test]\n"),
            SourceFile(paths[0], "version: 1\n"),
            SourceFile("sub.yaml", "version: 1\n"),
        ),
        policy_directory=f"{status.st_dev} {status.st_ino}\n",
        names=(
            f"{where.config}/config.yaml",
            paths[0],
            "sub.yaml",
            ".ai-sandbox/policy.yaml",
            ".ai-sandbox/allow",
            ".ai-sandbox/config.yaml",
        ),
    )


def test_nothing_of_a_project_is_parsed_before_it_is_trusted(
    project: Path, where: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration file is all that is parsed here, and this one would be an error."""
    (project / ".ai-sandbox" / "config.yaml").write_text("nonsense: [")

    with pytest.raises(Untrusted):
        read_sources(Wish(str(project)), where, None)
    trust(project, where)
    with pytest.raises(UsageError, match="this is not YAML"):
        read_sources(Wish(str(project)), where, None)


@pytest.mark.parametrize("name", EVERYTHING)
def test_each_file_of_a_project_needs_trust(project: Path, where: Directories, name: str) -> None:
    trust(project, where)
    read_sources(Wish(str(project)), where, None)
    with (project / ".ai-sandbox" / name).open("a") as file:
        file.write("#")

    with pytest.raises(Untrusted, match=rf"^\.ai-sandbox/{name} has changed: nobody has trusted this$"):
        read_sources(Wish(str(project)), where, None)


def test_a_file_that_a_flag_names_in_the_project_needs_trust(project: Path, where: Directories, tmp_path: Path) -> None:
    """Also by a link from outside. One outside needs none."""
    trust(project, where)
    (project / "mine.yaml").write_text("version: 1\n")
    (tmp_path / "link.yaml").symlink_to(project / "mine.yaml")
    (tmp_path / "own.yaml").write_text("version: 1\n")

    for path in (project / "mine.yaml", tmp_path / "link.yaml"):
        with pytest.raises(Untrusted, match=r"^mine\.yaml is new"):
            read_sources(Wish(str(project), (str(path),)), where, None)
    assert read_sources(Wish(str(project), (str(tmp_path / "own.yaml"),)), where, None).policy_files


def test_a_link_in_the_project_to_somewhere_else_is_not_followed(project: Path, tmp_path: Path) -> None:
    """The agent would decide what is read, and with every run anew."""
    (tmp_path / "own.yaml").write_text("version: 1\n")
    (project / "mine.yaml").symlink_to(tmp_path / "own.yaml")

    with pytest.raises(Untrusted) as caught:
        read_named(str(project / "mine.yaml"), str(project), "--policy")
    assert caught.value.hint == f"name the file itself: --policy {tmp_path}/own.yaml"


def test_a_directory_in_the_place_of_a_file_is_said_with_the_file_in_it(project: Path, tmp_path: Path) -> None:
    """In the project as elsewhere."""
    (project / "mine").mkdir()
    (tmp_path / "own dir/.ai-sandbox").mkdir(parents=True)
    (tmp_path / "own dir/.ai-sandbox/policy.yaml").write_text("")
    found = {}
    for path in (project / "mine", tmp_path / "own dir"):
        with pytest.raises(UsageError) as caught:
            read_named(str(path), str(project), "--policy")
        found[caught.value.message] = caught.value.hint

    assert found == {
        f"--policy {project}/mine is a directory": "name a file: --policy FILE",
        f"--policy {tmp_path}/own dir is a directory": (
            f"name the file: --policy '{tmp_path}/own dir/.ai-sandbox/policy.yaml'"
        ),
    }


def test_a_file_in_the_home_of_a_sandbox_is_an_agents(
    where: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is mounted writable too, and by another name than the project."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    home = tmp_path / "data/containers/storage/volumes/aisb-home-x-123456/_data"
    home.mkdir(parents=True)
    (home / "x").write_text("version: 1\n")
    (tmp_path / "link").symlink_to(home / "x")

    for path in (home / "x", tmp_path / "link"):
        with pytest.raises(Untrusted, match="where agents write their homes"):
            read_sources(Wish("", (str(path),)), where, None)
        with pytest.raises(Untrusted, match="where agents write their homes"):
            read_ca_bundle(str(path), "")


def test_a_directory_that_is_gone_is_said(project: Path, where: Directories, tmp_path: Path) -> None:
    """(C25) Only of a path that begins there."""
    trust(project, where)
    (tmp_path / "gone").mkdir()
    (tmp_path / "own.yaml").write_text("version: 1\n")
    code = (
        "import os, sys; os.rmdir(os.getcwd());"
        "from aisb.effects.safe_files import is_reached_through as r; print(r(sys.argv[1], '/p')); r('x', '/p')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "own.yaml")],
        cwd=tmp_path / "gone",
        env={"PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "False\n"
    assert done.stderr.splitlines()[-1] == "aisb.errors.UsageError: the current directory no longer exists"


def test_the_users_configuration_in_a_project_needs_trust_there(project: Path, where: Directories) -> None:
    """A repository of one's own settings, with links to it from where they are looked for, is a project too."""
    trust(project, where)
    os.makedirs(where.config)
    (project / "aisb.yaml").write_text("allow: [evil.test]\n")
    os.symlink(project / "aisb.yaml", f"{where.config}/config.yaml")

    with pytest.raises(Untrusted, match=r"^aisb\.yaml is new"):
        read_sources(Wish(str(project)), where, None)
    assert read_sources(Wish(""), where, None).layers[0].lists["allow"][0].value == "evil.test"


@pytest.mark.parametrize("kind", ["dangling link", "directory"])
def test_a_configuration_that_cannot_be_read_is_an_error(where: Directories, kind: str) -> None:
    os.makedirs(where.config)
    path = f"{where.config}/config.yaml"
    os.symlink("nowhere", path) if kind == "dangling link" else os.mkdir(path)

    with pytest.raises(UsageError, match=r"config\.yaml cannot be read: "):
        read_sources(Wish(""), where, None)


@pytest.mark.parametrize("name", ["config.yml", "Config.yaml", "conf.yaml", "confg.yaml", "configs.yaml"])
def test_a_configuration_by_another_name_is_not_passed_over(where: Directories, name: str) -> None:
    os.makedirs(where.config)
    open(f"{where.config}/{name}", "x").close()

    with pytest.raises(UsageError) as caught:
        read_sources(Wish(""), where, None)
    assert (caught.value.message, caught.value.hint) == (
        f"{where.config}/{name} is not a file that aisb reads",
        f"name it: {where.config}/config.yaml",
    )
    open(f"{where.config}/config.yaml", "x").close()
    assert len(read_sources(Wish(""), where, None).layers) == 1


def test_what_else_lies_beside_no_configuration_is_let_be(where: Directories) -> None:
    os.makedirs(where.config)
    for name in ("config.yaml.bak", "config.yaml~", "tools.containerfile", "ca.pem"):
        open(f"{where.config}/{name}", "x").close()

    assert read_sources(Wish(""), where, None) == Sources()


def test_a_hash_without_a_project_has_no_meaning(where: Directories) -> None:
    with pytest.raises(UsageError, match=r"^--trust-once is for the files of a project"):
        read_sources(Wish("", (), "0" * 64), where, None)


def test_a_configuration_is_parsed_once(where: Directories, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes mean the same; other bytes, another version of aisb, and what cannot be read, are parsed anew."""
    configure(where, "net: none\n")
    first = read_sources(Wish(""), where, None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "aisb.domain.config_file", None)
        again = read_sources(Wish(""), where, None)
        patch.setattr(sources, "fingerprint", lambda: "another version")
        with pytest.raises(ImportError):
            read_sources(Wish(""), where, None)
        (kept,) = os.listdir(f"{where.cache}/settings")
    with open(f"{where.cache}/settings/{kept}", "w", encoding="utf-8") as file:
        file.write('{"not": "ours"}')
    third = read_sources(Wish(""), where, None)
    with open(f"{where.config}/config.yaml", "a", encoding="utf-8") as file:
        file.write("quiet: 1\n")

    assert first == again == third
    assert set(read_sources(Wish(""), where, None).layers[0].scalars) == {"net", "quiet"}


def test_a_look_writes_nothing(where: Directories) -> None:
    configure(where, "net: none\n")

    read_sources(Wish(""), where, None, keep=False)

    assert not os.path.exists(where.cache)


# --- from outside ---------------------------------------------------------------------------------


def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home" / ".config" / "ai-sandbox").mkdir(parents=True, exist_ok=True)
    return {"HOME": str(tmp_path / "home"), "PATH": os.defpath, "XDG_RUNTIME_DIR": "", "TERM": "xterm"}


def aisb(tmp_path: Path, project: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "aisb", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=project,
        env=environ(tmp_path),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_look_at_an_untrusted_project_is_refused_with_what_helps(project: Path, tmp_path: Path) -> None:
    """78, nothing on stdout, nothing asked; the hash that is named is the one that helps."""
    code, stdout, stderr = aisb(tmp_path, project, "--print-policy")
    once = stderr.rpartition("--trust-once ")[2].strip()

    assert (code, stdout) == (78, "")
    assert f"aisb trust --project {project}\n" in stderr
    assert aisb(tmp_path, project, "trust", "--show")[:2] == (1, aisb(tmp_path, project, "trust", "--show")[1])
    assert aisb(tmp_path, project, "--trust-once", once, "--print-policy")[0] == 0
    assert aisb(tmp_path, project, "--trust-once", once[::-1], "--print-policy")[0] == 78
    assert aisb(tmp_path, project, "--trust-once", "x", "--print-policy")[0] == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("allow", "a.test\nhttps://\n", ".ai-sandbox/allow:2"),
        ("allow", "@nmp\n", "@nmp"),
        ("config.yaml", "instal: [jq]\n", ".ai-sandbox/config.yaml:1"),
        ("config.yaml", "allow: [a b]\n", ".ai-sandbox/config.yaml:1"),
        ("config.yaml", "net: none\ninstall: [Jq]\n", ".ai-sandbox/config.yaml:2"),
        ("policy.yaml", "allow: [a.test]\nrules: []\n", ".ai-sandbox/policy.yaml:2"),
        ("policy.yaml", "allow: ['*']\n", ".ai-sandbox/policy.yaml:1"),
    ],
)
def test_what_cannot_be_meant_is_an_error_before_trust_is_asked_for(
    project: Path, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (project / ".ai-sandbox" / name).write_text(text)

    code, stdout, stderr = aisb(tmp_path, project, "trust")

    assert (code, stdout, message in stderr.splitlines()[0]) == (2, "", True)
    # A run parses nothing that nobody trusts.
    assert aisb(tmp_path, project, "--print-policy")[0] == 78


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("rules.yaml", "allow: [a.test\n", 2),
        ("rules.yaml", "alow: [a.test]\n", 2),
        ("rules.yaml", "version: 1\nallow: [a.test]\n", 78),
        ("own.yaml", "net: none\nmemory: 1g\n", 78),
        ("hooks", "alow: [a.test]\n", 78),
    ],
)
def test_a_named_file_is_looked_at_as_far_as_its_name_says_what_it_is(
    project: Path, tmp_path: Path, name: str, text: str, code: int
) -> None:
    (project / name).write_text(text)

    assert aisb(tmp_path, project, "trust", name)[0] == code


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("net: none\n", False),
        ("install: [jq]\n", True),
        ('"\\x69nstall": [jq]\n', True),
        ('"inst\\\nall": [jq]\n', True),
    ],
)
def test_of_what_is_installed_it_is_warned_where_a_file_may_say_so(text: str, may: bool) -> None:
    assert may_install(text) == may


def test_trust_says_what_it_is(project: Path, tmp_path: Path) -> None:
    """0 trusted, 1 not, 69 could not tell; asked at a terminal alone."""
    shown = aisb(tmp_path, project, "trust", "--show")
    refused = aisb(tmp_path, project, "trust")
    child = pexpect.spawn(
        sys.executable, ["-m", "aisb", "trust"], cwd=str(project), env=environ(tmp_path), encoding="utf-8"
    )
    child.expect(r"\[y/N\] ")
    assert "+a.test" in (child.before or "")
    assert "is installed with an open network" not in (child.before or "")
    child.sendline("y")
    child.expect(pexpect.EOF)
    trusted = aisb(tmp_path, project, "trust", "--show")
    printed = aisb(tmp_path, project, "--print-policy")
    revoked = aisb(tmp_path, project, "trust", "--revoke")
    (project / ".ai-sandbox" / "allow").unlink()
    os.mkfifo(project / ".ai-sandbox" / "allow")
    untold = aisb(tmp_path, project, "trust", "--show")

    assert [run[0] for run in (shown, refused, trusted, printed, revoked, untold)] == [1, 78, 0, 0, 0, 69]
    assert shown[1].startswith("not trusted ")
    assert shown[1].endswith(
        ".ai-sandbox/allow is new\n@@ -0,0 +1 @@\n+a.test\n"
        ".ai-sandbox/config.yaml is new\n@@ -0,0 +1 @@\n+net: none\n"
        ".ai-sandbox/policy.yaml is new\n@@ -0,0 +1 @@\n+allow: [b.test]\n"
    )
    assert "net.origin=.ai-sandbox/config.yaml:1\n" in printed[1]
    assert f"aisb:   in a terminal: aisb trust --project {project}\n" in refused[2]
    assert "say so" not in refused[2]
    assert untold[2] == (
        "aisb: .ai-sandbox/allow cannot be read: it is a pipe\n"
        "aisb:   it must be a regular file of your own, or not be there\n"
    )


@pytest.mark.parametrize("answer", ["n", "", "yess", "\x04"])
def test_anything_but_yes_is_no(project: Path, tmp_path: Path, answer: str) -> None:
    child = pexpect.spawn(
        sys.executable, ["-m", "aisb", "trust"], cwd=str(project), env=environ(tmp_path), encoding="utf-8"
    )
    child.expect(r"\[y/N\] ")
    child.send(answer if answer == "\x04" else f"{answer}\n")
    child.expect(pexpect.EOF)
    child.close()

    assert child.exitstatus == 78
    assert aisb(tmp_path, project, "trust", "--show")[0] == 1


def test_a_project_without_files_has_nothing_to_trust(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()

    assert aisb(tmp_path, tmp_path / "bare", "trust", "--show")[0] == 0
    assert aisb(tmp_path, tmp_path / "bare", "trust") == (0, "", f"aisb: {tmp_path}/bare: there is nothing to trust\n")


def test_every_source_shows_in_the_printed_policy_with_its_origin(project: Path, tmp_path: Path) -> None:
    (project / ".ai-sandbox" / "config.yaml").write_text("install: [jq]\nallow: [d.test]\n")
    environ(tmp_path)
    (tmp_path / "home/.config/ai-sandbox/config.yaml").write_text("allow: [c.test]\ninstall: [jq, zsh]\nnet: allow\n")
    (tmp_path / "rules.yaml").write_text("\nallow:\n - e.test\n")
    once = aisb(tmp_path, project, "--print-policy")[2].rpartition("--trust-once ")[2].strip()

    code, stdout, stderr = aisb(
        tmp_path, project, "--policy", "../rules.yaml", "--allow", "f.test", "--trust-once", once, "--print-policy"
    )

    assert (code, stderr) == (0, "")
    lines = dict(line.split("=", 1) for line in stdout.splitlines())
    origins = {lines[key.removesuffix(".origin")]: value for key, value in lines.items() if key.endswith(".origin")}
    assert origins == {
        "a.test": ".ai-sandbox/allow:1",
        "b.test": ".ai-sandbox/policy.yaml:1",
        "c.test": "~/.config/ai-sandbox/config.yaml:1",
        "d.test": ".ai-sandbox/config.yaml:2",
        "e.test": "../rules.yaml:3",
        "f.test": "--allow",
        "jq": "~/.config/ai-sandbox/config.yaml:2",
        "zsh": "~/.config/ai-sandbox/config.yaml:2",
        "allow": "~/.config/ai-sandbox/config.yaml:3",
        "docker.io/library/ubuntu:24.04": "built in",
        **{f"{name} {value}": "built in" for name, value in BUILT_IN_CAPS.items()},
    }


def test_a_build_makes_what_the_configuration_asks_for(tmp_path: Path) -> None:
    """Otherwise the next run would build other images. A flag and a variable are stronger, as for a run."""
    environ(tmp_path)
    (tmp_path / "home/.config/ai-sandbox/config.yaml").write_text("base-image: x\ninstall: [Jq]\n")

    by_file = aisb(tmp_path, tmp_path, "build")
    by_flag = aisb(tmp_path, tmp_path, "build", "--base-image", "y")
    package = aisb(tmp_path, tmp_path, "build", "--base-image", "docker.test/x:1")

    assert by_file[2].startswith("aisb: ~/.config/ai-sandbox/config.yaml:1: base-image 'x' is not a base image\n")
    assert by_flag[2].startswith("aisb: --base-image 'y' is not a base image\n")
    assert package[2].startswith("aisb: ~/.config/ai-sandbox/config.yaml:2: install 'Jq' is not a package name\n")
    assert [run[0] for run in (by_file, by_flag, package)] == [2, 2, 2]


def test_an_answer_from_before_the_question_is_none(project: Path, tmp_path: Path) -> None:
    """Whatever a program before left in the terminal's input, or made the terminal say."""
    code = (
        "import os, runpy, select, sys; sys.argv = ['aisb', 'trust'];"
        "os.write(1, b'ready'); select.select([0], [], []); runpy.run_module('aisb', run_name='__main__')"
    )
    child = pexpect.spawn(
        sys.executable, ["-c", code], cwd=str(project), env=environ(tmp_path) | {"PYTHONPATH": ROOT}, encoding="utf-8"
    )
    child.expect("ready")
    child.sendline("y")
    child.expect(r"\[y/N\] ")
    child.sendline("n")
    child.expect(pexpect.EOF)
    child.close()

    assert child.exitstatus == 78


def test_the_policy_directory_is_read_only_and_expected(project: Path, tmp_path: Path) -> None:
    """In podman's argv; a project without one gets none. Nothing is made on the host."""
    (tmp_path / "bare").mkdir()
    once = aisb(tmp_path, project, "--print-policy")[2].rpartition("--trust-once ")[2].strip()

    with_one = aisb(tmp_path, project, "--trust-once", once, "--dry-run", "--", "true")
    without = aisb(tmp_path, tmp_path / "bare", "--net", "none", "--dry-run", "--", "true")

    mount = f"--mount=type=bind,src={project}/.ai-sandbox,dst=/project/.ai-sandbox,ro"
    assert (with_one[0], without[0]) == (0, 0)
    assert mount in with_one[1].split()
    assert ".ai-sandbox" not in without[1]
    assert os.listdir(tmp_path / "bare") == []


def variables_of(path: Path | str, project: Path | None, where: Directories) -> dict[str, bytes]:
    read = read_sources(Wish(str(project or ""), env_paths=(str(path),)), where, None)
    return {item.name: item.value for item in read.variables}


def private(path: Path, text: bytes = b"A=secret\n") -> Path:
    path.write_bytes(text)
    path.chmod(0o600)
    return path


def test_a_file_of_variables_is_read_where_it_is_the_users_alone(where: Directories, tmp_path: Path) -> None:
    """(C17) Through links too, where no agent writes."""
    file = private(tmp_path / "env", b"A='\xff\n'\n")
    (tmp_path / "link").symlink_to(file)

    assert variables_of(file, None, where) == variables_of(tmp_path / "link", None, where) == {"A": b"\xff\n"}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o610])
def test_a_file_of_variables_that_others_get_at_is_refused(where: Directories, tmp_path: Path, mode: int) -> None:
    """(C17) With the command that makes it private."""
    file = private(tmp_path / "env")
    file.chmod(mode)

    with pytest.raises(UsageError) as caught:
        variables_of(file, None, where)
    assert (caught.value.message, caught.value.hint) == (
        f"{file} can be read by others (its mode is {mode:04o})",
        f"chmod 600 {file}",
    )


def test_what_is_no_file_of_variables_is_refused(where: Directories, tmp_path: Path) -> None:
    """(C17) A pipe does not hold the start up."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "directory").mkdir()
    for name, why in (("pipe", "it is a pipe"), ("directory", "it is a directory"), ("x", "No such file or directory")):
        with pytest.raises(UsageError, match=f"{name} cannot be read: {why}"):
            variables_of(tmp_path / name, None, where)


def test_a_file_of_variables_in_the_project_is_trusted_by_hashes(where: Directories, tmp_path: Path) -> None:
    """(C17) Neither the refusal nor the record holds a value, another value is asked about anew, and it is mentioned."""
    project = tmp_path / "p"
    project.mkdir()
    file = private(project / "env")

    with pytest.raises(Untrusted) as caught:
        variables_of(file, project, where)
    assert (caught.value.message, caught.value.hint.splitlines()[0]) == (
        "--env-file=env is new: nobody has trusted this",
        f"look at it and say so: aisb trust --project {project} --env-file=env",
    )
    write_record(where.state, str(project), [stand_in_of(str(project), "env")])
    assert variables_of(file, project, where) == {"A": b"secret"}
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != file)
    assert read_sources(Wish(str(project), env_paths=(str(file),)), where, None).notes == (
        "--env-file=env lies in the project: the agent can read all of it",
    )
    private(file, b"A=secreT\n")
    with pytest.raises(Untrusted, match="--env-file=env has changed"):
        variables_of(file, project, where)
