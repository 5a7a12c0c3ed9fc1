"""The command line from outside: what is printed where, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.cli.help import run_help
from aisb.cli.main import _asked_for_help, _say
from aisb.cli.output import say
from aisb.cli.request import read_request
from aisb.cli.run import need_gate_network, wishes_of
from aisb.cli.splitter import split
from aisb.cli.verbs import run_verb
from aisb.domain.options import OPTIONS
from aisb.effects.host import need_own_home
from aisb.effects.situation import read_ca_bundle
from aisb.errors import Unavailable, Untrusted, UsageError
from tests.fakes import FakeRunner, said
from tests.image_values import CERTIFICATE
from tests.image_world import make_shop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

VERBS = frozenset({"run", "allow", "build", "deny", "init", "policy", "trust", "version"})
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def aisb(
    *arguments: str, stdout: int = subprocess.PIPE, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "aisb", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        timeout=60,
        check=False,
    )


def test_help_fits_a_screen() -> None:
    assert len(aisb("--help").stdout.decode().splitlines()) <= 24


@pytest.mark.parametrize(
    "words",
    [
        [*verb, "--help"]
        for verb in (
            *(
                (),
                ("run",),
                ("learn",),
                ("logs",),
                ("build",),
                ("version",),
                ("allow",),
                ("deny",),
                ("trust",),
                ("init",),
            ),
            *(("policy",), ("policy", "check"), ("policy", "show"), ("policy", "presets")),
        )
    ],
)
def test_no_help_is_wider_than_a_screen(words: list[str]) -> None:
    assert [line for line in aisb(*words).stdout.decode().splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [(), ("run",), ("exec",), ("logs",), ("version",), ("gate", "status"), ("policy",)])
def test_help_as_a_word_prints_what_the_flag_prints(words: tuple[str, ...]) -> None:
    by_word, by_flag = aisb("help", *words), aisb(*words, "--help")

    assert (by_word.returncode, by_word.stdout, by_word.stderr) == (0, by_flag.stdout, b"")


@pytest.mark.parametrize("first", [(), ("--dry-run",), ("--detach",), ("run", "-q")])
def test_no_run_begins_without_a_protection_that_was_misspelt(first: tuple[str, ...]) -> None:
    done = aisb(*first, "--readonly", "--net", "none", "--", "true")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines()[-3:-1] == [
        "aisb: aisb has no flag --readonly",
        "aisb:   did you mean --read-only?",
    ]


@pytest.mark.parametrize("words", [["help", "me"], ["help", "run", "tests"], ["run", "help"], ["helpful"], [""], []])
def test_help_before_other_words_is_a_prompt(words: list[str]) -> None:
    assert _asked_for_help(words) is None


def test_every_option_is_in_the_help_of_run() -> None:
    assert [option.name for option in OPTIONS if f"--{option.name}" not in run_help()] == []


def test_a_reader_that_left_is_no_trouble() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    done = aisb("--help", stdout=writer)

    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


ANSWERS = pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["run", "--help"],
        ["--version"],
        ["version"],
        ["build", "--help"],
        ["--net", "none", "--no-cwd", "--dry-run"],
        ["--print-entrypoint", "--no-cwd"],
    ],
    ids=" ".join,
)


@ANSWERS
def test_an_answer_that_cannot_be_written_is_a_failure_in_one_line(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = aisb(*words, stdout=full.fileno())

    assert (done.returncode, done.stderr) == (1, b"aisb: stdout could not be written: No space left on device\n")


@ANSWERS
def test_an_answer_on_a_closed_stdout_is_a_failure_in_one_line(words: list[str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "aisb", *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, b"aisb: stdout could not be written: Bad file descriptor\n")


@pytest.mark.parametrize(
    ("words", "environ", "message", "hint"),
    [
        (["--net", "nome"], {}, "--net 'nome' is not a mode", "write: allow, none or full"),
        ([], {"AISB_NET": "nome"}, "AISB_NET 'nome' is not a mode", "write: allow or none"),
        (
            ["--net", "none", "--allow", "a.test"],
            {},
            "--allow has no meaning under --net none",
            "leave one of the two out",
        ),
        (
            ["--allow", "a.test"],
            {"AISB_NET": "none"},
            "--allow has no meaning under AISB_NET=none",
            "add: --net allow",
        ),
        (
            ["--env", "XX,YY"],
            {},
            "--env 'XX,YY' is not the name of a variable",
            "--env takes one name; write: --env XX --env YY",
        ),
        (
            ["--net", "none", "--proxy", "http://p.test:1"],
            {},
            "--proxy has no meaning under --net none",
            "leave one of the two out",
        ),
        (
            ["--net", "full", "--proxy-auth", "VAR"],
            {"AISB_PROXY": "http://p.test:1"},
            "--proxy-auth has no meaning under --net full",
            "leave one of the two out",
        ),
        (
            ["--proxy", "http://u:s@p.test:1"],
            {},
            "--proxy: a user and a password in a URL can be read in the list of processes and in files",
            "write: --proxy http://p.test:1 --proxy-auth VAR, where VAR holds user:password",
        ),
        (
            ["--proxy", "p.test:1"],
            {},
            "--proxy 'p.test:1' is not the URL of a proxy",
            "write: https://HOST:PORT or http://HOST:PORT",
        ),
        (["--proxy-auth", "VAR"], {}, "--proxy-auth: there is no proxy", "add: --proxy https://HOST:PORT"),
        (
            ["--proxy-auth", "user:secret"],
            {"AISB_PROXY": "http://p.test:1"},
            "--proxy-auth: this is not the name of a variable",
            "write: --proxy-auth VAR, where VAR holds user:password",
        ),
        (["--env", "XX,-"], {}, "--env 'XX,-' is not the name of a variable", "write: --env AI_API_TOKEN"),
        (
            [],
            {"AISB_NET": "full"},
            "AISB_NET=full: an open network is never a default",
            "give the flag: --net full; or, for a list of hosts, take the variable away: unset AISB_NET",
        ),
    ],
)
def test_what_to_write_instead(words: list[str], environ: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(split(words, VERBS), environ)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        ([], {"AISB_NET": "full"}, "AISB_NET=full: an open network is never a default"),
        (["--env", "HOME"], {}, "--env HOME: the sandbox has a HOME of its own"),
        (["--env", "https_proxy"], {}, "--env https_proxy: the sandbox has a https_proxy of its own"),
        (["--env", "1A=secret"], {}, "--env '1A=...' is not the name of a variable"),
        (["--env", "A=@B-C"], {}, "--env A=@...: after @ stands the name of a variable of yours"),
        (["--env", "1A"], {}, "--env '1A' is not the name of a variable"),
        (["--project", ""], {}, "--project is empty"),
        (["--project", "x", "--no-cwd"], {}, "--project and --no-cwd exclude each other"),
        (["--shell", "x"], {}, "--shell takes no command"),
        (["--gate-network", "host"], {}, "--gate-network 'host' is not the name of a network"),
        ([], {"AISB_GATE_NETWORK": "host"}, "AISB_GATE_NETWORK 'host' is not the name of a network"),
        (["--gate-idle", "0"], {}, "--gate-idle '0' is not a number of seconds"),
        ([], {"AISB_GATE_IDLE": "soon"}, "AISB_GATE_IDLE 'soon' is not a number of seconds"),
        (["--net", "nome"], {"AISB_NET": "none"}, "--net 'nome' is not a mode"),
        ([], {"AISB_NET": "nome"}, "AISB_NET 'nome' is not a mode"),
        (["--base-image", "x"], {}, "--base-image 'x' is not a base image"),
        (
            [],
            {"AISB_BASE_IMAGE": "bootstrap:sid"},
            "AISB_BASE_IMAGE 'bootstrap:sid': there is no such suite to make a base from",
        ),
        ([], {"AISB_NODE_SOURCE": "nvm"}, "AISB_NODE_SOURCE 'nvm' is no source of Node"),
        ([], {"AISB_QUIET": "maybe"}, "AISB_QUIET='maybe' is neither on nor off"),
    ],
)
def test_a_request_that_cannot_be_meant(words: list[str], environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(split(words, VERBS), environ)
    assert caught.value.message == message


def test_the_command_line_is_stronger_than_the_environment() -> None:
    environ = {"AISB_NET": "allow", "AISB_BASE_IMAGE": "bootstrap:bookworm", "AISB_QUIET": "1"}

    request = read_request(split(["--net", "none", "--base-image", "bootstrap:trixie"], VERBS), environ)

    assert (request.wanted.net, request.wanted.base_image, request.has("quiet")) == ("none", "bootstrap:trixie", True)


def test_the_last_of_a_value_counts_and_lists_add_up() -> None:
    request = read_request(
        split(["--net", "none", "--net", "allow", "--allow", "a.test", "--allow", "b.test"], VERBS), {}
    )

    assert (request.wanted.net, [text for text, _ in request.wanted.allow]) == ("allow", ["a.test", "b.test"])


def test_where_a_value_was_written_is_remembered() -> None:
    words = split(["--net", "none", "--project", "/x"], VERBS)

    request = read_request(words, {"AISB_NET": "allow", "AISB_CA_BUNDLE": "/ca.pem"})

    assert dict(request.origins) == {"net": "--net", "project": "--project", "ca-bundle": "AISB_CA_BUNDLE"}
    assert request.origin("gate-network") == "--gate-network"


@pytest.mark.parametrize(
    ("origin", "path", "message"),
    [
        ("AISB_CA_BUNDLE", "ca.pem", "AISB_CA_BUNDLE {}/ca.pem lies in the project, where the agent can change it"),
        ("--ca-bundle", "ca.pem", "--ca-bundle {}/ca.pem lies in the project, where the agent can change it"),
        ("--ca-bundle", "out/ca.pem", "--ca-bundle {}/out/ca.pem lies in the project, where the agent can change it"),
        ("--ca-bundle", "up/ca.pem", "--ca-bundle {}/up/ca.pem lies in the project, where the agent can change it"),
        (
            "--ca-bundle",
            "../in/ca.pem",
            "--ca-bundle {}/../in/ca.pem lies in the project, where the agent can change it",
        ),
        (
            "--ca-bundle",
            "../to/ca.pem",
            "--ca-bundle {}/../to/ca.pem lies in the project, where the agent can change it",
        ),
        ("AISB_CA_BUNDLE", "../none.pem", "AISB_CA_BUNDLE {}/../none.pem: No such file or directory"),
        ("AISB_CA_BUNDLE", "../empty.pem", "AISB_CA_BUNDLE {}/../empty.pem holds no certificate"),
    ],
)
def test_a_bundle_is_refused_by_the_name_it_came_by(tmp_path: Path, origin: str, path: str, message: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "empty.pem").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ca.pem").write_text(CERTIFICATE)
    # By an absolute and a relative link in the project, and by two outside that lead through the first.
    (project / "out").symlink_to(tmp_path / "elsewhere")
    (project / "up").symlink_to("../elsewhere")
    (tmp_path / "in").symlink_to("project/out")
    (tmp_path / "to").symlink_to(project / "out")

    with pytest.raises((UsageError, Untrusted)) as caught:
        read_ca_bundle(f"{project}/{path}", str(project), origin)
    assert caught.value.message == message.format(project)


def test_a_bundle_outside_of_the_project_may_lie_behind_links(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "ca.pem").write_text(CERTIFICATE)
    (tmp_path / "link").symlink_to("real")

    text = read_ca_bundle(f"{tmp_path}/project/../link/./ca.pem", str(tmp_path / "project"))

    assert text == f"{CERTIFICATE}\n"


@pytest.mark.parametrize(
    ("words", "message", "verb"),
    [
        (["build", "--bogus"], "it has no flag --bogus", "build"),
        (["build", "--install"], "the flag '--install' needs a value", "build"),
        (["build", "--quiet=3"], "the flag '--quiet' does not take a value", "build"),
        (["version", "foo"], "it takes no argument (foo)", "version"),
    ],
)
def test_a_verb_refuses_in_the_form_of_all_refusals(words: list[str], message: str, verb: str) -> None:
    done = aisb(*words)

    assert (done.returncode, done.stdout, done.stderr.decode()) == (
        2,
        b"",
        f"aisb: aisb {verb}: {message}\naisb:   see: aisb {verb} --help\n",
    )


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["policy", "show", "--allow", "", "--allow", "a.test"], "aisb policy show: --allow is empty", "policy show"),
        (["policy", "check", "evil.test", "--allow", ""], "aisb policy check: --allow is empty", "policy check"),
        (["policy", "check", "evil.test", "--allow="], "aisb policy check: --allow is empty", "policy check"),
        (["policy", "presets", ""], "aisb policy presets: an argument is empty", "policy presets"),
        (["logs", ""], "aisb logs: an argument is empty", "logs"),
        (["logs", "--since", ""], "aisb logs: --since is empty", "logs"),
        (["allow", "a.test", "--run", ""], "aisb allow: --run is empty", "allow"),
        (["build", "--ca-bundle="], "aisb build: --ca-bundle is empty", "build"),
    ],
)
def test_an_empty_argument_of_a_verb_is_refused(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_verb(words[0], words[1:])
    assert (caught.value.message, caught.value.hint) == (message, f"an empty variable? see: aisb {hint} --help")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["policy"], "aisb policy: it needs a word: check, show or presets", "see: aisb policy --help"),
        (["policy", "show", "--x"], "aisb policy show: it has no flag --x", "see: aisb policy show --help"),
        (["policy", "check", "--alow", "x"], "aisb policy check: it has no flag --alow", "did you mean --allow?"),
        (["logs", "--denyed"], "aisb logs: it has no flag --denyed", "did you mean --denied?"),
        (["gate", "up", "--porject=x"], "aisb gate up: it has no flag --porject", "did you mean --project?"),
        (["policy", "show", "--network", "none"], "aisb policy show: it has no flag --network", "did you mean --net?"),
        (["policy", "xyzzy", "--x"], "aisb policy: it knows no word 'xyzzy'", "see: aisb policy --help"),
        (["policy", "chekc", "a b"], "aisb policy: it knows no word 'chekc'", "write: aisb policy check 'a b'"),
        (["policy", "Show"], "aisb policy: it knows no word 'Show'", "write: aisb policy show"),
        (["policy", "show", "x"], "aisb policy show: it takes no argument (x)", "see: aisb policy show --help"),
        (
            ["policy", "check", "a.test", "GET"],
            "aisb policy check: the target comes last, and GET is a method",
            "write: aisb policy check GET a.test",
        ),
        (
            ["policy", "check", "GET"],
            "aisb policy check: the target comes last, and GET is a method",
            "write: aisb policy check GET https://HOST/",
        ),
        (
            ["policy", "check", "GTE", "https://a.test/"],
            "aisb policy check: 'GTE' is not a method",
            "write: aisb policy check GET https://a.test/",
        ),
        (
            ["policy", "check", "get", "https://a.test/"],
            "aisb policy check: 'get' is not a method",
            "write: aisb policy check GET https://a.test/",
        ),
        (
            ["policy", "check", "XYZZY", "https://a.test/"],
            "aisb policy check: 'XYZZY' is not a method",
            "one of: DELETE GET HEAD OPTIONS PATCH POST PUT",
        ),
        (
            ["logs", "--project", "/nope"],
            "/nope is not a directory",
            "name the project's own directory: --project DIR",
        ),
        (
            ["build", "--ca-bundle", "/nope.pem"],
            "--ca-bundle /nope.pem: No such file or directory",
            "name a file of PEM certificates",
        ),
    ],
)
def test_what_to_write_for_a_verb_instead(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_verb(words[0], words[1:])
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_verb_names_the_variable_that_a_value_came_by() -> None:
    done = aisb("build", environ={"AISB_BASE_IMAGE": "x"})

    assert (done.returncode, done.stderr) == (
        2,
        b"aisb: AISB_BASE_IMAGE 'x' is not a base image\naisb:   write: x:latest\n",
    )


NOTHING_YET = (
    b"aisb: nothing is allowed yet: name the hosts that the agent may reach\n"
    b"aisb:   write: aisb --allow llm.example.com, or --net none for no network at all\n"
)
REFUSED = b"aisb: a run would be refused: " + NOTHING_YET.removeprefix(b"aisb: ")


@pytest.mark.parametrize(
    ("words", "code", "first", "error"),
    [
        (["--print-entrypoint"], 0, b"#!/bin/sh -eu", b""),
        (["--print-nft"], 0, b"# What may leave this sandbox.", b""),
        (["--print-containerfile"], 0, b"# The sandbox's image:", b""),
        (["--print-policy"], 0, b"base_image=", REFUSED),
        (["--print-squid"], 2, b"", NOTHING_YET),
        (["--print-nft", "--dry-run"], 2, b"", NOTHING_YET),
        (
            ["--net", "none", "--print-nft", "--print-squid"],
            2,
            b"",
            b"aisb: --print-squid: there is no gate under --net none\naisb:   leave one of the two out\n",
        ),
        (
            ["--allow", "*", "--print-nft"],
            2,
            b"",
            b"aisb: --allow '*': this is every host\naisb:   name the hosts, or have no filter at all: --net full\n",
        ),
    ],
)
def test_what_does_not_depend_on_the_list_is_shown_without_one(
    words: list[str], code: int, first: bytes, error: bytes
) -> None:
    done = aisb(*words, "--no-cwd")

    assert (done.returncode, done.stdout[: len(first)], done.stderr) == (code, first, error)
    assert bool(done.stdout) == (code == 0)


def test_a_policy_that_allows_nothing_yet_is_shown_as_that(tmp_path: Path) -> None:
    """By the verb as by the flag: everything else of it is there, and that a run would be refused is said beside it."""
    here = ("--project", str(tmp_path))
    printed = aisb("--print-policy", *here)
    shown = aisb("policy", "show", *here)
    as_json = aisb("policy", "show", "--json", *here)

    assert [(done.returncode, done.stderr) for done in (printed, shown, as_json)] == 3 * [(0, REFUSED)]
    lines = shown.stdout.decode().splitlines()
    assert printed.stdout == shown.stdout
    assert [line for line in lines if line.startswith(("allow", "net="))] == ["net=allow"]
    assert json.loads(as_json.stdout)["policy"] == dict(line.split("=", 1) for line in lines)


def test_a_home_that_is_not_there_is_named(tmp_path: Path) -> None:
    """podman would fail in it without a word."""
    with pytest.raises(Unavailable) as caught:
        need_own_home({"HOME": f"{tmp_path}/none"})
    assert caught.value.message == f"HOME {tmp_path}/none is not a directory"
    need_own_home({"HOME": str(tmp_path)})


def test_a_network_of_the_gates_that_is_not_there_is_named(tmp_path: Path) -> None:
    request = read_request(split(["--gate-network", "none-such"], VERBS), {})
    by_variable = read_request(split([], VERBS), {"AISB_GATE_NETWORK": "none-such"})

    for asked, origin in ((request, "--gate-network"), (by_variable, "AISB_GATE_NETWORK")):
        with pytest.raises(Unavailable) as caught:
            need_gate_network(asked, make_shop(tmp_path, FakeRunner(said("", code=1))))
        assert (caught.value.message, caught.value.hint) == (
            f"{origin} none-such: podman has no such network",
            "see: podman network ls",
        )
    need_gate_network(request, make_shop(tmp_path, FakeRunner(said(""))))
    need_gate_network(read_request(split([], VERBS), {}), make_shop(tmp_path, FakeRunner()))


def test_the_flags_of_a_run(golden: Callable[[str, str], None]) -> None:
    golden("help/run", run_help())
    golden("help/screen", aisb("--help").stdout.decode())
    golden("help/learn", aisb("learn", "--help").stdout.decode())
    golden("help/policy", aisb("policy", "--help").stdout.decode())
    golden("help/build", aisb("build", "--help").stdout.decode())
    golden("help/update", aisb("update", "--help").stdout.decode())
    golden("help/inspect", aisb("inspect", "--help").stdout.decode())


def test_previews_without_a_gate_show_its_ruleset_and_no_gate(tmp_path: Path) -> None:
    """Nothing is looked up for them: the ruleset says which names will be. There is no squid to show."""
    flags = ("--no-gate", "--no-cwd", "--allow", "allowed.test", "--allow", "10.1.2.3:5432")
    home = {"HOME": str(tmp_path)}

    shown = aisb(*flags, "--print-nft", "--dry-run", environ=home).stdout.decode()
    squid = aisb(*flags, "--print-squid", environ=home)

    assert "\t#   allowed.test, port 80, 443\n" in shown
    assert "\t\tip daddr 10.1.2.3 tcp dport 5432 accept\n" in shown
    assert [
        word for word in ("--network pasta:--no-map-gw", "/run/pins\n", "aisb-gate", "gate.sock") if word in shown
    ] == [
        "--network pasta:--no-map-gw",
        "/run/pins\n",
    ]
    assert (squid.returncode, squid.stdout) == (2, b"")
    assert b"--print-squid: there is no gate with --no-gate" in squid.stderr


def test_only_a_line_feed_begins_a_line_of_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    _say(UsageError("what\x0b", hint="a\x0baisb: all is well\nb"))

    assert capsys.readouterr().err == "aisb: what\\x0b\naisb:   a\\x0baisb: all is well\naisb:   b\n"


def test_what_files_of_the_home_lead_to_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".bashrc").symlink_to("p/bashrc")

    wishes = wishes_of(read_request(split(["--net", "none", "--shell"], VERBS), {}, ()), ())

    assert (wishes.git_files[:1], wishes.led_to) == ((f"{tmp_path}/.gitconfig",), (f"{tmp_path}/p/bashrc",))


def test_only_a_line_feed_of_ours_begins_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Of what divides lines elsewhere, a name or a link of the agent's may hold any."""
    say("one\ntwo\x0b\x0c\x1c\x85\u2028aisb: all is well\n")

    assert capsys.readouterr().err == "aisb: one\naisb: two\\x0b\\x0c\\x1c\\x85\\u2028aisb: all is well\n"
