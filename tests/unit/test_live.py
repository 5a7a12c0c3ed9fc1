"""What is said of a run while it lasts: how the engine takes it, how the helper hears of it, and where it is kept."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from aisb.cli.live import allow_verb, checked_entry, deny_verb
from aisb.cli.serve import answer_own
from aisb.domain.addresses import AddressEntry
from aisb.domain.duration import parse_duration
from aisb.domain.egress import policy_json
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.live import LiveEntry, alive, live_entry, live_json, next_end, read_live, said
from aisb.domain.names import NameEntry
from aisb.domain.rules import CLOSED, Engine, Reason, Verdict, honest_request
from aisb.effects.live import find_run, save_entry
from aisb.effects.run import project_identity
from aisb.effects.session import open_session, session_at
from aisb.effects.trust import read_record
from aisb.errors import Unavailable, Untrusted, UsageError
from aisb.render.denials import denial_lines
from aisb.render.gate import GATE_TARGET
from aisb.render.gate_files import LIVE_NAMES, LIVE_PORTS
from gate.judging import Engines
from gate.squid import NAMES, PORTS, Lists, write_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aisb.effects.session import Session

ALLOW = ".ai-sandbox/allow"


def engine(*entries: str) -> Engine:
    return Engine(*gather((parse_entry(entry), "--allow") for entry in entries).policy)


def word(text: str) -> LiveEntry:
    """`+a.test` allows, `-a.test` denies."""
    entry = parse_entry(text[1:])
    assert isinstance(entry, NameEntry | AddressEntry)
    return live_entry("allow" if text.startswith("+") else "deny", entry)


def words(*texts: str) -> tuple[LiveEntry, ...]:
    result: tuple[LiveEntry, ...] = ()
    for text in texts:
        result = said(result, [word(text)])
    return result


@pytest.mark.parametrize(
    ("spoken", "host", "port", "allowed"),
    [
        (["+b.test"], "x.b.test", 443, True),
        (["+b.test"], "b.test", 8080, False),
        (["+b.test:8080"], "b.test", 8080, True),
        (["+b.test:8080"], "b.test", 443, False),
        (["-a.test"], "a.test", 443, False),
        (["-a.test"], "x.a.test", 80, False),
        (["-a.test"], "a.test", 22, False),
        (["-a.test:443"], "a.test", 443, False),
        (["-a.test:443"], "a.test", 80, True),
        (["-exact:a.test"], "x.a.test", 443, True),
        (["-a.test", "+x.a.test"], "x.a.test", 443, True),
        (["-a.test", "+x.a.test"], "a.test", 443, False),
        (["-a.test", "+x.a.test", "-a.test"], "x.a.test", 443, False),
        (["-a.test", "+a.test"], "a.test", 443, True),
        (["-203.0.113.0/24"], "203.0.113.7", 5432, False),
        (["-203.0.113.7:80"], "203.0.113.7", 5432, True),
        (["-203.0.113.7", "+203.0.113.7:5432"], "203.0.113.7", 5432, True),
        (["+198.51.100.1"], "198.51.100.1", 443, False),
        (["+10.0.0.0/8"], "10.0.0.1", 443, False),
        (["-host.test"], "localhost", 11434, True),
    ],
)
def test_the_last_word_counts(spoken: list[str], host: str, port: int, allowed: bool) -> None:
    before = engine("a.test", "a.test:22", "203.0.113.7:80", "203.0.113.7:5432", "host:11434")

    assert before.with_live(words(*spoken)).judge(host, port).allowed is allowed
    assert before.judge("b.test", 443).allowed is False


def test_who_allowed_and_who_denied_is_said() -> None:
    after = engine("a.test").with_live(words("+b.test:8080", "-x.a.test"))

    assert after.judge("b.test", 8080) == Verdict(True, rule="aisb allow b.test:8080")
    assert after.judge("a.test", 443) == Verdict(True, rule="a.test")
    assert after.judge("x.a.test", 443) == Verdict(False, Reason.NOT_LISTED, rule="aisb deny x.a.test", detail=CLOSED)


def test_what_the_user_has_closed_is_no_case_for_an_entry() -> None:
    """The last lines name the user's own word, and propose nothing that is in the policy already."""
    record = {"host": "a.test", "port": 443, "decision": "deny", "reason": "not-listed", "rule": "aisb deny a.test"}

    assert denial_lines([json.dumps(record)] * 2) == [
        "denied a.test:443 (2 times): the user has closed it for this run"
    ]


