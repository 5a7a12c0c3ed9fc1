"""Which paths are protected, and what is mounted for them."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import resource
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from aisb.domain.file_changes import Changed, FileReport, NewRepository
from aisb.domain.layers import Setting
from aisb.domain.protected import DIRECTORY, FILE, Protected, once, parse_place, without
from aisb.effects.file_report import report_of
from aisb.effects.guard import joined
from aisb.effects.home_files import led_to
from aisb.effects.placeholders import Claim, _key, remove_left_over
from aisb.effects.shield import Shield, Wishes, look, watched_at
from aisb.effects.survey import survey
from aisb.effects.tree import Tree, file_system_of
from aisb.errors import Unavailable, Unprotected, UsageError
from aisb.render.file_report import file_lines, warns
from aisb.render.shield import shield_lines
from tests.unit.test_git_index import index_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aisb.effects.watch import Watch

GIT = "[core]\n\trepositoryformatversion = 0\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a repository, as `git init` makes it."""
    place = tmp_path / "p"
    make(place, {".git/config": GIT, ".git/HEAD": "ref: refs/heads/main\n", ".git/hooks/x.sample": ""})
    return place


def make(place: Path, files: dict[str, str]) -> None:
    """Files with their directories."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def shield_of(project: Path, wishes: Wishes | None = None, claim: Claim | None = None) -> Shield:
    """The shield that a run would have."""
    with Tree(str(project)) as tree:
        return look(tree, "/project", wishes or Wishes(home=str(project.parent)), claim)


def shown(shield: Shield) -> list[str]:
    """What is mounted over itself, each by its way from the project, with how."""
    return [f"{cover.target.removeprefix('/project/')} {'ro' if cover.read_only else 'rw'}" for cover in shield.covers]


def watched(shield: Shield, project: Path) -> set[str]:
    """What is looked at, from the project on."""
    return {item.path.removeprefix(f"{project}/") for item in shield.watched}


PLAIN = [".git rw", ".git/config ro", ".git/hooks ro", ".husky ro", ".pi ro"]


def test_what_there_is_is_covered_and_what_there_is_not_is_watched(project: Path) -> None:
    """With the directories around it over themselves, writable. Missing directories are covered, missing files not."""
    shield = shield_of(project)

    assert shown(shield) == PLAIN
    assert watched(shield, project) == {
        ".envrc", ".husky", ".mcp.json", ".pi", ".vscode/tasks.json", ".git/commondir", ".git/config",
        ".git/config.worktree", ".git/hooks", ".git/info/attributes",
    }  # fmt: skip
    assert sorted(os.listdir(project)) == [".git"]


def test_a_project_without_git_is_left_free_for_git_init(tmp_path: Path) -> None:
    assert shown(shield_of(tmp_path)) == [".husky ro", ".pi ro"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({".git/config.worktree": ""}, [".git/config.worktree ro"], id="config.worktree"),
        pytest.param({".git/commondir": "."}, [".git/commondir ro"], id="commondir"),
        pytest.param({".git/info/attributes": ""}, [".git/info rw", ".git/info/attributes ro"], id="attributes"),
        pytest.param({".envrc": ""}, [".envrc ro"], id="direnv"),
        pytest.param({".mcp.json": ""}, [".mcp.json ro"], id="MCP"),
        pytest.param({".vscode/tasks.json": ""}, [".vscode rw", ".vscode/tasks.json ro"], id="tasks"),
        pytest.param(
            {".git/config": "[core] hooksPath = tools/hooks", "tools/hooks/pre-commit": ""},
            ["tools rw", "tools/hooks ro"],
            id="hooksPath",
        ),
        pytest.param({".git/config": "[core] hooksPath = .husky/_"}, [], id="hooksPath in what is protected"),
        pytest.param(
            {".git/config": "[include] path = ../etc/inc", "etc/inc": "[include] path = b\n", "etc/b": ""},
            ["etc rw", "etc/b ro", "etc/inc ro"],
            id="included files",
        ),
        pytest.param(
            {".git/config.worktree": "[core] hooksPath = w", "w/x": ""},
            [".git/config.worktree ro", "w ro"],
            id="hooksPath of config.worktree",
        ),
        pytest.param({".git/config": "[core] fsmonitor = t/x -a", "t/x": ""}, ["t rw", "t/x ro"], id="fsmonitor"),
        pytest.param({".git/config": "[filter \"f\"] clean = \"t/x\" %f", "t/x": ""}, ["t rw", "t/x ro"], id="filter"),
        pytest.param(
            {".git/config": "[core] sshCommand = ssh -Ft/conf -i key", "t/conf": "", "key": ""},
            ["key ro", "t rw", "t/conf ro"],
            id="the value of a flag",
        ),
        pytest.param({".git/config": "[init] templateDir = t", "t/x": ""}, ["t ro"], id="what new repositories get"),
        pytest.param(
            {".git/config": "[filter \"f\"] clean = python clean.py --x && sh -c 'y.sh'", "clean.py": "", "y.sh": ""},
            ["clean.py ro", "y.sh ro"],
            id="a script at the top",
        ),
        pytest.param(
            {".git/modules/a/b/HEAD": "", ".git/modules/a/b/config": "", "a/b/.git": "gitdir: ../../.git/modules/a/b"},
            [
                ".git/modules rw", ".git/modules/a rw", ".git/modules/a/b rw", ".git/modules/a/b/config ro",
                ".git/modules/a/b/hooks ro", "a rw", "a/b rw", "a/b/.git ro",
            ],
            id="submodule",
        ),
        pytest.param(
            {".git/worktrees/w/commondir": "../..", ".git/worktrees/w/gitdir": "/w/.git"},
            [".git/worktrees rw", ".git/worktrees/w rw", ".git/worktrees/w/commondir ro", ".git/worktrees/w/gitdir ro"],
            id="worktree",
        ),
        pytest.param(
            {"lib/.git/config": "", "lib/.git/HEAD": ""},
            ["lib rw", "lib/.git rw", "lib/.git/config ro", "lib/.git/hooks ro"],
            id="a repository below",
        ),
    ],
)  # fmt: skip
def test_what_git_obeys_is_covered(project: Path, files: dict[str, str], expected: list[str]) -> None:
    make(project, files)

    assert sorted(shown(shield_of(project))) == sorted([*PLAIN, *expected])


def many(project: Path, place: str, count: int, name: str) -> None:
    """As many repositories, as an agent makes them to hide another one among them."""
    for number in range(count):
        make(project, {f"{place}/{number:04}/{name}": ""})


def test_no_crowd_takes_the_protection_from_what_git_obeys(project: Path) -> None:
    """Modules, worktrees and repositories below, all of them before the one that counts."""
    many(project, ".git/modules", 210, "HEAD")
    many(project, ".git/worktrees", 210, "config.worktree")
    many(project, ".", 80, ".git/x")
    make(project, {".git/modules/own/HEAD": "", ".git/modules/own/config": "[core] hooksPath = own", "own/x": ""})
    make(project, {".git/worktrees/own/commondir": "../..", "zlib/.git/config": "[core] hooksPath = zlib/h"})
    make(project, {"zlib/h/x": "", ".gitconfig": "[core] attributesfile = attributes", "attributes": ""})

    shield = shield_of(project, Wishes(home=str(project), git_files=(f"{project}/.gitconfig",)))

    assert set(shown(shield)) >= {
        "attributes ro",
        "own ro",
        ".git/modules/own/config ro",
        ".git/modules/own/hooks ro",
        ".git/worktrees/own/commondir ro",
        "zlib/.git/config ro",
        "zlib/.git/hooks ro",
    }


@pytest.mark.parametrize(
    ("place", "count", "name", "left_out"),
    [
        (".git/modules", 500, "HEAD", ".git/modules/0499"),
        (".git/worktrees", 3001, "x", ".git/worktrees"),
        (".", 500, ".git/x", "0499/.git"),
    ],
    ids=["modules", "worktrees", "repositories"],
)
def test_where_there_are_more_than_are_looked_into_nothing_runs(
    project: Path, place: str, count: int, name: str, left_out: str
) -> None:
    """Which are left out, an agent would choose. What nobody wants protected does not count."""
    many(project, place, count, name)

    with pytest.raises(Unprotected) as refused:
        shield_of(project)
    less = Wishes(home="/h", unprotect=(Setting(left_out, "--unprotect"),))

    assert refused.value.message == (
        f"{project}/{left_out}: there is more of git in {project} than is looked into, so that nothing protects what"
        " git obeys in the rest"
    )
    assert refused.value.hint == f"remove what is not needed there, or add: --unprotect {left_out}"
    assert ".git/config ro" in shown(shield_of(project, less))


def test_a_configuration_that_names_more_than_can_be_watched_is_refused(project: Path) -> None:
    words = "".join(f'[filter "{number}"]\nclean = t/{number}\n' for number in range(5001))
    make(project, {"lib/.git/config": words})

    with pytest.raises(Unprotected, match=r"lib/\.git/config: there is more of git"):
        shield_of(project)


def test_of_a_repository_elsewhere_no_more_is_left_out_either(project: Path) -> None:
    many(project, ".git/modules", 500, "HEAD")

    with (
        Tree(str(project / ".git")) as tree,
        pytest.raises(Unprotected, match=r"\.git/modules/0499: there is more of git"),
    ):
        look(tree, "/r", Wishes(home="/h", work_tree="/w"), None)


def test_a_large_configuration_is_read(project: Path) -> None:
    make(project, {".git/config": '[branch "x"]\nremote = origin\n' * 40_000 + "[core] hooksPath = own", "own/x": ""})

    assert "own ro" in shown(shield_of(project))


def test_a_configuration_that_is_too_large_to_be_read_is_refused(project: Path) -> None:
    make(project, {".git/config": GIT + "#" * 4_000_000})

    with pytest.raises(Unprotected, match=r"\.git/config: there is more of git"):
        shield_of(project)


def test_what_a_configuration_behind_a_link_names_is_covered(project: Path) -> None:
    make(project, {"shared/config": "[core] hooksPath = own", "own/x": ""})
    (project / ".git/config").unlink()
    (project / ".git/config").symlink_to("../shared/config")

    assert {"own ro", "shared/config ro"} <= set(shown(shield_of(project)))


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """A limit that is far below the number of directories in a project."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_descriptors")
@pytest.mark.parametrize("count", [340, 600])
def test_as_many_directories_as_a_process_may_open_take_no_protection_away(project: Path, count: int) -> None:
    many(project, ".", count, "x")
    many(project, ".git/modules", 100, "HEAD")
    make(project, {".git/modules/own/HEAD": "", ".git/modules/own/config": ""})

    assert {".git/config ro", ".git/modules/own/config ro"} <= set(shown(shield_of(project)))


