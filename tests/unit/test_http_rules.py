"""Method and path rules: the last one that matches wins."""

from __future__ import annotations

import threading
import time

import pytest

from aisb.domain.http_rules import HostPolicy, HostRules, Rule, parse_rule
from aisb.domain.rules import Engine, honest_request
from aisb.domain.verdict import Reason, Verdict

EVERYTHING = Rule("ALLOW", "*", "/.*")


def host(*rules: Rule) -> HostRules:
    return HostRules(HostPolicy("api.test", rules))


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/repos/x", Verdict(True, rule="api.test rule 2: ALLOW GET /repos/.*", rule_index=2)),
        (
            "POST",
            "/repos/x",
            Verdict(False, Reason.METHOD, "api.test rule 1: DENY * /.*", "POST api.test/repos/x", rule_index=1),
        ),
        (
            "GET",
            "/repos/secret/x",
            Verdict(
                False, Reason.PATH, "api.test rule 3: DENY GET /repos/secret/.*", "GET api.test/repos/secret/x", "", 3
            ),
        ),
        ("GET", "/", Verdict(False, Reason.PATH, "api.test rule 1: DENY * /.*", "GET api.test/", rule_index=1)),
        (
            "GET",
            "/repos",
            Verdict(False, Reason.PATH, "api.test rule 1: DENY * /.*", "GET api.test/repos", rule_index=1),
        ),
    ],
)
def test_the_last_matching_rule_wins(method: str, path: str, expected: Verdict) -> None:
    rules = host(Rule("DENY", "*", "/.*"), Rule("ALLOW", "GET", "/repos/.*"), Rule("DENY", "GET", "/repos/secret/.*"))

    assert rules.judge(method, path) == expected


def test_the_same_rules_in_another_order_mean_something_else() -> None:
    """(C10)"""
    allow, deny = Rule("ALLOW", "GET", "/x"), Rule("DENY", "GET", "/.*")

    assert host(deny, allow).judge("GET", "/x").allowed
    assert not host(allow, deny).judge("GET", "/x").allowed


@pytest.mark.parametrize("rules", [(), (Rule("DENY", "*", "/.*"),), (Rule("ALLOW", "GET", "/y"),)])
def test_what_no_rule_allows_is_denied(rules: tuple[Rule, ...]) -> None:
    assert host(*rules).judge("GET", "/x").reason == Reason.PATH