def test_rules_stay_the_only_word_on_their_host() -> None:
    after = engine("GET api.test/pub/**").with_live(words("+test.test", "+below:test.test"))
    denied = engine("GET api.test/pub/**").with_live(words("-api.test"))

    def get(judge: Engine, path: str) -> bool:
        return judge.judge_request(honest_request("GET", "https", "api.test", 443, path)).allowed

    wider = engine("GET api.test/pub/**").with_live((word("+api.test"), word("+api.test:22"), word("+exact:api.test")))
    assert (get(wider, "/pub/x"), get(wider, "/x"), wider.judge("api.test", 22).allowed) == (True, False, False)
    assert wider.judge_tls("api.test", 443, "api.test").allowed is False
    assert (get(after, "/pub/x"), get(denied, "/pub/x")) == (True, False)


def test_names_resolve_where_a_port_is_open() -> None:
    before = engine("a.test", "a.test:22", "GET api.test/x")

    def resolves(*spoken: str) -> list[bool]:
        after = before.with_live(words(*spoken))
        return [after.judge_name(name).allowed for name in ("a.test", "x.a.test", "b.test", "api.test")]

    assert resolves() == [True, True, False, True]
    assert resolves("+b.test:5432") == [True, True, True, True]
    assert resolves("-a.test:443") == [True, True, False, True]
    assert resolves("-a.test", "-api.test") == [False, False, False, False]
    assert resolves("-exact:a.test") == [False, True, False, True]
    assert before.with_live(words("-a.test")).judge_name("a.test") == Verdict(
        False, Reason.DNS, rule="aisb deny a.test", detail=CLOSED
    )


@pytest.mark.parametrize(
    ("text", "can_be_said"),
    [
        ("+b.test", True),
        ("+b.test:22", True),
        ("+below:api.test", True),
        ("+api.test", False),
        ("+10.0.0.5", False),
        ("+10.0.0.5:5432", True),
        ("+10.0.0.6:5432", False),
        ("+10.0.0.5:80", False),
        ("+10.0.0.0/8:5432", False),
        ("-10.0.0.0/8", True),
        ("-api.test", True),
    ],
)
def test_what_would_need_a_new_gate_is_said(text: str, can_be_said: bool) -> None:
    assert (engine("GET api.test/x", "10.0.0.5:5432").live_fault(word(text)) == "") is can_be_said


@pytest.mark.parametrize(
    ("denied", "taken_back", "can_be_said"),
    [
        ("-203.0.113.10", "+203.0.113.10", True),
        ("-203.0.113.10:80", "+203.0.113.10", True),
        ("-203.0.113.10", "+203.0.113.10:80", False),
        ("-203.0.113.0/24", "+203.0.113.10", False),
        ("-203.0.113.10", "+203.0.113.0/24", False),
        ("-203.0.113.10", "+203.0.113.11", False),
    ],
)
def test_ones_own_denial_of_an_address_is_taken_back_and_opens_nothing(
    denied: str, taken_back: str, can_be_said: bool
) -> None:
    before = engine("a.test").with_live(words(denied))
    after = engine("a.test").with_live(words(denied, taken_back))

    assert (before.live_fault(word(taken_back)) == "") is can_be_said
    assert after.with_live(words(taken_back)).live_fault(word("+198.51.100.1")) != ""
    assert not any(after.judge("203.0.113.10", port).allowed for port in (80, 443))


def test_a_denial_is_heard_again_after_what_was_allowed_for_a_time() -> None:
    denied = words("-203.0.113.10", "-a.test:80")
    for_a_time = said(denied, [word(text)._replace(until=10.0) for text in ("+203.0.113.10", "+a.test:80")])

    assert engine("a.test").with_live(for_a_time).judge("a.test", 80).allowed
    assert engine("203.0.113.10").with_live(for_a_time).judge("203.0.113.10", 443).allowed
    assert alive(for_a_time, 10.0) == denied
    assert said(for_a_time, denied) == denied


