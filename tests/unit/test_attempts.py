"""`aisb doctor --deep` without a sandbox: its table, what is taken for an answer, its ground, and how it is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aisb.cli.configured import need_configuration
from aisb.cli.deep import _request as request_of
from aisb.cli.doctor import doctor_verb
from aisb.domain.answers import answer_text
from aisb.domain.attempts import (
    ATTEMPTS,
    BOMB,
    BUMPED,
    FAIL,
    GATE,
    HOST,
    LONGEST_REPORT,
    NEVER_TRIED,
    OWNED,
    PASS,
    RAW_V6,
    SANDBOX,
    STARTS,
    UNHEARD,
    UNTOUCHED,
    UNTRIED,
    WORK,
    Result,
    Seen,
    has_failed,
    judge,
    not_started,
    parse_report,
    with_attempts,
)
from aisb.domain.doctor import WARN, Finding, as_json
from aisb.effects.deep import COMMAND, WORDS, ground, left_out, program
from aisb.effects.machine import Machine
from aisb.effects.process import Command, SystemRunner
from aisb.effects.session import start_time
from aisb.effects.state import directories
from aisb.errors import Unavailable
from aisb.render.doctor import attempt_lines
from gate import attempts
from tests.unit.test_answers import faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.effects.deep import Ground

ROOT = Path(__file__).parents[2]
# What is seen of each where its wall is down, or where it does not work.
WRONG = {
    STARTS: "podman could not start the sandbox (it exited 125)",
    "raw connections, IPv4": "silence",
    RAW_V6: "ENETUNREACH",
    "QUIC and other datagrams": "EPERM, silence",
    "ICMP": "sent",
    "another resolver, by UDP": "another resolver, no such name",
    "another resolver, by TCP": "silence",
    "another resolver, by TLS": "silence",
    "the cloud's metadata": "200",
    "the host's loopback": "no answer",
    "the host's addresses": "no answer, reset",
    "the host's abstract sockets": "connected",
    "the network around": "silence",
    UNHEARD: "2 connections",
    "vsock": "ENODEV",
    "sockets past the rules": "EAFNOSUPPORT, EPERM",
    "raw sockets": "done",
    "a name that is not allowed": "200",
    "CONNECT to an address": "200",
    "CONNECT to a private address": "403, 503",
    "SNI of another host": "a server's word, cut",
    "Host of another host": "200, 403",
    "a second request to another host": "200 200",
    "a redirect to a private address": "200 403, 400, 403, 503",
    "a name that turns inward": "no answer",
    BUMPED: "done",
    "the gate's own pages": "200, 403, the server's",
    "the gate's socket": "done",
    "a placeholder to another host": "200",
    "the secret behind a placeholder": "found",
    "lifting the rules": "done; EHOSTUNREACH",
    "routes and network devices": "done; reset",
    "capabilities": "CapEff",
    "set-id and becoming root": "EPERM, done",
    "devices": "done",
    "mounts": "done",
    "namespaces": "EPERM, done",
    "odd doors of the kernel": "EINVAL",
    "ptrace and the relay's memory": "done",
    BOMB: "as many as were wanted",
    "aisb's own files": "done",
    "git's hooks and configuration": "done",
    "renaming what holds them": "done",
    "links out of the project": "done",
    UNTOUCHED: "changed",
    "an allowed name resolves": "gaierror",
    "HTTP, without knowing of a proxy": "403",
    "HTTP by the proxy's variable": "503",
    "TLS, without knowing of a proxy": "cut",
    "TLS by the proxy's variable": "cut",
    "the gate by its socket": "403",
    "a refusal says why": "no",
    "a refusal comes at once": "late",
    "a server of one's own": "EPERM",
    "files in the project": "EACCES",
    OWNED: "no",
    "git in the project": "exit 128",
    "the home": "no",
    "temporary files": "EROFS",
    "variables, byte for byte": "no",
    "the user's name": "no",
    "terminals": "ENOENT",
    "processes, threads and signals": "no",
    "devices that everybody has": "EACCES",
    "certificates": "no",
}
LINE = b'{"attempt": "vsock", "seen": "EAFNOSUPPORT", "seconds": 0.5}'


def verdicts(found: dict[str, Seen], untried: dict[str, str] | None = None) -> dict[str, str]:
    return {result.attempt: result.verdict for result in judge(found, untried or {})}


def test_each_attempt_has_a_case() -> None:
    assert list(WRONG) == [attempt.name for attempt in ATTEMPTS]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_an_attempt_passes_by_what_is_right_and_by_nothing_else(attempt: object) -> None:
    name, right = attempt.name, attempt.right  # type: ignore[attr-defined]  # an Attempt

    for seen in right:
        assert verdicts({name: Seen(seen, 0.1)})[name] == PASS
    for seen in (WRONG[name], "", "pass", *(f"{seen} " for seen in right)):
        (result,) = (item for item in judge({name: Seen(seen, 0.1)}, {}) if item.attempt == name)
        assert (result.verdict, result.evidence, bool(result.means)) == (FAIL, seen or "nothing", True)


def test_what_is_tried_is_what_is_judged() -> None:
    """Nothing is tried that nobody looks at, and nothing is judged that nobody tries."""
    tried = [name for group in (*attempts.SIDE_BY_SIDE, attempts.AT_THE_END) for name in group]

    assert sorted(tried) == sorted(attempt.name for attempt in ATTEMPTS if attempt.where == SANDBOX)
    assert list(attempts.IN_THE_GATE) == [attempt.name for attempt in ATTEMPTS if attempt.where == GATE]
    assert sorted(attempts.names()) == sorted({*attempts.names()})
    assert {attempt.name for attempt in ATTEMPTS if attempt.where == HOST} == {
        STARTS, UNHEARD, UNTOUCHED, OWNED, *NEVER_TRIED,
    }  # fmt: skip


def test_what_nothing_is_said_of_has_failed() -> None:
    """Could not tell is no proof."""
    assert set(verdicts({}).values()) == {FAIL}
    assert all(result.means for result in judge({}, {}))


def test_what_was_not_tried_says_why_and_is_no_pass() -> None:
    results = {result.attempt: result for result in judge({BOMB: Seen("EAGAIN", 0.1)}, {BOMB: "nothing would end it"})}

    assert results[BOMB] == Result(BOMB, "attack", UNTRIED, 0.0, "nothing would end it")
    git = {result.attempt: result for result in judge({"git in the project": Seen("no git", 0.1)}, {})}
    assert git["git in the project"] == Result("git in the project", WORK, UNTRIED, 0.1, "no git in the image")


def test_where_no_sandbox_starts_one_line_says_why() -> None:
    results = not_started("podman was not found")

    failed = [(item.attempt, item.evidence) for item in results if item.verdict == FAIL]
    assert failed == [(STARTS, "podman was not found")]
    assert {item.evidence for item in results if item.verdict == UNTRIED} == {f"see: {STARTS}"}


def test_a_report_is_read_as_it_was_written() -> None:
    other = b'{"attempt": "terminals", "seen": "yes", "seconds": 1e-05}'

    assert parse_report(LINE + b"\n" + other + b"\n", SANDBOX) == {
        "vsock": Seen("EAFNOSUPPORT", 0.5),
        "terminals": Seen("yes", 1e-05),
    }


@pytest.mark.parametrize(
    "text",
    [
        b"",
        LINE + b"\n" + LINE,
        LINE + b"\n" + LINE.replace(b"EAFNOSUPPORT", b"x"),
        LINE[:-1],
        b"[" + LINE + b"]",
        b"[" * 100000,
        LINE.replace(b"vsock", b"another"),
        LINE.replace(b"vsock", STARTS.encode()),
        LINE.replace(b"vsock", b"a name that turns inward"),
        LINE.replace(b'"vsock"', b'["vsock"]'),
        LINE.replace(b'"vsock"', b"1"),
        LINE.replace(b'"EAFNOSUPPORT"', b"null"),
        LINE.replace(b"EAFNOSUPPORT", b"x" * 101),
        LINE.replace(b"EAFNOSUPPORT", b"\\u001b[2J"),
        LINE.replace(b"EAFNOSUPPORT", b"\\u00e9"),
        LINE.replace(b"EAFNOSUPPORT", b"\xff"),
        LINE.replace(b"0.5", b"NaN"),
        LINE.replace(b"0.5", b"-0.5"),
        LINE.replace(b"0.5", b"1e300"),
        LINE.replace(b"0.5", b"true"),
        LINE.replace(b"0.5", b'0.5, "more": 1'),
        LINE.replace(b', "seconds": 0.5', b""),
        b" " * LONGEST_REPORT + b"\n" + LINE,
    ],
)
def test_what_is_of_no_such_form_is_not_said(text: bytes) -> None:
    """What comes from a sandbox is the agent's: the right word in a line of another form proves nothing."""
    assert parse_report(text, SANDBOX) == {}