def test_an_expression_has_to_match_the_whole_path_without_the_query() -> None:
    rules = host(Rule("ALLOW", "GET", "/a|/b"))

    assert [rules.judge("GET", path).allowed for path in ("/a", "/b", "/b?x=/", "/a/b", "/ab", "/xa")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/g++", "/g%2B%2B", "/g%2b%2B", "/g++.", "/g%2B%2B%20", "/g++?x"])
def test_what_is_denied_is_denied_in_every_spelling(path: str) -> None:
    """Written decoded, a denial holds for all of it."""
    assert host(EVERYTHING, Rule("DENY", "*", r"/g\+\+")).judge("GET", path).rule_index == 2


@pytest.mark.parametrize(
    ("denied", "paths"),
    [
        ("/caf%C3%A9", ["/caf%C3%A9", "/caf%c3%a9", "/caf%C3%a9.", "/cafe%CC%81"]),
        ("/caf%c3%a9(/.*)?", ["/caf%C3%A9/x", "/caf%c3%a9"]),
        ("/g%2B%2B", ["/g++", "/g%2b%2B", "/g+%2B", "/g++%20"]),
        ("/~u/%40me/f%28x%29%21", ["/~u/@me/f(x)!", "/~u/%40me/f(x)!", "/~u/@me/f%28x)%21"]),
        ("/~u/%40me/f\\(x\\)!", ["/~u/@me/f(x)!", "/~u/%40me/f(x)!", "/~u/@me/f%28x)%21"]),
        ("/a%7Bb%7D", ["/a{b}", "/a%7bb%7d", "/a{b%7D"]),
        ("/my%20files/.*", ["/my%20files/x", "/my%20files/+"]),
    ],
)
def test_a_denial_may_be_written_encoded(denied: str, paths: list[str]) -> None:
    """Whichever of the usual ways its author encodes a path in, and whichever the client does."""
    rules = host(EVERYTHING, Rule("DENY", "*", denied))

    assert {path: rules.judge("GET", path).rule_index for path in paths} == dict.fromkeys(paths, 2)


def test_what_is_allowed_is_allowed_as_it_is_written() -> None:
    rules = host(Rule("DENY", "*", "/.*"), Rule("ALLOW", "GET", "/a%20b"), Rule("ALLOW", "GET", "/c"))

    assert rules.judge("GET", "/a%20b").allowed
    assert not rules.judge("GET", "/c.").allowed
    assert not rules.judge("GET", "/%63").allowed


@pytest.mark.parametrize("path", ["/pub/../x", "/%2e", "/a//b", "//evil.test/x", "*", ""])
def test_the_form_of_a_path_comes_before_any_rule(path: str) -> None:
    """(A20)"""
    verdict = host(EVERYTHING).judge("GET", path)

    assert (verdict.reason, verdict.rule, verdict.add, bool(verdict.detail)) == (Reason.PATH_FORM, "", "", True)


@pytest.mark.parametrize("method", ["get", "GET ", "FOO", "TRACE", "CONNECT", "PRI", "*", ""])
def test_a_star_stands_for_the_methods_that_are_known(method: str) -> None:
    """(A25)"""
    assert host(EVERYTHING).judge(method, "/")[:4] == (False, Reason.METHOD, "", "")


def test_an_entry_that_would_be_too_long_is_not_proposed() -> None:
    assert host().judge("GET", "/" + "x" * 2000).add == ""


@pytest.mark.parametrize(
    ("action", "method", "path"),
    [
        ("allow", "GET", "/"),
        ("", "GET", "/"),
        ("ALLOW", "get", "/"),
        ("ALLOW", "GET,HEAD", "/"),
        ("ALLOW", "TRACE", "/"),
        ("ALLOW", "", "/"),
        ("ALLOW", "GET", ""),
        ("ALLOW", "GET", "("),
        ("ALLOW", "GET", "[z-a]"),
        ("ALLOW", "GET", r"\y"),
        ("ALLOW", "GET", "[[a]"),
        ("ALLOW", "GET", "a{99999999999999999999}"),
        ("ALLOW", "GET", "/é"),
        ("ALLOW", "GET", "/\n"),
        ("ALLOW", "GET", "/" + "x" * 1024),
        ("ALLOW", "GET", "(" * 1000),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(action: str, method: str, path: str) -> None:
    with pytest.raises(ValueError, match=r"^the (action|method|path) "):
        parse_rule(action, method, path)


@pytest.mark.parametrize(
    "path",
    ["/repos/([a-z0-9-]+/?)+", "/repos/((?:.|a)*b|a/b)", "/repos/(aa|a|/b)*", "/repos/" + "a?" * 60 + "(?:a/b)?"],
)
def test_an_expression_that_takes_too_long_refuses_and_lets_others_be_judged(path: str) -> None:
    """
    What matches in many ways is given up; after a few times no path of that length is compared any more.

    One repetition is enough where what is repeated can be read in two ways.
    """
    engine = host(Rule("ALLOW", "GET", path))
    long = "/repos/" + "a" * 60 + "!"
    began = time.process_time()

    found = [
        engine.judge("GET", path) for path in (long, *[f"{long}{n}" for n in range(300)], "/repos/a/b", "/repos/!")
    ]

    assert time.process_time() - began < 5
    assert {(verdict.allowed, verdict.reason) for verdict in found[:-2]} == {(False, Reason.LIMIT)}
    assert [(verdict.allowed, verdict.reason) for verdict in found[-2:]] == [(True, ""), (False, Reason.PATH)]


def test_paths_that_take_just_not_too_long_are_given_up_as_well() -> None:
    """Some thirty milliseconds each, as many as an agent likes: nobody else would be judged meanwhile."""
    engine = host(Rule("ALLOW", "GET", "/(a+)+b"))
    slow = next(path for length in range(10, 60) if _takes(path := f"/{'a' * length}c") > 0.01)
    began = time.process_time()

    found = [engine.judge("GET", slow).reason for _ in range(300)]

    assert time.process_time() - began < 2
    # While they are given up some of that is forgotten, and one more of them is compared.
    assert (found[0], found.count(Reason.LIMIT) > 200, engine.judge("GET", "/ab").allowed) == (Reason.PATH, True, True)


def _takes(path: str) -> float:
    """The shortest of a few times: a processor that others use too takes up to twice as long."""
    return min(_takes_once(path) for _ in range(5))


def _takes_once(path: str) -> float:
    began = time.process_time()
    host(Rule("ALLOW", "GET", "/(a+)+b")).judge("GET", path)
    return time.process_time() - began


@pytest.fixture
def nothing_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes to give somebody the time that is counted."""
    monkeypatch.setattr("aisb.domain.http_rules._PART", 0.0)


@pytest.mark.usefixtures("nothing_forgotten")
def test_what_takes_too_long_for_one_run_is_judged_for_another() -> None:
    common = Engine(rules=[HostPolicy("a.test", (Rule("ALLOW", "GET", "/(a+)+b"),))])
    one, other = common.apart(), common.apart()
    slow, long = f"/{'a' * 60}c", f"/{'a' * 80}b"

    verdicts = [one.judge_request(honest_request("GET", "http", "a.test", 80, path)) for path in (*[slow] * 3, long)]

    assert {verdict.reason for verdict in verdicts} == {Reason.LIMIT}
    assert other.judge_request(honest_request("GET", "http", "a.test", 80, long)).allowed
    assert not one.with_live([]).judge_request(honest_request("GET", "http", "a.test", 80, long)).allowed


def test_where_nobody_can_be_woken_it_is_judged_all_the_same() -> None:
    """Signals come to a process's main thread alone."""
    engine = host(Rule("ALLOW", "GET", "/a*/b*"))
    found = []
    thread = threading.Thread(target=lambda: found.append(engine.judge("GET", "/aa/b").allowed))

    thread.start()
    thread.join()

    assert found == [True]
