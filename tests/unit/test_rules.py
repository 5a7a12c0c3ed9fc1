"""The engine: who may be reached."""

from __future__ import annotations

import pytest

from aisb.domain.egress import policy_json
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.rules import Engine, HttpRequest, Reason, Verdict, honest_request


def engine(*entries: str) -> Engine:
    """As the gate has it: written as JSON, and read."""
    return Engine.from_json(policy_json(gather((parse_entry(entry), "--allow") for entry in entries).policy))


def request(target: str = "/", method: str = "GET", **said: object) -> HttpRequest:
    """A plain request in which every name is a.test, but for what is said."""
    agreed = honest_request(method, "http", "a.test", 80, target)
    return agreed._replace(**({"host_header": "a.test"} | said))  # type: ignore[arg-type]  # its fields


# The same inside TLS that the gate opened.
OPENED = {"port": 443, "scheme": "https", "url_port": 443, "sni": "a.test"}


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
        ("allowed.test", "203.0.113.11", 443, Verdict(False, Reason.DIRECT_ADDRESS, add="203.0.113.11:443")),
        ("allowed.test", "2001:DB8::11", 443, Verdict(False, Reason.DIRECT_ADDRESS, add="[2001:db8::11]:443")),
        ("allowed.test", "127.0.0.1", 443, Verdict(False, Reason.DIRECT_ADDRESS)),
        ("allowed.test", "198.18.0.7", 443, Verdict(False, Reason.DIRECT_ADDRESS)),
        ("allowed.test", "localhost", 443, Verdict(False, Reason.NOT_LISTED)),
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
    ("entry", "host", "port", "expected"),
    [
        ("10.20.0.5:5432", "10.20.0.5", 5432, Verdict(True, rule="10.20.0.5:5432")),
        ("10.20.0.5:5432", "10.20.0.5", 5433, Verdict(False, Reason.PORT, add="10.20.0.5:5433")),
        ("10.20.0.5:5432", "10.20.0.6", 5432, Verdict(False, Reason.DIRECT_ADDRESS, add="10.20.0.6:5432")),
        ("10.20.0.5", "10.20.0.5", 9, Verdict(True, rule="10.20.0.5")),
        ("10.20.0.0/16:443", "10.20.255.1", 443, Verdict(True, rule="10.20.0.0/16:443")),
        ("[2001:db8::5]:443", "2001:db8:0::5", 443, Verdict(True, rule="[2001:db8::5]:443")),
        ("2001:db8::/32", "2001:db9::", 443, Verdict(False, Reason.DIRECT_ADDRESS, add="[2001:db9::]:443")),
        ("169.254.169.254:80", "169.254.169.254", 80, Verdict(True, rule="169.254.169.254:80")),
        ("fd00:ec2::/32", "fd00:ec2::253", 80, Verdict(True, rule="fd00:ec2::/32")),
        ("fd00:ec2::/32", "fd00:ec2::254", 80, Verdict(False, Reason.DIRECT_ADDRESS)),
        ("10.0.0.0/8", "::ffff:10.0.0.1", 80, Verdict(False, Reason.DIRECT_ADDRESS)),
        ("host:11434", "host.aisb.internal", 11434, Verdict(True, rule="host:11434")),
        ("host:11434", "HOST.aisb.internal.", 11434, Verdict(True, rule="host:11434")),
        ("host:11434", "127.0.0.1", 11434, Verdict(True, rule="host:11434")),
        ("host:11434", "::1", 11434, Verdict(True, rule="host:11434")),
        ("host:11434", "localhost", 11434, Verdict(True, rule="host:11434")),
        ("host:11434", "host.aisb.internal", 11435, Verdict(False, Reason.NOT_LISTED, add="host:11435")),
        ("host:11434", "localhost", 11435, Verdict(False, Reason.NOT_LISTED)),
        ("host:11434", "x.host.aisb.internal", 11434, Verdict(False, Reason.NOT_LISTED)),
    ],
)
def test_a_connection_is_judged_by_address_or_by_the_hosts_port(
    entry: str, host: str, port: int, expected: Verdict
) -> None:
    """The metadata services only by an entry of their own (A37)."""
    assert engine(entry).judge(host, port) == expected


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"url_host": "A.TEST", "host_header": "a.test:80"},
        {"target": "/x?y=http://evil.test/"},
        {"method": "PROPFIND"},
        {"upgrade": "WebSocket"},
        OPENED,
        OPENED | {"host_header": "a.test:443", "sni": "A.test."},
        {"port": 5432, "url_port": 5432, "host_header": "a.test:5432"},
    ],
)
def test_a_request_goes_on_that_names_one_host_and_port_everywhere(said: dict[str, object]) -> None:
    assert engine("a.test", "a.test:5432").judge_request(request(**said)) == engine("a.test", "a.test:5432").judge(
        "a.test", int(str(said.get("port", 80)))
    )


