"""The engine: who may be reached."""

from __future__ import annotations

import pytest

from aisb.domain.entries import parse_entry
from aisb.domain.policy import policy_json
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import Engine, NameEntry, Reason, Verdict


def engine(*entries: str) -> Engine:
    names = [entry for entry in map(parse_entry, entries) if isinstance(entry, NameEntry)]
    return Engine.from_json(policy_json(reduce_names(names)))


@pytest.mark.parametrize(
    ("entry", "host", "port", "expected"),
    [
        ("allowed.test", "allowed.test", 443, Verdict(True, rule="allowed.test")),
        ("allowed.test", "sub.allowed.test", 80, Verdict(True, rule="allowed.test")),
        ("allowed.test", "ALLOWED.TEST.", 443, Verdict(True, rule="allowed.test")),
        ("exact:allowed.test", "sub.allowed.test", 443, Verdict(False, Reason.NOT_LISTED, add="sub.allowed.test")),
        ("below:allowed.test", "allowed.test", 443, Verdict(False, Reason.NOT_LISTED, add="allowed.test")),
        ("below:allowed.test", "sub.allowed.test", 443, Verdict(True, rule="below:allowed.test")),
        ("allowed.test", "notallowed.test", 443, Verdict(False, Reason.NOT_LISTED, add="notallowed.test")),
        (
            "allowed.test",
            "allowed.test.evil.test",
            443,
            Verdict(False, Reason.NOT_LISTED, add="allowed.test.evil.test"),
        ),
        ("api.allowed.test", "allowed.test", 443, Verdict(False, Reason.NOT_LISTED, add="allowed.test")),
        ("allowed.test", "allowed.test", 8443, Verdict(False, Reason.PORT, add="allowed.test:8443")),
        ("allowed.test:22", "allowed.test", 22, Verdict(True, rule="allowed.test:22")),
        ("allowed.test:22", "allowed.test", 443, Verdict(False, Reason.PORT, add="allowed.test")),
        ("allowed.test", "203.0.113.11", 443, Verdict(False, Reason.DIRECT_ADDRESS)),
        ("allowed.test", "2001:db8::11", 443, Verdict(False, Reason.DIRECT_ADDRESS)),
        ("allowed.test", "allowed.test..", 443, Verdict(False, Reason.BAD_REQUEST)),
        ("allowed.test", "*.test", 443, Verdict(False, Reason.BAD_REQUEST)),
        ("allowed.test", "ok.aisb.internal", 80, Verdict(True, rule="exact:ok.aisb.internal")),
        ("allowed.test", "x.aisb.internal", 80, Verdict(False, Reason.NOT_LISTED)),
    ],
)
def test_a_connection_is_judged_by_name_and_port(entry: str, host: str, port: int, expected: Verdict) -> None:
    assert engine(entry).judge(host, port) == expected


@pytest.mark.parametrize(
    ("sni", "allowed"),
    [
        ("cdn.test", True),
        ("CDN.test", True),
        ("evil.test", False),
        ("sub.cdn.test", False),
        ("*.test", False),
        ("", False),
    ],
)
def test_tls_goes_on_only_with_the_name_that_was_meant(sni: str, allowed: bool) -> None:
    assert engine("cdn.test").judge_tls("cdn.test", 443, sni).allowed is allowed


@pytest.mark.parametrize(
    ("scheme", "url_host", "url_port", "host_header", "allowed"),
    [
        ("http", "a.test", 80, "a.test", True),
        ("http", "A.TEST", 80, "a.test:80", True),
        ("http", "a.test", 80, "evil.test", False),
        ("http", "evil.test", 80, "a.test", False),
        ("http", "a.test", 5432, "a.test:5432", False),
        ("https", "a.test", 80, "a.test", False),
        ("http", "a.test", 80, "a.test:x", False),
        ("http", "a.test", 80, "", False),
        ("http", "b.a.test", 80, "b.a.test", False),
    ],
)
def test_a_plain_request_names_the_host_and_port_that_was_meant(
    scheme: str, url_host: str, url_port: int, host_header: str, allowed: bool
) -> None:
    verdict = engine("a.test").judge_http(
        "a.test", 80, scheme=scheme, url_host=url_host, url_port=url_port, host_header=host_header
    )

    assert verdict.allowed is allowed


def test_a_plain_request_does_not_go_to_the_port_of_tls() -> None:
    verdict = engine("a.test").judge_http(
        "a.test", 443, scheme="http", url_host="a.test", url_port=443, host_header="a.test:443"
    )

    assert (verdict.allowed, verdict.reason, verdict.add) == (False, "not-tls", "")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("allowed.test", True),
        ("x.allowed.test", True),
        ("secret.evil.test", False),
        ("", False),
        ("198.51.100.1", False),
    ],
)
def test_a_name_resolves_only_if_some_entry_covers_it(name: str, allowed: bool) -> None:
    assert engine("allowed.test:22").judge_name(name).allowed is allowed


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"version":2,"names":[]}',
        '{"version":1,"names":[],"rules":[]}',
        '{"version":1,"names":[{"host":"A.test","match":"tree","ports":[80]}]}',
        '{"version":1,"names":[{"host":"a.test","match":"regex","ports":[80]}]}',
        '{"version":1,"names":[{"host":"a.test","match":"tree","ports":[true]}]}',
        '{"version":1,"names":[{"host":"a.test","match":"tree","ports":[0]}]}',
        '{"version":1,"names":[{"host":"a.test","match":"tree"}]}',
    ],
)
def test_a_policy_that_is_not_canonical_is_refused_whole(text: str) -> None:
    with pytest.raises(ValueError, match=r"version|canonical|entry"):
        Engine.from_json(text)
