"""What a run that learnt is told, and what is proposed after it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.cli.learn import learn
from aisb.cli.request import read_request
from aisb.cli.splitter import Split, split
from aisb.domain.allow_file import parse_allow_file
from aisb.domain.egress import EgressPolicy
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.layers import USER, Layer, Setting
from aisb.domain.learned import Failed, Learned, Reached, Wider, learned
from aisb.domain.options import CONFIGURABLE, LEARN_OPTIONS, OPTIONS
from aisb.domain.records import Record, read_record
from aisb.domain.rules import LEARNED, PROBED, Engine
from aisb.effects.learn import open_output, save_proposed, write_output
from aisb.errors import Unavailable, Untrusted, UsageError
from aisb.render.learned import command_with, proposal

if TYPE_CHECKING:
    from pathlib import Path

VERBS = frozenset({"run", "learn", "logs"})
NOTHING = read_record('{"decision": "allow"}')
assert NOTHING is not None
LEARNING = Engine(*EgressPolicy(learn=True))


def reached(host: str, port: int, failed: str = "") -> Record:
    assert NOTHING is not None
    return NOTHING._replace(host=host, port=port, rule=LEARNED, failed=failed)


@pytest.mark.parametrize(
    ("host", "port"),
    [("a.test", 80), ("a.test", 443), ("203.0.113.10", 80), ("2001:db8::10", 443), ("github.io", 443), ("8.8.8.8", 443)],
)  # fmt: skip
def test_everything_public_is_open_on_the_two_ports_of_the_web(host: str, port: int) -> None:
    verdict = LEARNING.judge(host, port)

    assert (verdict.allowed, verdict.rule) == (True, LEARNED)
    assert not Engine().judge(host, port).allowed


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "127.0.0.1", "0.0.0.0", "169.254.169.254", "169.254.1.2",
        "198.18.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "fd00:ec2::254", "::ffff:8.8.8.8",
        "64:ff9b::808:808", "2002:808:808::1", "2001::1", "localhost", "x.localhost", "host.aisb.internal", "refused.aisb.internal",
        "aisb.internal", "router", *PROBED,
    ],
)  # fmt: skip
def test_what_is_private_or_aisbs_own_stays_closed(host: str) -> None:
    assert [LEARNING.judge(host, port).allowed for port in (80, 443)] == [False, False]


@pytest.mark.parametrize("port", [1, 22, 25, 79, 81, 442, 444, 3128, 5432, 8080, 8443, 65535])
def test_other_ports_stay_closed(port: int) -> None:
    assert not LEARNING.judge("a.test", port).allowed
    assert not LEARNING.judge("203.0.113.10", port).allowed


def test_what_an_entry_or_a_rule_decides_it_decides_as_ever() -> None:
    entries = ("a.test", "b.test:22", "10.0.0.5:443", "GET c.test/x")
    learning = Engine(*gather((parse_entry(text), "") for text in entries).policy._replace(learn=True))

    assert [learning.judge(*place).rule for place in (("a.test", 443), ("b.test", 22), ("10.0.0.5", 443))] == [
        "a.test", "b.test:22", "10.0.0.5:443",
    ]  # fmt: skip
    assert learning.judge("b.test", 443).rule == LEARNED
    assert not learning.judge("c.test", 22).allowed
    assert learning.is_bumped("c.test")


def test_names_resolve_and_the_hello_has_to_agree() -> None:
    assert [LEARNING.judge_name(name).allowed for name in ("a.test", "router", "refused.aisb.internal")] == [
        True, False, False,
    ]  # fmt: skip
    assert LEARNING.judge_tls("a.test", 443, "a.test").allowed
    assert LEARNING.judge_tls("a.test", 443, "b.test").reason == "name-mismatch"
    assert LEARNING.judge_tls("a.test", 443, "").reason == "not-tls"


def test_the_smallest_set_is_proposed_with_how_often_it_was_needed() -> None:
    records = [
        *3 * [reached("a.example.com", 443)],
        reached("a.example.com", 80),
        reached("b.example.com", 443),
        reached("c.test", 443),
        reached("203.0.113.10", 80),
        reached("2001:db8::10", 443),
        reached("gone.test", 443, "unresolved"),
        reached("c.test", 80, "unanswered"),
        reached("listed.test", 443)._replace(rule="listed.test"),
        reached("evil.test", 443)._replace(allowed=False, rule=""),
    ]

    assert learned(records) == Learned(
        (
            Reached("203.0.113.10:80", 1, (80,)),
            Reached("[2001:db8::10]:443", 1, (443,)),
            Reached("exact:a.example.com", 4, (80, 443)),
            Reached("exact:b.example.com", 1, (443,)),
            Reached("exact:c.test", 1, (443,)),
        ),
        (Wider("example.com", 2),),
        (Failed("gone.test:443", "unresolved"),),
        is_whole=True,
    )


def test_a_preset_is_recognised_by_what_it_allows() -> None:
    presets = {
        "npm": ("exact:a.example.com",),
        "both": ("exact:a.example.com", "below:example.com", "203.0.113.10:80"),
        "other": ("exact:example.com", "a.example.com:22"),
        "empty": (),
    }
    found = learned(
        [
            reached("a.example.com", 443),
            reached("b.example.com", 80),
            reached("203.0.113.10", 80),
            reached("c.test", 80),
        ],
        presets,
    )

    assert found.wider == (Wider("@both", 3), Wider("@npm", 1), Wider("example.com", 2))


def test_what_a_forged_record_names_is_not_proposed() -> None:
    hosts = (
        "A.test",
        "$(id)",
        "a.test,evil.test",
        "a.test # x",
        "a\n.test",
        "router",
        "*.test",
        "",
        "127.0.0.1",
        "10.0.0.256",
    )
    records = [reached(host, 443) for host in hosts]

    assert learned(records).reached == ()


def test_a_full_record_is_said() -> None:
    assert NOTHING is not None
    cut_off = NOTHING._replace(allowed=False, method="AUDIT", reason="limit")

    assert not learned([reached("a.test", 443), cut_off]).is_whole
    assert "# The record was full: what came later is not here.\n" in proposal(learned([cut_off]), ["x"])


def test_the_list_is_one_that_aisb_reads() -> None:
    found = learned([
        *2 * [reached("a.example.com", 443)], reached("b.example.com", 80), reached("gone.test", 443, "unresolved"),
    ])  # fmt: skip
    command = ["npm", "test", "it's\nevil.test\x1b[2J"]
    text = proposal(found, command)

    assert text == (
        "# What this reached while everything public was open: npm test 'it'\"'\"'s\\nevil.test\\x1b[2J'\n"
        "# Nothing of it is allowed yet. Take out what you do not know.\n"
        "exact:a.example.com  # 2 times, port 443\n"
        "exact:b.example.com  # 1 time, port 80\n"
        "# Shorter, and wider:\n"
        "#   example.com  # in the place of 2\n"
        "# Not proposed, because nothing came of it:\n"
        "#   gone.test:443 is allowed, but its name does not resolve\n"
    )
    assert [entry for entry, _ in parse_allow_file(text.encode(), "x")] == [
        "exact:a.example.com",
        "exact:b.example.com",
    ]
    assert command_with(found, (), ("--", *command)) == ""
    assert (
        command_with(found, ("--allow", "c.test"), ("--", "npm", "a b"))
        == "aisb --allow c.test --allow exact:a.example.com,exact:b.example.com -- npm 'a b'"
    )  # fmt: skip


def test_nothing_learnt_is_said_too() -> None:
    text = proposal(learned([]), ["true"])

    assert text.splitlines()[-1] == "# Nothing that was not allowed already."
    assert command_with(learned([]), (), ("--", "true")) == ""


def test_the_line_of_learn_is_a_runs_with_flags_of_its_own() -> None:
    words = ["learn", "--allow", "a.test", "--yes", "--output=o", "--save", "-q", "--", "npm", "--yes"]

    assert split(words, VERBS) == Split(
        "learn",
        (("allow", "a.test"), ("quiet", "")),
        ("npm", "--yes"),
        (),
        own_flags=(("yes", ""), ("output", "o"), ("save", "")),
    )


@pytest.mark.parametrize("flag", ["--yes", "--save", "--output"])
def test_a_run_knows_none_of_these_flags(flag: str) -> None:
    assert split([flag, "x"], VERBS).harness == (flag, "x")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["npm", "test"], "aisb learn takes a command after --", "aisb learn -- npm test"),
        (["--save", "npm", "a b"], "aisb learn takes a command after --", "aisb learn FLAG... -- npm 'a b'"),
        (["--foo", "--", "x"], "aisb learn has no flag --foo", "aisb learn FLAG... -- COMMAND ARG..."),
        (["--"], "there is no command after --", "aisb learn -- COMMAND"),
        (["--output", "--", "x"], "--output needs a value", "--output FILE"),
        (["--save=x", "--", "x"], "--save takes no value", "--save"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(["learn", *words], VERBS)
    assert (caught.value.message, caught.value.hint) == (message, f"write: {hint}")


@pytest.mark.parametrize("words", [[], ["--allow", "a.test"], ["--save", "--no-cwd", "--", "x"]])
def test_without_a_command_or_a_place_nothing_is_started(words: list[str]) -> None:
    with pytest.raises(UsageError):
        learn(split(["learn", *words], VERBS), VERBS)


def test_a_variable_goes_in_only_with_yes() -> None:
    """Whether a flag names it or the configuration does."""
    configured = Layer(USER, {}, {"env": (Setting("TOKEN", "config.yaml:2"),)})
    given, plain = split(["learn", "--env", "TOKEN", "--", "x"], VERBS), split(["learn", "--", "x"], VERBS)

    for line, files, where in ((given, (), "--env TOKEN"), (plain, (configured,), "config.yaml:2: env TOKEN")):
        with pytest.raises(UsageError, match=f"{where}: what runs under aisb learn could send it"):
            read_request(line, {}, files)
        with_yes = line._replace(own_flags=(("yes", ""),))
        assert read_request(with_yes, {}, files).wanted.learn
    assert not read_request(split(["--env", "TOKEN", "--", "x"], VERBS), {}).wanted.learn


@pytest.mark.parametrize("mode", ["none", "full"])
def test_there_is_nothing_to_learn_without_a_gate(mode: str) -> None:
    with pytest.raises(UsageError, match=f"aisb learn has no meaning under --net {mode}"):
        read_request(split(["learn", "--net", mode, "--", "x"], VERBS), {})
    narrowed = Layer(USER, {"net": Setting("none", "config.yaml:1")}, {})
    with pytest.raises(UsageError, match="aisb learn has no meaning under net: none"):
        read_request(split(["learn", "--", "x"], VERBS), {}, (narrowed,))


def test_nothing_but_the_verb_can_ask_for_it() -> None:
    names = {option.name for option in OPTIONS}

    assert names.isdisjoint({"learn", *(option.name for option in LEARN_OPTIONS)})
    assert "learn" not in CONFIGURABLE
    assert not read_request(split(["--", "x"], VERBS), {"AISB_LEARN": "1"}).wanted.learn


def test_the_list_is_saved_beside_the_allow_list(tmp_path: Path) -> None:
    for text in ("exact:a.test\n", "exact:b.test\n"):
        path = save_proposed(str(tmp_path), text)
        assert (tmp_path / ".ai-sandbox/allow.proposed").read_text() == text
    assert path == str(tmp_path / ".ai-sandbox/allow.proposed")
    assert os.listdir(tmp_path / ".ai-sandbox") == ["allow.proposed"]


def test_no_link_that_an_agent_left_is_followed(tmp_path: Path) -> None:
    """Not in the place of the directory, of the file, or of what it is written to first."""
    elsewhere, project = tmp_path / "elsewhere", tmp_path / "p"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    project.mkdir()
    (project / ".ai-sandbox").symlink_to(elsewhere)
    with pytest.raises(UsageError):
        save_proposed(str(project), "x")

    (project / ".ai-sandbox").unlink()
    (project / ".ai-sandbox").mkdir()
    for name in ("allow.proposed", ".allow.proposed.new"):
        (project / ".ai-sandbox" / name).symlink_to(elsewhere / "file")
    save_proposed(str(project), "x")

    assert (project / ".ai-sandbox/allow.proposed").read_text() == "x"
    assert not (project / ".ai-sandbox/allow.proposed").is_symlink()
    assert [(path.name, path.read_text()) for path in elsewhere.iterdir()] == [("file", "mine")]


def test_what_cannot_be_saved_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / ".ai-sandbox/allow.proposed").mkdir(parents=True)

    with pytest.raises(Unavailable, match=r"allow.proposed could not be written"):
        save_proposed(str(tmp_path), "x")


def test_the_list_takes_the_place_of_what_a_file_held(tmp_path: Path) -> None:
    """And where the path leads is decided before the run."""
    (tmp_path / "o").write_text("something longer than that")
    descriptor = open_output(str(tmp_path / "o"), "/elsewhere", "/volumes")
    (tmp_path / "o").rename(tmp_path / "moved")
    (tmp_path / "o").symlink_to(tmp_path / "elsewhere")
    write_output(descriptor, "exact:a.test\n")

    assert (tmp_path / "moved").read_text() == "exact:a.test\n"
    assert not (tmp_path / "elsewhere").exists()


def test_a_user_who_may_run_nothing_leaves_no_file(tmp_path: Path) -> None:
    """Root, and whoever has a home that is somebody else's: the file is opened for a run alone."""
    done = subprocess.run(
        [sys.executable, "-m", "aisb", "learn", "--output", str(tmp_path / "o"), "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "HOME": "/nowhere"},
        timeout=60,
        check=False,
    )

    assert (done.returncode, os.listdir(tmp_path)) == (69, []), done.stderr


def test_a_file_that_cannot_be_written_is_an_error_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--output .*/none/o: No such file or directory"):
        open_output(str(tmp_path / "none" / "o"), "/elsewhere", "/volumes")
    with pytest.raises(Unavailable, match="the list could not be written"):
        write_output(open_output("/dev/full", "/elsewhere", "/volumes"), "x")


def test_an_earlier_agent_does_not_decide_where_the_list_goes(tmp_path: Path) -> None:
    """A link that it left in the project leads nowhere, and a pipe holds nobody up."""
    project, mine = tmp_path / "project", tmp_path / "mine"
    project.mkdir()
    mine.write_text("mine")
    (project / "link").symlink_to(mine)
    (project / "directory").symlink_to(tmp_path)
    os.mkfifo(project / "pipe")

    for name in ("link", "directory/mine"):
        with pytest.raises(Untrusted, match="leads through the project to"):
            open_output(str(project / name), str(project), "/volumes")
    with pytest.raises(Untrusted, match="where agents write their homes"):
        open_output(str(project / "list"), "/elsewhere", str(project))
    with pytest.raises(UsageError, match="pipe cannot be written: No such device or address"):
        open_output(str(project / "pipe"), str(project), "/volumes")

    write_output(open_output(str(project / "list"), str(project), "/volumes"), "exact:a.test\n")
    assert ((project / "list").read_text(), mine.read_text()) == ("exact:a.test\n", "mine")