def test_a_time_that_is_over_counts_no_more() -> None:
    entries = (word("+a.test")._replace(until=10.0), word("+b.test"), word("+c.test")._replace(until=5.0))

    assert alive(entries, 5.0) == entries[:2]
    assert (next_end(entries), next_end(entries[1:2])) == (5.0, 0.0)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', '{"version": 2, "entries": []}', "null", '{"entries": {}}']
)
def test_what_is_not_in_canonical_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"form|Expecting|fields"):
        read_live(text)


def test_there_is_an_end_to_it() -> None:
    many = words(*(f"+n{number}.test" for number in range(200)))

    assert len(said(many, [word("-n1.test")])) == 200
    assert len(said(many, [word("-one.more.test")])) == 201
    with pytest.raises(ValueError, match="more than 200"):
        said(many, [word("+one.more.test")])


def test_bridge_and_configuration_mean_the_same_lists(tmp_path: Path) -> None:
    write_lists(str(tmp_path), Lists((".a.test",), (22, 80)))

    assert ((tmp_path / "live/names").read_text(), (tmp_path / "live/ports").read_text()) == (".a.test\n", "22\n80\n")
    assert (f"{GATE_TARGET}/{NAMES}", f"{GATE_TARGET}/{PORTS}") == (LIVE_NAMES, LIVE_PORTS)