@pytest.mark.parametrize(
    "said",
    [
        {"host_header": "evil.test"},
        {"url_host": "evil.test"},
        {"url_host": "b.a.test", "host_header": "b.a.test"},
        {"url_port": 5432, "host_header": "a.test:5432"},
        {"host_header": "a.test:5432"},
        {"host_header": "a.test:x"},
        {"host_header": "a.test:080"},
        {"host_header": ""},
        {"host_header": "a.test, evil.test"},
        {"host_header": "a.test:80@evil.test"},
        {"host_header": "[a.test]"},
        {"host_header": "10.0.0.1:80"},
        {"scheme": "https"},
        {"scheme": "ftp"},
        {"sni": "a.test"},
        OPENED | {"scheme": "http"},
        OPENED | {"sni": ""},
        OPENED | {"sni": "evil.test"},
        OPENED | {"sni": "*.test"},
        OPENED | {"url_host": "evil.test"},
        OPENED | {"host_header": "evil.test"},
        OPENED | {"host_header": "a.test:80"},
        OPENED | {"url_port": 80},
    ],
)
@pytest.mark.parametrize("entry", ["a.test", "GET a.test/**"], ids=["spliced", "with rules"])
def test_a_request_that_names_two_hosts_is_refused_before_any_rule_is_asked(
    entry: str, said: dict[str, object]
) -> None:
    """Of hosts with rules and without (A04)."""
    assert engine(entry, "evil.test", "a.test:5432").judge_request(request(**said)) == Verdict(
        False, Reason.NAME_MISMATCH
    )


@pytest.mark.parametrize("inside", [{}, OPENED], ids=["http", "https"])
@pytest.mark.parametrize(
    ("method", "target", "reason"),
    [
        ("GET", "/pub/x", ""),
        ("GET", "/pub/x?/../y", ""),
        ("POST", "/pub/x", Reason.METHOD),
        ("GET", "/secret", Reason.PATH),
        ("POST", "/secret", Reason.PATH),
        ("GET", "/pub/../secret", Reason.PATH_FORM),
        ("get", "/pub/x", Reason.METHOD),
        ("FOO", "/pub/x", Reason.METHOD),
        ("TRACE", "/pub/x", Reason.METHOD),
        ("CONNECT", "/pub/x", Reason.METHOD),
        ("", "/pub/x", Reason.METHOD),
        ("GET", "", Reason.PATH_FORM),
        ("OPTIONS", "*", Reason.PATH_FORM),
    ],
)
def test_plain_http_and_https_obey_the_same_rules(
    inside: dict[str, object], method: str, target: str, reason: str
) -> None:
    """Methods that no standard knows are refused (A22, A25)."""
    verdict = engine("GET a.test/pub/**").judge_request(request(target, method=method, **inside))

    assert (verdict.reason, verdict.allowed) == (reason, not reason)


@pytest.mark.parametrize("method", ["TRACE", "PURGE"])
def test_no_host_is_sent_what_echoes_or_speaks_to_a_cache(method: str) -> None:
    verdict = engine("a.test").judge_request(request(method=method))

    assert (verdict.allowed, verdict.reason, method in verdict.detail) == (False, Reason.METHOD, True)


@pytest.mark.parametrize(
    ("method", "upgrade", "allowed"),
    [
        ("GET", "websocket", True),
        ("GET", "h2c", True),
        ("GET", "websocket, h2c", True),
        ("POST", "h2c", True),
        ("POST", "websocket", False),
        ("POST", "h2c, WebSocket", False),
        ("POST", "websocket/13", False),
        ("POST", "", True),
    ],
)
@pytest.mark.parametrize("entries", [("a.test",), ("GET,POST a.test/**",)], ids=["spliced", "with rules"])
def test_an_upgrade_to_a_websocket_is_for_a_get(
    entries: tuple[str, ...], method: str, upgrade: str, allowed: bool
) -> None:
    """What else is asked for never leaves the gate: a server does not hear of it (A26)."""
    verdict = engine(*entries).judge_request(request(method=method, upgrade=upgrade))

    assert verdict.allowed is allowed
    assert verdict.reason == ("" if allowed else Reason.METHOD)