def test_what_cannot_be_opened_for_want_of_descriptors_is_not_taken_for_missing(project: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Tree(str(project)) as tree:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            with pytest.raises(Unavailable, match=r"\.git could not be looked at: Too many open files"):
                tree.status(".git/config")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_is_watched_is_not_taken_for_gone_for_want_of_descriptors(project: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        with pytest.raises(Unavailable, match=r"\.git could not be looked at: Too many open files"):
            watched_at(f"{project}/.git/config", FILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_directory_that_is_watched_has_not_changed_for_want_of_descriptors(project: Path) -> None:
    """However many there are still: it takes some to look at one."""
    make(project, {".git/hooks/x/y": ""})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    for descriptor in spare:
        os.close(descriptor)

    found = []
    for limit in spare:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            with contextlib.suppress(Unavailable):
                found.append(watched_at(f"{project}/.git/hooks", DIRECTORY))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert 0 < len(found) < len(spare)
    assert set(found) == {watched_at(f"{project}/.git/hooks", DIRECTORY)}


@pytest.mark.parametrize("path", [".git", ".git/modules", ".git/worktrees"])
def test_a_directory_that_was_closed_is_refused(project: Path, path: str) -> None:
    """Whoever closed it opens it again inside, where what is in it is not covered."""
    (project / path).mkdir(exist_ok=True)
    (project / path).chmod(0o300)
    try:
        with pytest.raises(Unprotected) as refused:
            shield_of(project)
    finally:
        (project / path).chmod(0o755)

    assert refused.value.message == (
        f"{project}/{path} is closed to you (its mode is 0300), so that nothing protects what is in it"
    )
    assert refused.value.hint == f"open it: chmod u+rx {project}/{path}"


def test_what_other_tools_for_versions_obey_is_covered_and_what_is_new_of_it_listed(project: Path) -> None:
    """`hg status` runs the extensions that are named there."""
    make(project, {".hg/hgrc": "", "a/.jj/repo/config.toml": "", "_darcs/x": ""})
    before = shield_of(project)
    make(project, {"_darcs/prefs/defaults": "", "b/.hg/hgrc": ""})

    found = report(project, before)

    assert {".hg/hgrc ro", "a/.jj/repo/config.toml ro"} <= set(shown(before))
    assert [changed.path for changed in found.protected] == [f"{project}/_darcs/prefs/defaults"]
    assert found.runnable == (("b/.hg/hgrc", "new"),)


def test_a_name_in_a_refusal_is_no_line_of_its_own(project: Path) -> None:
    (project / "a\nall is well").mkdir()
    (project / "a\nall is well/.git").symlink_to("x")

    with pytest.raises(Unprotected) as refused:
        shield_of(project)

    assert refused.value.message.startswith(f"{project}/a\\nall is well/.git is a symbolic link")


def test_a_closed_directory_or_a_crowd_is_no_line_of_its_own_either(project: Path) -> None:
    place = ".git/modules/a\nall is well"
    make(project, {f"{place}/HEAD": "", f"{place}/modules/x": "", f"{place}/config": "#" * 4_000_001})
    refused = []

    for mode in (0o755, 0o300):
        (project / place / "modules").chmod(mode)
        with pytest.raises(Unprotected) as error:
            shield_of(project)
        refused.append(error.value.message)

    (project / place / "modules").chmod(0o755)
    shown_place = f"{project}/{place}".replace("\n", "\\n")
    assert [message.partition(" is closed")[0].partition(": there")[0] for message in refused] == [
        f"{shown_place}/config",
        f"{shown_place}/modules",
    ]


def test_a_crowd_of_modules_that_hides_what_is_new_is_told(project: Path) -> None:
    before = shield_of(project)
    many(project, ".git/modules", 3000, "x")

    assert report(project, before).crowded == (str(project),)


def test_configurations_that_are_too_large_together_are_refused(project: Path) -> None:
    for number in range(5):
        make(project, {f"{number}/.git/config": "#" * 3_500_000})

    with pytest.raises(Unprotected, match=r"4/\.git/config: there is more of git"):
        shield_of(project)


def test_a_directory_of_very_many_files_hides_no_repository(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of them than a bound are listed, in the order of the file system; what repositories are known by is found."""
    for module in ("tree", "survey", "repositories"):
        monkeypatch.setattr(f"aisb.effects.{module}.MOST_NAMES", 20)
    make(project, {f"lib/{number}": "" for number in range(200)} | {f"lib/{name}": "" for name in BARE})
    os.unlink(project / "lib/config")

    with Tree(str(project)) as tree:
        assert len(tree.entries("lib")) == 20
        assert set(survey(tree).repositories) == {".git", "lib"}
    assert {".git/config ro", ".git/hooks ro"} <= set(shown(shield_of(project)))
    many(project, ".git/modules", 21, "HEAD")
    with pytest.raises(Unprotected, match=r"\.git/modules: there is more of git"):
        shield_of(project)


@pytest.mark.parametrize(("kind", "is_fit"), [("9p", False), ("vfat", True)])
def test_a_file_system_that_knows_a_directory_by_two_names_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_fit: bool
) -> None:
    """Unless the kernel knows it as well: on a drive of Windows, say, `.GIT/hooks` is not covered."""
    status = Tree.status
    monkeypatch.setattr(Tree, "status", lambda tree, path: status(tree, path.lower()))
    monkeypatch.setattr("aisb.effects.shield.file_system_of", lambda _path: kind)
    refused = ""

    try:
        shield_of(project)
    except Unprotected as error:
        refused = error.message

    assert refused == (
        ""
        if is_fit
        else f"{project} is on a file system to which .GIT is .git: what is protected by one name could be written by the other"
    )


def test_the_kind_of_a_file_system_is_known(tmp_path: Path) -> None:
    assert file_system_of("/proc") == "proc"
    assert file_system_of(str(tmp_path)) != ""


def test_two_slashes_at_the_beginning_of_a_path_are_one(project: Path) -> None:
    make(project, {"own/x": "", ".git/config": f"[core]\n\thooksPath = /{project}/own\n"})

    assert "own ro" in shown(shield_of(project))


def test_what_is_not_to_be_protected_is_told_when_it_changed(project: Path, tmp_path: Path) -> None:
    less = Wishes(unprotect=tuple(Setting(name, "--unprotect") for name in (".git", ".envrc")), home="/h")
    before = shield_of(project, less)
    time_passes(project / ".git/config")
    make(project, {".git/config": f"{GIT}\tfsmonitor = ./x\n", ".envrc": "x"})
    watch = SimpleNamespace(attempts=set(), events=())

    report = report_of(str(project), before, cast("Watch", watch), f"{tmp_path}/copies")

    assert (report.protected, report.runnable) == ((), ((".envrc", "new"), (".git/config", "changed")))


def test_a_home_is_the_one_of_whose_name_is_there(project: Path) -> None:
    """As git and a shell read `~`: nobody's name is a part of the path."""
    named = "[core]\nhooksPath = {}\nfsmonitor = ~nobody-of-this-name/x\n[include]\npath = ~/etc/inc\n"
    root = pwd.getpwuid(0)
    make(project, {".git/config": named.format(f"~{root.pw_name}/../{project}/own"), "own/x": "", "etc/inc": ""})
    make(project, {"~nobody-of-this-name/x": ""})

    covers = shown(shield_of(project, Wishes(home=str(project))))

    assert [line for line in covers if ".git" not in line] == [
        ".husky ro", ".pi ro", "etc rw", "etc/inc ro", "own ro", "~nobody-of-this-name rw", "~nobody-of-this-name/x ro",
    ]  # fmt: skip


def test_the_users_own_configuration_counts_as_well(project: Path) -> None:
    """Its hooks may be the project's, and it may lie in the project itself, as with people's dotfiles."""
    make(project, {"git/config": "[core] hooksPath = hooks", "hooks/x": ""})
    (project.parent / ".gitconfig").symlink_to("p/git/config")

    wishes = Wishes(home=str(project.parent), git_files=(f"{project.parent}/.gitconfig",))

    assert sorted(shown(shield_of(project, wishes))) == sorted([*PLAIN, "git rw", "git/config ro", "hooks ro"])


@pytest.mark.parametrize("form", ["repository", "worktree", "submodule"])
def test_what_a_repository_around_the_project_names_in_it_is_covered(tmp_path: Path, form: str) -> None:
    """Somebody on the host commits from above."""
    top, own = tmp_path / "top", tmp_path / "top/.git"
    if form != "repository":
        own = tmp_path / "elsewhere"
        make(top, {".git": "gitdir: ../elsewhere\n"})
    if form == "worktree":
        make(own, {"commondir": "common\n", "config.worktree": '[filter "f"] clean = packages/a/clean.sh'})
    else:
        make(own, {"config.worktree": '[filter "f"] clean = packages/a/clean.sh'})
    make(own / "common" if form == "worktree" else own, {"config": "[core] hooksPath = packages/a/own"})
    make(top, {"packages/a/own/x": "", "packages/a/clean.sh": ""})

    assert shown(shield_of(top / "packages/a")) == [".husky ro", ".pi ro", "clean.sh ro", "own ro"]


def test_what_the_users_own_shell_obeys_by_a_link_to_the_project_is_covered(project: Path, tmp_path: Path) -> None:
    """Of somebody who keeps such files in a repository."""
    home = tmp_path / "home"
    make(project, {"bashrc": "", "vim/vimrc": "", "units/x.service": "", "ssh": "", "other": ""})
    make(home, {".config/systemd/user/y.service": "", ".profile": ""})
    for name, target in {".bashrc": "bashrc", ".vim": "vim", ".ssh": "gone", ".config/nvim": "nvim"}.items():
        (home / name).symlink_to(project / target)
    (home / ".config/systemd/user/x.service").symlink_to(project / "units/x.service")

    shield = shield_of(project, Wishes(home="/h", led_to=led_to({"HOME": str(home)})))

    assert set(shown(shield)) - set(PLAIN) == {"bashrc ro", "units rw", "units/x.service ro", "vim ro"}
    assert {"gone/config", "nvim"} <= watched(shield, project)


def test_a_git_directory_that_a_file_names_is_covered_wherever_it_is(project: Path) -> None:
    (project.parent / "src").symlink_to(project.parent)
    make(project, {"lib/.git": "gitdir: ../a/b/c/d/e\n", "a/b/c/d/e/config": "", "f/config": ""})
    make(project, {"other/.git": f"gitdir: {project.parent}/src/p/f\n"})

    assert {"f/config ro", "f/hooks ro", "lib/.git ro", "a/b/c/d/e/config ro", "a/b/c/d/e/hooks ro"} <= set(
        shown(shield_of(project))
    )


def test_a_git_directory_that_is_made_for_a_submodule_is_told(project: Path) -> None:
    """`git submodule update --init` takes what is there, with its hooks."""
    make(project, {".git/modules/old/HEAD": "", ".git/modules/old/hooks/pre-push": ""})
    before = shield_of(project)
    make(project, {".git/modules/a/b/HEAD": "", ".git/modules/a/b/hooks/post-checkout": ""})
    make(project, {".git/modules/a/b/modules/c/HEAD": "", ".git/modules/a/b/modules/c/config": "[core] fsmonitor = x"})
    make(project, {".git/modules/d/HEAD": "", ".git/modules/d/config": "[core] worktree = ../../../d"})

    assert report(project, before).repositories == (
        NewRepository(".git/modules/a/b", (), ("post-checkout",)),
        NewRepository(".git/modules/a/b/modules/c", ("core.fsmonitor=x",), ()),
    )


def test_a_git_directory_that_is_made_where_a_file_names_one_is_told(project: Path) -> None:
    make(project, {"lib/.git": "gitdir: ../a/b/c/d/e\n"})
    before = shield_of(project)
    make(project, {"a/b/c/d/e/HEAD": "", "a/b/c/d/e/config": "[core] fsmonitor = x"})

    assert [changed.path for changed in report(project, before).protected] == [f"{project}/a/b/c/d/e/HEAD"]


FILTER = '[core] hooksPath = own\n[filter "f"] clean = t/clean.sh\n'


def test_in_each_worktree_what_the_configuration_of_all_names_is_covered(project: Path) -> None:
    """Relative paths mean its own; it may lie deeper than anybody looks."""
    place = ".claude/worktrees/w"
    make(project, {".git/config": FILTER, f"{place}/.git": f"gitdir: {project}/.git/worktrees/w\n"})
    make(project, {f"{place}/own/x": "", f"{place}/t/clean.sh": "", ".git/worktrees/w/commondir": "../..\n"})
    make(project, {".git/worktrees/w/gitdir": f"{project}/{place}/.git\n"})

    assert {f"{place}/.git ro", f"{place}/own ro", f"{place}/t/clean.sh ro"} <= set(shown(shield_of(project)))


def test_of_a_worktree_or_submodule_that_is_gone_nothing_is_made(project: Path) -> None:
    """That it came back is told."""
    make(project, {".git/config": FILTER, ".git/modules/s/HEAD": "", "own/x": ""})
    make(project, {".git/modules/s/config": "[core] worktree = ../../../s\n"})
    make(project, {".git/worktrees/w/gitdir": f"{project}/gone/w/.git\n"})
    make(project.parent, {".gitconfig": FILTER})

    shield = shield_of(project, Wishes(home="/h", git_files=(f"{project.parent}/.gitconfig",)))

    assert [line for line in shown(shield) if not line.startswith(".")] == ["own ro"]
    assert "gone/w/.git" in watched(shield, project)


@pytest.mark.parametrize("commondir", ["../..\n", None], ids=["a worktree", "a submodule"])
def test_what_a_repository_elsewhere_names_in_its_work_tree_is_covered(project: Path, commondir: str | None) -> None:
    """Whatever the work tree is in the project, and whether or not the repository names it."""
    own = project.parent / "r/.git/worktrees/w"
    make(project, {"lib/.git": f"gitdir: {own}\n", "lib/own/x": "", "lib/t/clean.sh": ""})
    make(own, {"commondir": commondir} if commondir else {})
    make(project.parent / "r/.git" if commondir else own, {"config": FILTER})

    assert {"lib/.git ro", "lib/own ro", "lib/t/clean.sh ro"} <= set(shown(shield_of(project)))


def test_what_a_configuration_names_by_a_link_to_the_project_is_covered(project: Path) -> None:
    """A home is one, or `~/src`: git goes there."""
    link = project.parent / "src"
    link.symlink_to(project.parent)
    whole = project.parent / "config"
    whole.symlink_to(project / "etc/whole")
    make(project, {"etc/inc": "", "etc/whole": "", "t/clean.sh": "", "own/x": ""})
    make(project, {".git/config": f"[core] hooksPath = {link}/p/own\n[include] path = {link}/p/etc/inc\n"})
    with (project / ".git/config").open("a") as config:
        config.write(f'path = {whole}\n[filter "f"] clean = {link}/p/t/clean.sh')

    assert {"own ro", "etc/inc ro", "etc/whole ro", "t/clean.sh ro"} <= set(shown(shield_of(project)))


def test_the_work_tree_that_a_configuration_names_is_where_its_paths_begin(project: Path) -> None:
    make(project, {".git/config": f"[core] worktree = ../sub\n{FILTER}", "sub/own/x": "", "sub/t/clean.sh": ""})

    assert {"sub/own ro", "sub/t/clean.sh ro"} <= set(shown(shield_of(project)))


def test_the_users_own_configuration_means_each_repository(project: Path) -> None:
    """With its relative paths; a program that is not there is watched for in the first alone."""
    make(project, {"lib/.git/config": "", "lib/own/x": "", "lib/t/clean.sh": "", "more/.git/config": ""})
    make(project.parent, {".gitconfig": FILTER})

    shield = shield_of(project, Wishes(home="/h", git_files=(f"{project.parent}/.gitconfig",)))

    assert {"own ro", "lib/own ro", "lib/t/clean.sh ro", "more/own ro"} <= set(shown(shield))
    assert {"t/clean.sh", "lib/t/clean.sh"} == {path for path in watched(shield, project) if path.endswith("clean.sh")}


def test_what_a_worktree_keeps_of_submodules_is_covered_and_what_is_made_there_told(project: Path) -> None:
    """git has their repositories there, for each worktree its own. Also where the project is that worktree."""
    kept = ".git/worktrees/w/modules"
    make(project, {f"{kept}/a/HEAD": "", f"{kept}/a/config": ""})
    before = shield_of(project)
    with Tree(str(project / ".git")) as tree:
        elsewhere = look(tree, "/r", Wishes(home="/h", work_tree="/w"), None)
    make(project, {f"{kept}/b/HEAD": "", f"{kept}/b/hooks/post-checkout": "", ".git/modules/c/HEAD": ""})
    make(project, {".git/worktrees/w/rebase-merge/git-rebase-todo": "exec x"})

    found, other = report(project, before), report(project, elsewhere)

    assert {f"{kept}/a/config ro", f"{kept}/a/hooks ro"} <= set(shown(before))
    assert {f"/r/{kept[5:]}/a/config", f"/r/{kept[5:]}/a/hooks"} <= {cover.target for cover in elsewhere.covers}
    assert found.repositories == other.repositories == (NewRepository(f"{kept}/b", (), ("post-checkout",)),)
    assert found.runnable == other.runnable == ((".git/worktrees/w/rebase-merge/git-rebase-todo", "new"),)


def test_a_link_is_not_followed_only_watched(project: Path, tmp_path: Path) -> None:
    """Neither at the end of a way nor on it: nothing is mounted for it, made behind it, or read from there."""
    make(tmp_path / "elsewhere", {"config": "[core] hooksPath = stolen", "tasks.json": "", "x": ""})
    (project / ".husky").symlink_to(tmp_path / "elsewhere")
    (project / ".vscode").symlink_to(tmp_path / "elsewhere")
    (project / ".git/config").unlink()
    (project / ".git/config").symlink_to(tmp_path / "elsewhere/config")

    shield = shield_of(project, claim=Claim(f"{tmp_path}/state", str(project)))

    assert shown(shield) == [".git rw", ".git/hooks ro", ".pi ro"]
    assert {".husky", ".vscode/tasks.json", ".git/config"} <= watched(shield, project)
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["config", "tasks.json", "x"]


def test_behind_a_link_that_names_the_project_by_another_is_protected_as_well(project: Path) -> None:
    """As `ln -s $PWD/own .git/hooks` makes it where a shell came to the project by a link; and behind very many."""
    (project.parent / "src").symlink_to(project.parent)
    make(project, {"own/pre-commit": "", "last/x": ""})
    (project / ".git/hooks/x.sample").unlink()
    (project / ".git/hooks").rmdir()
    (project / ".git/hooks").symlink_to(project.parent / "src/p/own")
    (project / ".husky").symlink_to("0")
    for number in range(38):
        (project / f"{number}").symlink_to(f"{number + 1}" if number < 37 else "last")

    assert {"own ro", "last ro"} <= set(shown(shield_of(project)))


def test_behind_a_link_in_the_project_is_protected_as_well(project: Path, tmp_path: Path) -> None:
    """git follows it, and what it leads to was the agent's to write; what it does not lead to is no matter."""
    make(project, {"tools/hooks/pre-commit": "", "editor/tasks.json": "", "tools/commits.conf": GIT})
    (project / ".git/hooks/x.sample").unlink()
    (project / ".git/hooks").rmdir()
    (project / ".git/hooks").symlink_to("../links/hooks")
    (project / "links").mkdir()
    (project / "links/hooks").symlink_to(project / "tools/hooks")
    (project / ".vscode").symlink_to("editor")
    (project / ".pi").symlink_to(".pi")
    (project / ".husky").symlink_to(tmp_path)

    shield = shield_of(project, claim=Claim(f"{tmp_path}/state", str(project)))

    covers = [".git rw", ".git/config ro", "editor rw", "editor/tasks.json ro", "tools rw", "tools/hooks ro"]
    assert shown(shield) == covers
    assert {".git/hooks", ".vscode/tasks.json", ".pi", ".husky"} <= watched(shield, project)
    less = Wishes(unprotect=(Setting("tools/hooks", "--unprotect"),), home="/h")
    assert "tools/hooks ro" not in shown(shield_of(project, less))


@pytest.mark.parametrize("name", ["pre-commit", "large"])
def test_what_was_written_by_another_name_of_a_file_is_told(project: Path, tmp_path: Path, name: str) -> None:
    """A mount over a hook does not keep anybody from writing it by a hard link, nor from setting its time back."""
    make(project, {".git/hooks/pre-commit": "1", "bin/large": "1" * 2_000_000})
    make(project, {".git/config": '[diff "x"]\n\tcommand = bin/large\n'})
    file = project / {"pre-commit": ".git/hooks/pre-commit", "large": "bin/large"}[name]
    (project / "other").hardlink_to(file)
    before, times = shield_of(project), file.stat()
    time_passes(file)
    with (project / "other").open("r+") as opened:
        opened.write("2")
    os.utime(project / "other", ns=(times.st_atime_ns, times.st_mtime_ns))
    watch = SimpleNamespace(attempts=set(), events=())

    report = report_of(str(project), before, cast("Watch", watch), f"{tmp_path}/copies")

    assert [changed.path for changed in report.protected] == [str(file if name == "large" else file.parent)]


def time_passes(file: Path) -> None:
    """Until the clock of that file system has moved on."""
    beside, first = file.with_name("clock"), file.stat().st_ctime_ns
    beside.touch()
    while beside.stat().st_ctime_ns == first:
        beside.touch()
    beside.unlink()


BARE = {"HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": "", "hooks/x.sample": "", "config": GIT}


@pytest.mark.parametrize("place", ["", "lib/"])
def test_a_repository_without_a_work_tree_is_protected_too(tmp_path: Path, place: str) -> None:
    """Whatever its name is: git on the host takes any directory of that form for one."""
    make(tmp_path, {f"{place}{name}": text for name, text in BARE.items()})

    shield = shield_of(tmp_path)

    assert {f"{place}config ro", f"{place}hooks ro"} <= set(shown(shield))


@pytest.mark.parametrize("place", ["", "lib/"])
@pytest.mark.parametrize("form", [["objects/x", "refs/x"], ["commondir"]])
def test_one_that_appeared_is_told_with_what_undoes_it(tmp_path: Path, place: str, form: list[str]) -> None:
    """Its other files may be the user's: without its HEAD it is none."""
    project = tmp_path / "p"
    make(project, {f"{place}mine": ""})
    before = shield_of(project)
    fsmonitor = "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = ./evil\n"
    make(project, {f"{place}{name}": BARE.get(name, "x") for name in ("HEAD", *form)} | {f"{place}config": fsmonitor})
    watch = SimpleNamespace(attempts=set(), events=())

    report = report_of(str(project), before, cast("Watch", watch), f"{tmp_path}/copies")

    where = f"{project}/{place}".rstrip("/")
    line = next(line for line in file_lines(report, str(project)) if "core.fsmonitor=./evil" in line)
    assert line.startswith(f"warning: {where} is a repository, which is new, and git on this machine obeys")
    assert line.endswith(f"; to undo it: rm {where}/HEAD")


def test_a_repository_that_is_a_link_is_refused_unless_it_is_not_to_be_protected(project: Path) -> None:
    """Nothing can be mounted over a link, whether it leads out of the project or not."""
    (project / ".git").rename(project / "repository")
    (project / ".git").symlink_to("repository")
    asked = Wishes(unprotect=(Setting(".git", "--unprotect"),), home="/h")

    with pytest.raises(Unprotected) as refused:
        shield_of(project)

    assert refused.value.message == f"{project}/.git is a symbolic link, so that nothing protects what git obeys"
    assert refused.value.hint == "put the repository itself in its place, or add: --unprotect .git"
    assert shown(shield_of(project, asked)) == [".husky ro", ".pi ro"]


def test_a_repository_that_is_a_link_is_refused_in_a_mount_as_well(project: Path) -> None:
    """There the mount itself can be of another kind."""
    make(project, {"sub/.g/config": GIT})
    (project / "sub/.git").symlink_to(".g")

    with Tree(str(project)) as tree, pytest.raises(Unprotected) as refused:
        look(tree, "/mnt/x", Wishes(home="/h"), None)

    assert refused.value.hint == "put the repository itself in its place, or mount it read-only"


def test_a_repository_that_appeared_as_a_link_is_told(project: Path, tmp_path: Path) -> None:
    """git on the host follows it, to wherever that is."""
    before = shield_of(project)
    make(project, {"lib/x": ""})
    (project / "lib/.git").symlink_to("/home/ada/evil")
    watch = SimpleNamespace(attempts=set(), events=())

    report = report_of(str(project), before, cast("Watch", watch), f"{tmp_path}/copies")

    assert report.repositories == (NewRepository("lib/.git", ("a link to /home/ada/evil",), ()),)


def test_what_a_new_repository_has_elsewhere_or_too_large_is_told(project: Path, tmp_path: Path) -> None:
    """git on the host reads it there, however large it is."""
    before = shield_of(project)
    make(project, {"a/.git/HEAD": "", "a/evil": "", "b/.git/HEAD": "", "b/.git/config": GIT + "#" * 1_000_000})
    (project / "a/.git/config").symlink_to("../evil")
    (project / "a/.git/hooks").symlink_to("../evil.d")
    (project / "b/.git/config.worktree").symlink_to("/e")
    make(project, {"c/.git": "gitdir: ../evil" + "\n" * 1_000_000, "d/.git/commondir": "../evil\n"})
    watch = SimpleNamespace(attempts=set(), events=())

    report = report_of(str(project), before, cast("Watch", watch), f"{tmp_path}/copies")

    assert report.repositories == (
        NewRepository("a/.git", ("config is a link to ../evil", "hooks is a link to ../evil.d"), ()),
        NewRepository(
            "b/.git", ("config is too large to be looked at, or closed", "config.worktree is a link to /e"), ()
        ),
        NewRepository("c/.git", ("a file that is too large to be looked at, or closed",), ()),
        NewRepository("d/.git", ("commondir=../evil",), ()),
    )


def report(project: Path, before: Shield) -> FileReport:
    """What is told at the end, of files that nobody watched."""
    watch = SimpleNamespace(attempts=set(), events=())
    return report_of(str(project), before, cast("Watch", watch), f"{project.parent}/copies")


DEEP = "a/b/c/d/e/sub"


def index(project: Path, directory: str, path: str) -> None:
    """An index with one entry that is a repository."""
    (project / directory).mkdir(parents=True, exist_ok=True)
    (project / directory / "index").write_bytes(index_of({"0": 0o100644, path: 0o160000}))


def test_a_submodule_is_protected_however_deep_it_lies(project: Path) -> None:
    """As the index names it, and so does that of a submodule: git looks into each for its status."""
    index(project, ".git", DEEP)
    index(project, ".git/modules/s", "x/y/z/inner")
    make(project, {".git/modules/s/HEAD": "", f"{DEEP}/.git": "gitdir: ../../../../../../.git/modules/s\n"})
    make(project, {f"{DEEP}/x/y/z/inner/.git/config": ""})

    inner = f"{DEEP}/x/y/z/inner/.git"
    assert {f"{DEEP}/.git ro", f"{inner}/config ro", f"{inner}/hooks ro"} <= set(shown(shield_of(project)))


def test_a_repository_that_is_put_into_the_index_is_told_however_deep_it_lies(project: Path) -> None:
    """The next `git status` on the host runs what its configuration says."""
    before = shield_of(project)
    index(project, ".git", DEEP)
    make(project, {f"{DEEP}/.git/config": "[core] fsmonitor = ./evil"})

    assert report(project, before).repositories == (NewRepository(f"{DEEP}/.git", ("core.fsmonitor=./evil",), ()),)


def test_what_is_new_in_another_writable_directory_is_told_too(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make(other, {"x": ""})
    before = joined([shield_of(project), shield_of(other)])
    fsmonitor = {"lib/.git/config": "[core] fsmonitor = e", "Makefile": ""}
    make(other, fsmonitor)
    make(project, fsmonitor)

    found = report(project, before)

    assert found.repositories == (
        NewRepository("lib/.git", ("core.fsmonitor=e",), ()),
        NewRepository(f"{other}/lib/.git", ("core.fsmonitor=e",), ()),
    )
    assert found.runnable == (("Makefile", "new"), (f"{other}/Makefile", "new"))
    assert f"rm -rf {other}/lib/.git" in "".join(file_lines(found, str(project)))


def test_what_an_index_has_in_a_part_of_its_own_is_told_and_that_one_is_too_large(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shield_of(project)
    index(project, ".git", DEEP)
    os.rename(project / ".git/index", project / ".git/sharedindex.0")
    make(project, {f"{DEEP}/.git/config": "[core] fsmonitor = ./evil"})

    found = report(project, before)
    monkeypatch.setattr("aisb.effects.linked._LARGEST_INDEX", 50)
    other = report(project, before)

    evil = NewRepository(f"{DEEP}/.git", ("core.fsmonitor=./evil",), ())
    assert (found.repositories, found.crowded) == ((evil,), ())
    assert (other.repositories, other.crowded) == ((), (str(project),))


@pytest.mark.parametrize(
    "found",
    [
        FileReport(protected=(Changed("a", was_there=False, is_there=True, is_directory=False, kept=""),)),
        FileReport(repositories=(NewRepository("a", (), ("b",)),)),
        FileReport(crowded=("a",)),
    ],
    ids=["protected", "a repository", "a crowd"],
)
def test_what_a_quiet_run_says_too(found: FileReport) -> None:
    """And what only may be run, it does not."""
    assert (warns(found), warns(FileReport(runnable=(("a", "new"),)))) == (True, False)


@pytest.mark.parametrize("place", ["", "lib/"])
def test_what_looks_like_a_virtual_environment_hides_nothing_that_is_new(project: Path, place: str) -> None:
    make(project, {f"{place}x": ""})
    before = shield_of(project)
    make(project, {f"{place}pyvenv.cfg": "", f"{place}Makefile": "", f"{place}s/.git/config": "[core] fsmonitor = e"})

    found = report(project, before)

    assert found.repositories == (NewRepository(f"{place}s/.git", ("core.fsmonitor=e",), ()),)
    assert found.runnable == ((f"{place}Makefile", "new"), (f"{place}pyvenv.cfg", "new"))


def test_what_tools_obey_below_the_top_is_listed_too(project: Path) -> None:
    """And once, where it is protected at the top."""
    before = shield_of(project)
    paths = [
        ".git/rebase-merge/git-rebase-todo",
        "a/.bazelversion",
        "a/.cargo/config.toml",
        "a/.claude/settings.json",
        "a/.envrc",
        "a/.eslintrc.cjs",
        "a/.irbrc",
        "a/.lfsconfig",
        "a/.prettierrc.yaml",
        "a/.vscode/tasks.json",
        "a/compose.override.yml",
        "a/node_modules/.bin/x",
        "a/x\ny.pth",
        "bunfig.toml",
        "x.code-workspace",
    ]
    make(project, dict.fromkeys([*paths, ".vscode/tasks.json", ".envrc"], ""))

    found = report(project, before)

    assert [path for path, _ in found.runnable] == paths
    assert sorted(changed.path for changed in found.protected) == [f"{project}/.envrc", f"{project}/.vscode/tasks.json"]


def test_a_crowd_that_hides_what_is_new_is_told(project: Path) -> None:
    before = shield_of(project)
    for number in range(5001):
        (project / f"{number}").touch()

    lines = file_lines(report(project, before), str(project))

    assert lines == [
        f"warning: {project} has more files now than are looked through: repositories and other files that may be run"
        " can be new in it, and are not told here"
    ]


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(project: Path) -> None:
    (project / ".git/config").unlink()
    os.mkfifo(project / ".git/config")

    assert ".git/config ro" not in shown(shield_of(project))


def test_more_and_less_is_protected_as_it_was_asked(project: Path) -> None:
    make(project, {"docs/a": "", "ci/run": ""})
    more = (Setting("docs", "--protect"), Setting("ci/run", "--protect"), Setting("new/", "--protect"))
    less = (Setting(".git", "--unprotect"), Setting(".pi/", "--unprotect"))

    shield = shield_of(project, Wishes(protect=more, unprotect=less, home="/h"))

    assert shown(shield) == [".husky ro", "ci rw", "ci/run ro", "docs ro", "new ro"]
    assert not any(path.startswith((".git", ".pi")) for path in watched(shield, project))


def test_what_a_flag_does_not_unprotect_after_all_is_said(project: Path, tmp_path: Path) -> None:
    """Below a protected directory nothing is taken out, nor of a repository that lies elsewhere; a file is for many projects."""
    make(project, {".git/hooks/x": ""})
    less = [Setting(path, "--unprotect") for path in (".git/hooks/x", ".git/config", ".envrc", "src", ".git")]
    filed = Setting("src", "~/.config/ai-sandbox/config.yaml:3")
    (tmp_path / "elsewhere/worktrees/w").mkdir(parents=True)
    beside = tmp_path / "w"
    make(beside, {".git": f"gitdir: {tmp_path}/elsewhere/worktrees/w"})

    assert shield_of(project, Wishes(unprotect=(*less, filed), home="/h")).in_vain == (".git/hooks/x", "src")
    assert shield_of(beside, Wishes(unprotect=(less[1],), home="/h")).in_vain == (".git/config",)
    assert shield_lines((), None, in_vain=["a\x1b"]) == [
        "note: --unprotect a\\x1b changes nothing: no protected path of the project is there, or below (see: aisb policy show)"
    ]


def test_a_flag_for_what_is_not_there_is_said(project: Path) -> None:
    """A directory that is named as one is made; what a file of many projects says is not told."""
    make(project, {"a/b.secret": "", "deep/er/and/x": ""})
    protect = [Setting(path, "--protect") for path in ("a", "a/b.secret", "gone.txt", "new/")]
    filed = Setting("nowhere", "~/.config/ai-sandbox/config.yaml:3")
    masks = ("*.secret", "*.none", "deep/er/and/x", "deep/er/and/y")

    shield = shield_of(
        project, Wishes(protect=(*protect, filed), masks=(*masks, "*.filed"), named_masks=masks, home="/h")
    )

    assert shield.unmatched == (("--protect", "gone.txt"), ("--mask", "*.none"), ("--mask", "deep/er/and/y"))
    assert shield_lines((), None, unmatched=[("--mask", "*\x1b"), ("--protect", "gone.txt")]) == [
        "note: --mask *\\x1b matches nothing in the project (a name is looked for in its upper levels)",
        "note: --protect gone.txt protects nothing: no such path is in the project, and what is made there can be written",
    ]


@pytest.mark.parametrize("text", ["", "/", ".", "..", "../x", "a/../b", "/etc", "a//b", "./a", "a\nb", "x" * 5000])
def test_what_is_no_path_below_the_project_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--protect {text!r} is not a path below the project")):
        parse_place(text, "--protect")


def test_what_lies_below_a_protected_directory_is_protected_with_it() -> None:
    a, b, c = Protected("a", DIRECTORY), Protected("a/b", FILE), Protected("ab", FILE)

    assert once([c, b, a, b]) == [a, c]
    assert without([a, b, c], [Protected("a", FILE)]) == [c]


def test_missing_directories_are_made_and_the_last_run_removes_them(project: Path, tmp_path: Path) -> None:
    """Two runs, ending in either order; what is not empty by then is somebody's."""
    state = f"{tmp_path}/state"
    first, second = Claim(state, str(project)), Claim(state, str(project))
    for claim in (first, second):
        claim.take()
        shield_of(project, claim=claim)
    assert sorted(os.listdir(project)) == [".git", ".husky", ".pi"]

    first.release()
    first.release()
    assert sorted(os.listdir(project)) == [".git", ".husky", ".pi"]
    make(project, {".pi/mine": ""})
    second.release()

    assert sorted(os.listdir(project)) == [".git", ".pi"]
    assert [name for name in os.listdir(f"{state}/made") if name.endswith(".json")] == []


def test_what_was_tried_in_vain_is_said_with_what_would_let_it() -> None:
    """Of the repository of a worktree nothing would: it is no part of the project."""
    report = FileReport((), attempts=(".git/config", "/r/.git/config"))

    assert file_lines(report, "/p") == [
        "something inside tried to write .git/config, which is protected; to let it: --unprotect .git/config",
        "something inside tried to write /r/.git/config, which is protected and no part of the project",
    ]


def test_of_names_that_are_no_text_what_became_of_it_is_told_and_kept(project: Path) -> None:
    """By a copy of its own for each, however long the way to it is. What lies there now may be a link: it is replaced."""
    places = [os.fsdecode(b"caf\xe9"), *(f"{letter}/{'long' * 50}" for letter in "ab")]
    make(project, {f"{place}/.git/config": f"[core]\nx = {place}\n" for place in places[1:]})
    make(project, {f"{places[0]}/.git/config": "[core]\nx = c\n"})
    before = shield_of(project)
    make(project, {f"{place}/.git/config": "" for place in places})

    lines = file_lines(report(project, before), str(project))
    subprocess.run(["bash", "-c", "\n".join(line.rpartition("to undo it: ")[2] for line in lines)], check=True)

    assert [line.count(", which is protected, has changed") for line in lines] == [1, 1, 1]
    assert [(project / place / ".git/config").read_text() for place in places] == [
        "[core]\nx = c\n",
        *(f"[core]\nx = {place}\n" for place in places[1:]),
    ]


def test_what_undoes_a_change_writes_through_no_link(project: Path, tmp_path: Path) -> None:
    before = shield_of(project)
    (tmp_path / "mine").write_text("mine")
    (project / ".git/config").unlink()
    (project / ".git/config").symlink_to(tmp_path / "mine")

    (line,) = file_lines(report(project, before), str(project))
    subprocess.run(["bash", "-c", line.rpartition("to undo it: ")[2]], check=True)

    assert ((tmp_path / "mine").read_text(), (project / ".git/config").read_text()) == ("mine", GIT)


def test_the_command_that_undoes_it_does_that_alone_whatever_a_directory_is_called() -> None:
    """The name is the agent's: no shell code of its own, and no flag."""
    found = NewRepository("\x01;touch${IFS}x;/.git", ("core.fsmonitor=./evil",), ())
    report = FileReport(
        (Changed("-rf/.envrc", was_there=False, is_there=True, is_directory=False, kept=""),), repositories=(found,)
    )

    appeared, repository = file_lines(report, "/p")

    assert appeared.endswith("; to undo it: rm ./-rf/.envrc")
    assert repository.endswith(r"; to undo it: rm -rf $'/p/\001;touch${IFS}x;/.git'")


def test_what_was_made_is_removed_from_a_project_that_was_renamed(project: Path, tmp_path: Path) -> None:
    """And an empty directory of the one that has taken its place stays."""
    claim = Claim(f"{tmp_path}/state", str(project))
    claim.take()
    shield_of(project, claim=claim)
    moved = project.rename(tmp_path / "moved")
    (project / ".husky").mkdir(parents=True)

    claim.release()

    assert (os.listdir(moved), os.listdir(project)) == ([".git"], [".husky"])


def test_what_killed_runs_left_is_gone_when_the_next_run_of_any_project_begins(project: Path, tmp_path: Path) -> None:
    """The kernel has taken their locks away; those of a living run hold."""
    state = f"{tmp_path}/state"
    killed = Claim(state, str(project))
    killed.take()
    shield_of(project, claim=killed)
    remove_left_over(state)
    assert (project / ".husky").is_dir()

    os.close(killed.held)
    remove_left_over(state)

    assert sorted(os.listdir(project)) == [".git"]


def test_the_next_run_of_the_project_removes_what_it_does_not_need(project: Path, tmp_path: Path) -> None:
    killed = Claim(f"{tmp_path}/state", str(project))
    killed.take()
    shield_of(project, claim=killed)
    os.close(killed.held)

    again = Claim(f"{tmp_path}/state", str(project))
    again.take()

    assert sorted(os.listdir(project)) == [".git"]
    again.release()


def test_a_directory_that_cannot_be_made_is_watched(project: Path, tmp_path: Path) -> None:
    """In its place is a file of the user's own."""
    make(project, {".husky": ""})

    shield = shield_of(project, claim=Claim(f"{tmp_path}/state", str(project)))

    assert ".husky ro" not in shown(shield)
    assert ".husky" in watched(shield, project)


def _remembered(state: str, project: Path, found: list[str]) -> list[str]:
    claim = Claim(state, str(project))
    together = claim.seen_before({"secrets": found}, lambda path: (project / path).exists())
    claim.release()
    return together["secrets"]


def test_what_is_remembered_of_a_project_is_bounded(project: Path, tmp_path: Path) -> None:
    """No crowd pushes out what is known and there; what is gone makes room first."""
    make(project, {"a/.env": ""})
    state = f"{tmp_path}/state"
    first = _remembered(state, project, ["a/.env", "gone/.env"])
    crowd = [f"{number}/.env" for number in range(299)]

    more = _remembered(state, project, crowd[:2])
    full = _remembered(state, project, crowd)
    still = _remembered(state, project, ["x/.env"])

    assert first == ["a/.env", "gone/.env"]
    assert more == ["a/.env", *crowd[:2], "gone/.env"]
    assert full == ["a/.env", *crowd]
    assert still == ["a/.env", "x/.env", *crowd[:298]]


def test_so_many_projects_are_remembered_and_those_longest_without_a_run_are_forgotten(tmp_path: Path) -> None:
    """A run counts that found nothing new."""
    state = f"{tmp_path}/state"
    for number in range(200):
        make(tmp_path / f"{number}", {".env": ""})
        _remembered(state, tmp_path / f"{number}", [".env"])
    for number, file in enumerate(sorted((tmp_path / "state/made").glob("*.seen"))):
        os.utime(file, ns=(number, number))
    oldest, older = sorted((tmp_path / "state/made").glob("*.seen"))[:2]
    of_oldest = next(p for p in range(200) if oldest.name == f"{_key(f'{tmp_path}/{p}')}.seen")
    _remembered(state, tmp_path / f"{of_oldest}", [".env"])

    _remembered(state, tmp_path, ["0/.env"])

    assert len(list((tmp_path / "state/made").glob("*.seen"))) == 200
    assert oldest.exists()
    assert not older.exists()