def test_a_sandbox_does_not_speak_for_its_gate() -> None:
    line = LINE.replace(b"vsock", b"a name that turns inward")

    assert parse_report(line, SANDBOX) == {}
    assert parse_report(LINE, GATE) == {}
    assert parse_report(line, GATE) == {"a name that turns inward": Seen("EAFNOSUPPORT", 0.5)}


RESULTS = [
    Result("one", "attack", PASS, 0.012, "EPERM"),
    Result("another", "attack", FAIL, 1.5, "done\x1b[2J", "it is open"),
    Result("third", "attack", UNTRIED, 0.0, "there is none"),
    Result("fourth", WORK, PASS, 0.0, "yes"),
]


def test_it_is_said_in_a_line_each_with_its_time_and_what_it_means() -> None:
    assert attempt_lines(RESULTS, colour=False) == [
        "",
        "tried from inside, and held off:",
        "pass       one       0.01 s  EPERM",
        "FAIL       another   1.50 s  done\\x1b[2J",
        "                             -> it is open",
        "not tried  third     0.00 s  there is none",
        "",
        "what has to work inside:",
        "pass       fourth    0.00 s  yes",
        "",
        "4 attempts: 1 fail, 1 not tried, 2 pass",
    ]
    coloured = attempt_lines(RESULTS, colour=True)
    assert [line.partition("m")[0] for line in coloured[2:4]] == ["\x1b[32", "\x1b[31"]


