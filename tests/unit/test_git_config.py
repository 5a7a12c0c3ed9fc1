"""Git's configuration read as text."""

from __future__ import annotations

import pytest

from aisb.domain.git_config import (
    Setting,
    attribute_paths,
    hooks_paths,
    include_paths,
    parse_git_config,
    program_paths,
    runs_something,
)

TEXT = """\
; a comment
[core]
\thooksPath = .githooks   # where they are
\tFSMonitor = "tools/watch \\"x\\" ; y"
[includeIf "gitdir:~/firm/"] path = ../own.inc
[include]
path=a\\
b.inc
[alias "x y"]
\tbare
[filter "lfs"]
\tclean = git-lfs clean -- %f
\tsmudge = 'scripts/smudge' --fast
[Alias]
\tl = !./scripts/lint "$@"
\tst = status
[core] attributesfile = etc/attributes
"""


def test_every_setting_is_read_as_git_reads_it() -> None:
    """Quotes, comments, continued lines, keys behind their section, and what has no value."""
    assert parse_git_config(TEXT) == (
        Setting("core.hookspath", ".githooks"),
        Setting("core.fsmonitor", 'tools/watch "x" ; y'),
        Setting("includeif.gitdir:~/firm/.path", "../own.inc"),
        Setting("include.path", "ab.inc"),
        Setting("alias.x y.bare", "true"),
        Setting("filter.lfs.clean", "git-lfs clean -- %f"),
        Setting("filter.lfs.smudge", "'scripts/smudge' --fast"),
        Setting("alias.l", "!./scripts/lint $@"),
        Setting("alias.st", "status"),
        Setting("core.attributesfile", "etc/attributes"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n# a comment \\\nfsmonitor = ./x\n",
        "[core]\n; a comment \\\r\nfsmonitor = ./x\n",
        "[core] # a comment \\\nfsmonitor = ./x\n",
        '[a "#"]\nb = "#" ; c \\\n[core]\nfsmonitor = ./x\n',
    ],
    ids=["a line of its own", "ends of Windows", "behind a section", "behind a value"],
)
def test_a_comment_ends_with_its_line_whatever_is_at_its_end(text: str) -> None:
    """git joins no line to a comment: a backslash there hides nothing of what follows."""
    assert parse_git_config(text)[-1] == Setting("core.fsmonitor", "./x")


def test_what_looks_like_a_comment_within_quotes_is_continued() -> None:
    assert parse_git_config('[a]\nb = "# \\\n\\"; \\\nc = d" e\n') == (Setting("a.b", '# "; c = d e'),)


def test_what_is_blank_elsewhere_is_part_of_a_value() -> None:
    """git names the directory with it, and there is another one without."""
    assert parse_git_config("[a]\r\n\tb = own\x0b\r\n c=\xa0d\x85 \n") == (
        Setting("a.b", "own\x0b"),
        Setting("a.c", "\xa0d\x85"),
    )


def test_of_very_many_sections_in_a_line_the_last_one_counts() -> None:
    assert parse_git_config("[a]" * 300_000 + ' [b "C"] x = y') == (Setting("b.C.x", "y"),)


def test_what_it_names_is_found() -> None:
    settings = parse_git_config(TEXT)

    assert hooks_paths(settings) == [".githooks"]
    assert include_paths(settings) == ["../own.inc", "ab.inc"]
    assert attribute_paths(settings) == ["etc/attributes"]
    assert program_paths(settings) == ["tools/watch", "scripts/smudge", "./scripts/lint"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("core.fsmonitor", "true", False),
        ("core.fsmonitor", "./x", True),
        ("core.hookspath", "x", True),
        ("core.sshcommand", "ssh -i x", True),
        ("alias.st", "status", False),
        ("alias.st", "status -sb", False),
        ("alias.st", "!id", True),
        ("alias.st", "-c core.fsmonitor=./x status", True),
        ("alias.st", "difftool --extcmd=./x -y", True),
        ("protocol.allow", "always", True),
        ("protocol.ext.allow", "Never", False),
        ("gc.recentobjectshook", "./x", True),
        ("lfs.customtransfer.x.path", "./x", True),
        ("filter.x.process", "y", True),
        ("diff.x.textconv", "y", True),
        ("include.path", "y", True),
        ("includeif.onbranch:main.path", "y", True),
        ("credential.https://a.test.helper", "!x", True),
        ("user.name", "x", False),
        ("remote.origin.url", "ext::sh -c id", False),
        ("branch.main.merge", "refs/heads/main", False),
    ],
)
def test_what_may_run_a_program(name: str, value: str, expected: bool) -> None:
    assert runs_something(Setting(name, value)) is expected