def test_a_websocket_is_judged_as_the_get_that_it_begins_with() -> None:
    """(B34)"""
    judge = engine("GET a.test/ws").judge_request

    assert judge(request("/ws", upgrade="websocket")).allowed
    assert judge(request("/other", upgrade="websocket")).reason == Reason.PATH


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("api.a.test", 443, Verdict(True, rule="the rules of api.a.test")),
        ("api.a.test", 80, Verdict(True, rule="the rules of api.a.test")),
        ("a.test", 443, Verdict(True, rule="a.test")),
        ("x.api.a.test", 443, Verdict(True, rule="a.test")),
        ("api.a.test", 22, Verdict(False, Reason.PORT, detail="a host with rules is reached on ports 80 and 443 only")),
    ],
)
def test_rules_are_for_one_exact_name(host: str, port: int, expected: Verdict) -> None:
    assert engine("a.test", "GET api.a.test/**").judge(host, port) == expected


def test_a_host_with_rules_is_judged_by_rules_alone_wherever_else_its_name_is_allowed() -> None:
    """On another port nothing could be judged by them; and no entry would change that."""
    both = engine("a.test", "exact:api.a.test:22", "GET api.a.test/pub")

    assert both.judge("api.a.test", 22)[:4] == (False, Reason.PORT, "", "")
    said = {"host": "api.a.test", "url_host": "api.a.test", "host_header": "api.a.test"}
    assert both.judge_request(request("/pub", **said)).allowed
    assert both.judge_request(request("/", **said)).reason == Reason.PATH


def test_a_host_with_rules_is_opened_and_every_other_passes_unread() -> None:
    """Whichever of the two doors is asked, the other one says no."""
    policy = engine("a.test", "GET api.a.test/**")

    for host, bumped in (("api.a.test", True), ("API.a.test.", True), ("a.test", False), ("x.api.a.test", False)):
        assert policy.is_bumped(host) is bumped
        assert policy.judge_hello(host, 443, host).allowed
        assert policy.judge_bump(host, 443, host).allowed is bumped
        assert policy.judge_tls(host, 443, host).allowed is not bumped
        assert policy.judge_bump(host, 443, "evil.test").reason == Reason.NAME_MISMATCH
        assert policy.judge_bump(host, 443, "").reason == Reason.NOT_TLS


def test_what_goes_to_an_address_need_not_name_a_host() -> None:
    """(B39)"""
    assert engine("203.0.113.10:443").judge_tls("203.0.113.10", 443, "").allowed
    assert (
        engine("203.0.113.10:443")
        .judge_request(
            request(
                host="203.0.113.10", port=443, url_host="203.0.113.10", url_port=443, host_header="203.0.113.10:443"
            )
        )
        .allowed
    )


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("api.a.test", True), ("x.api.a.test", False), ("host.aisb.internal", True), ("10.20.0.5", False)],
)
def test_hosts_with_rules_and_the_hosts_own_name_resolve(name: str, allowed: bool) -> None:
    assert engine("GET api.a.test/**", "host:11434", "10.20.0.5").judge_name(name).allowed is allowed
    assert engine("a.test").judge_name("host.aisb.internal") == Verdict(False, Reason.DNS)
    assert engine("a.test").judge_name("localhost") == Verdict(False, Reason.DNS)


def test_a_verdict_names_the_rule_that_decided_and_the_entry_to_add() -> None:
    rules = engine("GET,HEAD a.test/pub/**", "PUT a.test/x.y")

    assert rules.judge_request(request("/pub/x?q=1")) == Verdict(
        True, rule="a.test rule 1: ALLOW GET /pub/.*", rule_index=1
    )
    assert rules.judge_request(request("/x.y")) == Verdict(False, Reason.METHOD, add="GET a.test/x.y")
    assert rules.judge_request(request("/xzy", method="PUT")) == Verdict(False, Reason.PATH, add="PUT a.test/xzy")


def test_a_plain_request_does_not_go_to_the_port_of_tls() -> None:
    verdict = engine("a.test").judge_request(honest_request("GET", "http", "a.test", 443, "/"))

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