def test_programs_are_told_all_of_it() -> None:
    document = with_attempts(as_json([Finding("x", WARN, "y", "z")]), RESULTS)

    assert faults("doctor", answer_text(document)) == []
    assert (document["verdict"], document["attempts"][1]) == (
        "fail",
        {
            "attempt": "another",
            "kind": "attack",
            "verdict": "fail",
            "seconds": 1.5,
            "evidence": "done\x1b[2J",
            "means": "it is open",
        },
    )
    assert with_attempts(as_json([Finding("x", WARN, "y", "z")]), RESULTS[:1])["verdict"] == "warn"
    assert (has_failed(RESULTS), has_failed(RESULTS[:1] + RESULTS[2:])) == (True, False)


def test_where_a_run_would_be_refused_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/nowhere")

    code = doctor_verb(json_wanted=False, strict=False, deep=True)
    lines = capsys.readouterr().out.splitlines()
    json_code = doctor_verb(json_wanted=True, strict=False, deep=True)
    document = json.loads(capsys.readouterr().out)

    assert (code, lines[-2:]) == (69, ["a run would be refused here", "nothing was tried: a run would be refused"])
    assert (json_code, document["verdict"], document["attempts"]) == (69, "fail", [])


@pytest.fixture
def run() -> Iterator[str]:
    """A runtime directory, which has a short path."""
    with tempfile.TemporaryDirectory(prefix="run-") as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, run: str) -> Iterator[Ground]:
    home = tmp_path / "home"
    home.mkdir()
    where = directories({"HOME": str(home), "XDG_RUNTIME_DIR": run})
    with ground(where) as made:
        yield made
    assert (os.listdir(run), os.listdir(where.cache)) == ([], [])