class Helper:
    """A gate's directory as the helper sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("conf", "r/1a2b3c4d", "r/5e6f7a8b"):
            (path / name).mkdir(parents=True)
        policy = gather([(parse_entry("a.test"), "--allow")]).policy
        (path / "conf/policy.json").write_text(policy_json(policy))
        self.engines = Engines(str(path))

    def say(self, text: str) -> None:
        (self.path / "new").write_text(text)
        os.replace(self.path / "new", self.path / "r/1a2b3c4d/live.json")

    def allowed(self, host: str) -> list[bool]:
        return [self.engines.of(run).judge(host, 443).allowed for run in ("1a2b3c4d", "5e6f7a8b")]


def test_the_helper_judges_each_run_by_its_own_words(tmp_path: Path) -> None:
    helper = Helper(tmp_path)
    assert helper.allowed("b.test") == [False, False]

    helper.say(live_json(words("+b.test")))
    assert helper.allowed("b.test") == [True, False]

    helper.say(live_json(words("-a.test")))
    assert (helper.allowed("b.test"), helper.allowed("a.test")) == ([False, False], [False, True])

    (tmp_path / "r/1a2b3c4d/live.json").unlink()
    assert helper.allowed("a.test") == [True, True]


def test_the_helper_ends_a_time_by_itself(tmp_path: Path) -> None:
    helper = Helper(tmp_path)
    helper.say(live_json([word("+b.test")._replace(until=1.0)]))

    assert helper.allowed("b.test") == [False, False]


def test_the_helper_allows_nothing_by_words_that_it_cannot_read(tmp_path: Path) -> None:
    helper = Helper(tmp_path)
    helper.say("nonsense")

    with pytest.raises(ValueError, match="Expecting"):
        helper.allowed("a.test")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400)])
def test_a_length_of_time(text: str, seconds: int) -> None:
    assert parse_duration(text, "--for") == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "0h", "-1h", "2 h", "1h30m", "1.5h", "31d", "²h", "2h\n"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="--for"):
        parse_duration(text, "--for")


# --- which run ---


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "p").mkdir()
    return str(tmp_path / "p")


def start(tmp_path: Path, run: str, project: str) -> None:
    parent = tmp_path / "aisb/g/0123456789ab/r"
    parent.mkdir(parents=True, exist_ok=True)
    open_session(str(parent), run, {"project": project_identity(project)}, "{}")


def test_the_run_of_this_project_is_meant(tmp_path: Path, project: str) -> None:
    (tmp_path / "q").mkdir()
    start(tmp_path, "1a2b3c4d", project)
    start(tmp_path, "5e6f7a8b", str(tmp_path / "q"))

    def found(wanted: str = "") -> str:
        session = find_run(str(tmp_path / "aisb"), project, wanted)
        return session.run if session else ""

    assert (found(), found("5e")) == ("1a2b3c4d", "5e6f7a8b")
    with pytest.raises(UsageError, match=r"there is no run of that id; what runs here is: 1a2b3c4d$"):
        found("9")
    start(tmp_path, "1a999999", project)
    with pytest.raises(UsageError, match="2 runs: 1a2b3c4d 1a999999") as refused:
        found()
    assert refused.value.hint == "say which: --run 1a2b3c4d"
    with pytest.raises(UsageError, match="--run 1a: there are 2 runs"):
        found("1a")


def test_without_a_run_there_is_none(tmp_path: Path, project: str) -> None:
    assert find_run(str(tmp_path / "aisb"), project, "") is None


# --- what is kept ---


def write(project: str, text: str) -> None:
    os.makedirs(f"{project}/.ai-sandbox", exist_ok=True)
    with open(f"{project}/{ALLOW}", "w", encoding="utf-8") as file:
        file.write(text)


def read(project: str) -> str:
    with open(f"{project}/{ALLOW}", encoding="utf-8") as file:
        return file.read()


def test_an_entry_is_written_and_trusted(tmp_path: Path, project: str) -> None:
    state = str(tmp_path / "state")

    assert [save_entry(project, state, text) for text in ("a.test", "b.test:22", "a.test")] == [True, True, False]

    assert read(project) == "a.test\nb.test:22\n"
    assert read_record(state, project) == {ALLOW: "a.test\nb.test:22\n"}
    assert os.listdir(f"{project}/.ai-sandbox") == ["allow"]
    assert stat.S_IMODE(os.stat(f"{project}/{ALLOW}").st_mode) & 0o7022 == 0


@pytest.mark.parametrize("text", ["evil.test\n", "# nothing\n", ""])
def test_lines_that_nobody_has_seen_are_not_trusted_along(tmp_path: Path, project: str, text: str) -> None:
    state = str(tmp_path / "state")
    write(project, text)

    with pytest.raises(Untrusted, match="is new"):
        save_entry(project, state, "a.test")

    assert (read(project), read_record(state, project)) == (text, {})


def test_a_file_that_is_gone_is_not_made_anew(tmp_path: Path, project: str) -> None:
    state = str(tmp_path / "state")
    save_entry(project, state, "a.test")
    os.unlink(f"{project}/{ALLOW}")

    with pytest.raises(Untrusted, match="is gone"):
        save_entry(project, state, "b.test")


def test_the_last_line_is_ended_first(tmp_path: Path, project: str) -> None:
    state = str(tmp_path / "state")
    save_entry(project, state, "a.test")
    write(project, "a.test\n# by hand, without an end\nc.test")
    from aisb.domain.source_files import SourceFile
    from aisb.effects.trust import add_to_record

    add_to_record(state, project, SourceFile(ALLOW, read(project)))
    save_entry(project, state, "b.test")

    assert read(project).splitlines()[-2:] == ["c.test", "b.test"]


def test_no_link_is_followed(tmp_path: Path, project: str) -> None:
    state = str(tmp_path / "state")
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", f"{project}/.ai-sandbox")

    with pytest.raises(UsageError, match="it is a link"):
        save_entry(project, state, "a.test")

    assert os.listdir(tmp_path / "elsewhere") == []


# --- the verbs, without a run ---


@pytest.fixture
def here(tmp_path: Path, project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {"XDG_STATE_HOME": "state", "HOME": "home"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    # A socket's path is short, and so is that of the directory for it.
    with tempfile.TemporaryDirectory() as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield project


def test_without_a_running_sandbox_nothing_is_said(here: str) -> None:
    with pytest.raises(UsageError, match=r"no sandbox of .* is running") as refused:
        allow_verb("a.test", period="", run="", save=False, project=here)
    assert refused.value.hint == "for later runs: aisb allow a.test --save; for one: aisb --allow a.test"
    with pytest.raises(UsageError, match="is running"):
        deny_verb("a.test", run="", project=here)
    with pytest.raises(UsageError, match="exclude each other"):
        allow_verb("a.test", period="1h", run="", save=True, project=here)
    with pytest.raises(UsageError, match="is running"):
        allow_verb("a.test", period="1h", run="", save=False, project=here)


def test_without_a_running_sandbox_it_is_kept(here: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert allow_verb("A.test.", period="", run="", save=True, project=here) == 0

    assert read(here) == "a.test\n"
    assert capsys.readouterr().err == f"aisb: {here}/{ALLOW}: a.test: added, and trusted\n"


@pytest.mark.parametrize("text", ["*", "com", "a test", "", "ok.aisb.internal"])
def test_what_is_no_entry_is_none_here_either(here: str, text: str) -> None:
    with pytest.raises(UsageError, match=r"^aisb allow: "):
        allow_verb(text, period="", run="", save=True, project=here)


@pytest.mark.parametrize("text", ["GET a.test/x", "@npm", "host:11434"])
def test_what_a_run_has_from_its_start_needs_a_new_one(here: str, text: str) -> None:
    with pytest.raises(UsageError, match="only names and addresses change") as refused:
        deny_verb(text, run="", project=here)
    assert refused.value.hint == "end that run, and start one without it"


# --- the verbs, with a run ---


@contextmanager
def a_run(project: str, **answer: object) -> Iterator[None]:
    """A run of the project, whose gate answers this to the one question that comes."""
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    os.chmod(runtime, 0o700)
    start(runtime, "1a2b3c4d", project)
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(runtime / "aisb/g/0123456789ab/ctl.sock"))
        control.listen()
        gate = Thread(target=_answer, args=(control, answer), daemon=True)
        gate.start()
        yield
        gate.join()


def _answer(control: socket.socket, answer: Mapping[str, object]) -> None:
    connection, _ = control.accept()
    with connection, connection.makefile("r") as question:
        question.readline()
        connection.sendall(json.dumps({"ok": True, **answer}).encode() + b"\n")


@pytest.mark.parametrize(
    ("text", "refused", "flags"),
    [
        ("10.0.0.1:5432", "an address is opened when a gate starts", "--allow 10.0.0.1:5432"),
        ("api.test", "api.test has method and path rules, and", "--allow 'GET,HEAD api.test/**'"),
        ("a.test,10.0.0.1", "an address is opened when a gate starts", "--allow 10.0.0.1 --allow a.test"),
    ],
)
def test_what_needs_a_new_run_is_named_with_its_entries(here: str, text: str, refused: str, flags: str) -> None:
    with a_run(here, refused=refused), pytest.raises(UsageError, match=refused) as error:
        allow_verb(text, period="", run="", save=False, project=here)

    assert error.value.hint == f"start a new run for it: aisb {flags}"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("a.test", ["a.test is denied until the run ends; 0 connections were ended"]),
        (
            "203.0.113.10",
            [
                "203.0.113.10 is denied until the run ends; 0 connections were ended",
                "by address: an allowed name that leads there stays open, until: aisb deny NAME",
            ],
        ),
    ],
)
def test_a_denial_by_address_claims_nothing_about_names(
    here: str, capsys: pytest.CaptureFixture[str], text: str, ends: list[str]
) -> None:
    with a_run(here, closed=0):
        assert deny_verb(text, run="", project=here) == 0

    lines = capsys.readouterr().err.splitlines()
    assert [line.endswith(end) for line, end in zip(lines, ends, strict=True)] == [True] * len(ends)


OPENS_NOTHING = (
    "nothing is opened by that: what is open by address is what a run begins with: aisb --allow 203.0.113.10"
)


@pytest.mark.parametrize(("period", "lasting"), [("", "any more"), ("2h", "for 2h")])
def test_an_address_is_not_said_to_be_open(
    here: str, capsys: pytest.CaptureFixture[str], period: str, lasting: str
) -> None:
    with a_run(here):
        assert allow_verb("203.0.113.10", period=period, run="", save=False, project=here) == 0

    assert capsys.readouterr().err == f"aisb: run 1a2b3c4d: 203.0.113.10: not denied {lasting}; {OPENS_NOTHING}\n"


def test_of_a_name_and_an_address_the_name_alone_is_allowed(here: str, capsys: pytest.CaptureFixture[str]) -> None:
    with a_run(here):
        assert allow_verb("a.test,203.0.113.10", period="", run="", save=False, project=here) == 0

    assert capsys.readouterr().err.splitlines() == [
        f"aisb: run 1a2b3c4d: 203.0.113.10: not denied any more; {OPENS_NOTHING}",
        "aisb: run 1a2b3c4d: a.test is allowed until the run ends",
    ]


def test_a_client_is_told_the_same_of_an_address(here: str) -> None:
    """Before anything is done, and when it is."""
    session = session_at(f"{os.environ['XDG_RUNTIME_DIR']}/aisb/g/0123456789ab/r", "1a2b3c4d")
    before = answer_own(session, "allow", {"entry": "203.0.113.10", "check": True})
    with a_run(here):
        done = answer_own(session, "allow", {"entry": "203.0.113.10,a.test"})

    assert before == {"entries": ["203.0.113.10"], "opened": [], "note": OPENS_NOTHING}
    assert done == {
        "entries": ["203.0.113.10", "a.test"],
        "opened": ["a.test"],
        "note": f"203.0.113.10: not denied any more; {OPENS_NOTHING}",
    }


def test_what_was_not_saved_is_said(here: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, "evil.test\n")

    with a_run(here), pytest.raises(Untrusted, match=r"^a\.test was not saved for later runs: .* is new"):
        allow_verb("a.test", period="", run="", save=True, project=here)

    assert (read(here), capsys.readouterr().err.count("is allowed until the run ends")) == ("evil.test\n", 1)


GATED = session_at("/nonexistent/g/0123456789ab/r", "1a2b3c4d")
GATELESS = session_at("/nonexistent/r", "1a2b3c4d")


@pytest.mark.parametrize("session", [GATED, GATELESS], ids=["gate", "no gate"])
@pytest.mark.parametrize("text", ["nope..x", "*", "@npm", "host:5432"])
def test_what_a_running_sandbox_cannot_have_is_told_before_anybody_is_asked(text: str, session: Session) -> None:
    with pytest.raises(UsageError):
        checked_entry(session, "allow", text)


def test_what_an_entry_would_be_is_told_before_anything_is_asked_of_a_gate() -> None:
    names = ["a.test", "b.test:99"]
    asked = {"entry": "A.test,b.test:99", "check": True}

    assert answer_own(GATED, "allow", asked) == {"entries": names, "opened": names}


def test_a_client_without_a_gate_is_told_that_nothing_would_be_opened_and_what_opens_it() -> None:
    """Where it asks before it does it; the refusal of the deed names the same."""
    asked = {"entry": "a.test,b.test:99"}
    start = "aisb serve --allow a.test --allow b.test:99"
    why = "run 1a2b3c4d has no gate: it was started with another --net"

    with pytest.raises(UsageError) as refused:
        answer_own(GATELESS, "allow", asked)

    assert (refused.value.message, refused.value.hint) == (why, f"start one with: {start}")
    assert answer_own(GATELESS, "allow", {**asked, "check": True}) == {
        "entries": ["a.test", "b.test:99"],
        "opened": [],
        "note": f"nothing is opened by that: {why}; start one with: {start}",
    }


def test_what_is_denied_where_there_is_no_gate_is_not_offered_to_be_allowed() -> None:
    with pytest.raises(UsageError) as refused:
        answer_own(GATELESS, "deny", {"entry": "a.test"})

    assert refused.value.hint == "end it: aisb stop 1a2b3c4d"


@pytest.mark.parametrize("verb", [allow_verb, deny_verb])
def test_of_a_gate_that_has_ended_it_is_said_what_to_do(here: str, verb: Callable[..., int]) -> None:
    start(Path(os.environ["XDG_RUNTIME_DIR"]), "1a2b3c4d", here)
    more = {"period": "", "save": False} if verb is allow_verb else {}

    with pytest.raises(Unavailable) as refused:
        verb("a.test", run="", project=here, **more)

    assert (refused.value.message, refused.value.hint) == (
        "the gate of run 1a2b3c4d has ended: nothing outside is reached from it any more",
        "end that run, and start a new one: aisb stop 1a2b3c4d",
    )