def test_a_runtime_directory_may_be_too_long_for_it(tmp_path: Path) -> None:
    """It needs some bytes more than a run does: that is said, and not met as an error of a socket's."""
    # A run's may have 64 bytes.
    with tempfile.TemporaryDirectory(prefix=(64 - 8 - 1 - len(tempfile.gettempdir())) * "x") as long:
        where = directories({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": long})
        with pytest.raises(Unavailable, match="is too long for a socket's path"), ground(where):
            pass
        assert os.listdir(long) == []


def test_what_a_killed_one_has_left_goes_with_the_next(tmp_path: Path, run: str) -> None:
    """And nothing else does: not what belongs to one that goes on, nor what only looks like it."""
    cache = tmp_path / ".cache/ai-sandbox"
    mine = f"deep-{os.getpid()}-{start_time('self')}-0000"
    others = ["deep-", "deep-x-1-0000", "doctor-1-1-0000", f"deep-{os.getpid()}-1"]
    for name in ("deep-1-1-0000", f"deep-{os.getpid()}-1-0000", mine, *others):
        (cache / name / "project").mkdir(parents=True)

    with ground(directories({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": run})) as made:
        there = set(os.listdir(cache)) - {Path(made.project).parent.name}

    assert there == {mine, *others} == set(os.listdir(cache))


GOOD = {OWNED: "yes", UNTOUCHED: "as it was", UNHEARD: "nothing"}


def seen(place: Ground) -> dict[str, str]:
    return {name: found.seen for name, found in place.seen().items()}


def test_the_ground_tells_what_became_of_it(place: Ground) -> None:
    """A hook, a file beside the project, a connection to this machine: each is seen from outside."""
    before = seen(place)
    Path(place.project, "made").write_text("")
    good = seen(place)
    Path(place.outside, "new").write_text("")
    with_file = seen(place)
    Path(place.outside, "new").unlink()
    hook = Path(place.project, ".git/hooks/pre-commit")
    text = hook.read_text()
    hook.write_text("#!/bin/sh\nexec evil\n")
    with_hook = seen(place)
    hook.write_text(text)

    assert before == {**GOOD, OWNED: "no"}
    assert (good, seen(place)) == (GOOD, GOOD)
    assert (with_file, with_hook) == ({**GOOD, UNTOUCHED: "changed"},) * 2


def test_whoever_comes_out_is_heard(place: Ground) -> None:
    given = place.given("somebody", {})
    for address in (*map(tuple, place.listeners.places), f"\0{place.listeners.abstract}"):
        family = (
            socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        )
        with socket.socket(family) as client:
            client.connect(address)
            # Until it was taken, counted and let go.
            assert client.recv(1) == b""

    assert (given["listening"], given["abstract"]) == (place.listeners.places, place.listeners.abstract)
    assert place.listeners.places
    assert seen(place)[UNHEARD] == f"{len(place.listeners.places) + 1} connections"


def test_the_program_that_goes_in_is_whole_and_does_not_hold_the_secret(place: Ground) -> None:
    """It comes with its length and all its modules, for a Python that sees no file of ours."""
    given = place.given("somebody", {}) | {"where": "gate", "left_out": list(attempts.IN_THE_GATE)}
    words = program(given)
    done = SystemRunner().run(Command((sys.executable, *COMMAND[1:]), 60, input=words))

    assert (done.code, done.stdout, done.stderr) == (0, b"", b"")
    assert place.secret.encode() not in words
    assert given["hash"] in words.decode()


FORK_BOMB = """
import os, resource, sys
from gate.attempts_rules import ATTEMPTS
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
if sys.argv[1] == "capped":
    # Counted over all processes of this user, of which this is one.
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
print(ATTEMPTS["a fork bomb"]({"most_processes": 20}))
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("nobody is left")
"""


@pytest.mark.parametrize(("how", "seen"), [("capped", "EAGAIN"), ("open", "as many as were wanted")])
def test_a_fork_bomb_ends_by_itself_and_says_what_ended_it(how: str, seen: str) -> None:
    """Here it is the limit of a user; in a sandbox the kernel gives the same answer for its cap."""
    argv = (sys.executable, "-c", FORK_BOMB, how)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert (done.stdout, done.stderr) == (f"{seen}\nnobody is left\n", "")


def test_what_cannot_be_tried_here_is_known_beforehand() -> None:
    assert left_out(("pids-limit", "cpus"), "no session")[BOMB] == "nothing would end it: no session"
    assert BOMB not in left_out(("cpus",), "no session")


def test_nothing_of_the_users_is_in_the_run_but_what_its_image_is_made_of(
    tmp_path: Path, run: str, place: Ground
) -> None:
    """Neither what the configuration opens, mounts and passes in, nor what variables do."""
    home = tmp_path / "home"
    config = home / ".config/ai-sandbox/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "allow: [mine.example.com]\nmount: [/srv]\nenv: [MINE]\nproxy: https://proxy.example.com:3128\n"
        "net: none\ninstall: [make]\nbase-image: debian:12\n"
    )
    environ = {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": run,
        "AISB_NO_GATE": "1",
        "AISB_HARNESS": "claude",
    }

    request = request_of(Machine(environ, SystemRunner(), need_configuration), place)

    wanted = request.wanted
    assert [item.value for item in wanted.allow] == ["exact:doctor.invalid"]
    assert [item.value for item in wanted.install] == ["make"]
    assert (wanted.base_image, wanted.harness) == ("debian:12", "claude")
    assert (wanted.net, wanted.proxy, wanted.no_gate, wanted.environment) == ("allow", "", False, ())
    assert (request.files.mounts, request.given, request.may_fetch) == ((), (), False)
    assert (request.project, request.command) == (place.project, COMMAND)


def test_the_words_that_go_in_hold_every_byte_that_may() -> None:
    assert set(WORDS) == set(range(1, 256))
    assert os.fsencode("DOCTOR_WORDS") not in WORDS
