"""What holds for every list of rules, against oracles that are as plain as the specification."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from aisb.domain.addresses import CARRIERS, METADATA, PROBES, AddressEntry, covers
from aisb.domain.egress import policy_json, read_policy
from aisb.domain.entries import parse_entry
from aisb.domain.entry_kinds import Entry, RuleEntry
from aisb.domain.gather import SourcedHost, SourcedRule, gather
from aisb.domain.hosts import canonical_host, show_authority
from aisb.domain.http_rules import ACTIONS, METHODS, HostPolicy, HostRules, Rule, parse_rule
from aisb.domain.paths import form_fault
from aisb.domain.reduce import reduce_addresses
from aisb.domain.rules import Engine, HttpRequest
from aisb.errors import UsageError

if TYPE_CHECKING:
    from random import Random

expressions = st.sampled_from(
    ["/.*", "/", "/a", "/a/.*", "/[^/]+", "/(a|b)", ".*b", "", "/a%20b", "/b.", r"/a\.b"]
).filter(bool)
rules = st.builds(Rule, st.sampled_from(ACTIONS), st.sampled_from([*METHODS, "*"]), expressions)
hosts = st.sampled_from(["a.test", "b.a.test", "c.test"])
methods = st.sampled_from(METHODS)
paths = st.lists(st.sampled_from(["a", "b", "a.b", "a%20b", "c"]), max_size=3).map(lambda parts: "/" + "/".join(parts))
texts = st.sampled_from([
    "a.test", "b.a.test", "exact:b.a.test", "below:a.test", "c.test:22", "a.test:443", "10.0.0.0/8", "10.1.0.0/16:80", "10.1.2.3",
    "10.1.2.3:80", "2001:db8::/32", "[2001:db8::5]:443", "fd00:ec2::/32", "fd00:ec2::254", "host:1", "host:11434",
    "GET a.test/x", "GET,PUT a.test/**", "HEAD c.test/*/y", "PUT,GET a.test/**",
])  # fmt: skip


def naive(items: tuple[Rule, ...], method: str, path: str) -> bool:
    """The specification, word for word: top to bottom, the last matching rule wins, no match is DENY."""
    answer = False
    for rule in items:
        if rule.method in ("*", method) and re.fullmatch(rule.path, path):
            answer = rule.action == "ALLOW"
    return answer


@given(st.lists(rules, max_size=6).map(tuple), methods, paths)
def test_the_last_matching_rule_wins(items: tuple[Rule, ...], method: str, path: str) -> None:
    """To the letter where a path has one spelling; where it has two, a denial of either holds."""
    verdict = HostRules(HostPolicy("a.test", items)).judge(method, path)
    expected = naive(items, method, path)

    assert verdict.allowed <= expected
    if "%" not in path:
        assert verdict.allowed == expected
    if verdict.rule_index:
        rule = items[verdict.rule_index - 1]
        assert verdict.rule == f"a.test rule {verdict.rule_index}: {rule.text()}"
        assert verdict.allowed == (rule.action == "ALLOW")


@given(st.lists(rules, max_size=5).map(tuple), methods, paths)
def test_the_entry_that_is_proposed_would_allow_it(items: tuple[Rule, ...], method: str, path: str) -> None:
    verdict = HostRules(HostPolicy("a.test", items)).judge(method, path)
    if verdict.allowed:
        return

    added = gather(
        [(parse_entry(verdict.add), "--allow")], [SourcedHost("a.test", tuple(SourcedRule(r, "f") for r in items), "f")]
    )

    assert HostRules(added.policy.rules[0]).judge(method, path).allowed


@given(st.lists(st.tuples(hosts, st.lists(rules, max_size=3)), max_size=4), st.lists(texts, max_size=8), st.randoms())
def test_permutations_of_entries_and_of_hosts_give_the_same_bytes(
    files: list[tuple[str, list[Rule]]], entries: list[str], random: Random
) -> None:
    """Of hosts that are different ones: among the rules of one host the order is the meaning."""
    sourced = [
        SourcedHost(host, tuple(SourcedRule(rule, f"f:{line}") for line, rule in enumerate(items)), "f")
        for host, items in dict(files).items()
    ]
    mixed_hosts, mixed = list(sourced), [*entries, *entries]
    random.shuffle(mixed_hosts)
    random.shuffle(mixed)

    one = policy_json(gather(parsed(entries), sourced).policy)

    assert policy_json(gather(parsed(mixed), mixed_hosts).policy) == one
    assert policy_json(read_policy(one)) == one


def parsed(entries: list[str]) -> list[tuple[Entry, str]]:
    return [(parse_entry(text), f"line {number}") for number, text in enumerate(entries)]


@given(st.lists(rules, max_size=6), methods, paths)
def test_dropping_repetitions_changes_no_verdict(items: list[Rule], method: str, path: str) -> None:
    twice = [*items, *items[::-1]]
    gathered = gather(
        [], [SourcedHost("a.test", tuple(SourcedRule(rule, f"f:{n}") for n, rule in enumerate(twice)), "f")]
    )
    (policy,) = gathered.policy.rules

    assert len(set(policy.rules)) == len(policy.rules) == len(gathered.origins["a.test"])
    assert (
        HostRules(policy).judge(method, path).allowed
        == HostRules(HostPolicy("a.test", tuple(twice))).judge(method, path).allowed
    )
    # Each origin is the line at which that very rule was written.
    assert [twice[int(origin.removeprefix("f:"))] for origin in gathered.origins["a.test"]] == list(policy.rules)


networks = st.builds(
    lambda base, length: ip_network((base, min(length, 32 if "." in base else 128)), strict=False),
    st.sampled_from(
        [
            "10.1.2.3",
            "10.1.255.0",
            "203.0.113.10",
            "169.254.169.254",
            "fd00:ec2::254",
            "fd00:ec2::5",
            "64:ff9b::a00:1",
            "192.0.2.1",
        ]
    ),
    st.integers(8, 128),
)
entries_of_addresses = st.lists(st.builds(AddressEntry, networks, st.sampled_from([None, 80, 5432])), max_size=6)
addresses = st.sampled_from([
    "10.1.2.3", "10.1.2.4", "10.200.0.1", "203.0.113.10", "169.254.169.254", "169.254.169.253", "fd00:ec2::254", "fd00:ec2::253",
    "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "::ffff:10.1.2.3", "2002:a01:203::1", "192.0.2.1", "192.0.2.2",
])  # fmt: skip


def naive_covers(entries: list[AddressEntry], address: str, port: int) -> bool:
    """An entry whose network holds it and whose port is right; for a guarded address only one for it alone."""
    one = ip_address(address)
    is_guarded = any(one in ip_network(text) for text in (*METADATA, *PROBES, *CARRIERS))
    return any(
        one in entry.network and entry.port in (None, port) and (entry.network.num_addresses == 1 or not is_guarded)
        for entry in entries
    )


@given(entries_of_addresses, addresses, st.sampled_from([80, 443, 5432]))
@example([AddressEntry(ip_network("fd00:ec2::/32"), None)], "fd00:ec2::254", 80)
def test_an_address_is_covered_as_by_looking_at_each_entry(
    entries: list[AddressEntry], address: str, port: int
) -> None:
    """Reduced or not."""
    expected = naive_covers(entries, address, port)

    assert covers(entries, address, port) is expected
    assert covers(reduce_addresses(entries), address, port) is expected
    assert Engine(addresses=entries).judge(address, port).allowed is expected


@given(entries_of_addresses)
def test_reducing_addresses_twice_is_reducing_once_and_invents_nothing(entries: list[AddressEntry]) -> None:
    reduced = reduce_addresses(entries)

    assert reduce_addresses(reduced[::-1]) == reduced
    assert set(reduced) <= set(entries)
    assert list(reduced) == sorted(reduced, key=lambda entry: entry.order)


@given(st.text(alphabet="GETPUHAD*,a.test/x %2e;?#()[]^$|\\\n", max_size=24))
@example("GET a.test/(x)")
def test_an_accepted_method_and_path_entry_is_canonical_and_matches_its_own_path(text: str) -> None:
    try:
        entry = parse_entry(text)
    except UsageError:
        return
    if not isinstance(entry, RuleEntry):
        return
    assert parse_entry(entry.text()) == entry
    assert set(entry.methods) <= set(METHODS)
    assert form_fault(entry.path) == ""
    (policy,) = gather([(entry, "--allow")]).policy.rules
    assert HostRules(policy).judge(entry.methods[0], entry.path.replace("*", "x")).allowed


@given(st.sampled_from([*ACTIONS, "allow", ""]), st.text(max_size=6) | st.sampled_from(METHODS), st.text(max_size=20))
def test_an_accepted_rule_is_one_line_of_printable_text(action: str, method: str, path: str) -> None:
    try:
        text = parse_rule(action, method, path).text()
    except ValueError:
        return
    assert re.fullmatch(r"(ALLOW|DENY) (\*|[A-Z]+) [ -~]+", text)


names = st.sampled_from(
    ["a.test", "A.TEST.", "b.a.test", "evil.test", "*.test", "10.0.0.1", "[2001:db8::1]", "localhost", ""]
)
ports = st.sampled_from([80, 443, 22])
AGREED = (
    HttpRequest("GET", "/x", "a.test", 80, "http", "a.test", 80, "a.test"),
    HttpRequest("GET", "/x?y", "a.test", 443, "https", "a.test", 443, "a.test", "a.test", "websocket"),
    HttpRequest("GET", "/", "10.0.0.1", 22, "http", "10.0.0.1", 22, "10.0.0.1:22"),
)
FIELDS = {
    "method": st.sampled_from(["GET", "POST", "get", ""]),
    "path": st.sampled_from(["/", "/x", "/../x", "/x?y", ""]),
    "host": names,
    "port": ports,
    "scheme": st.sampled_from(["http", "https", "ftp"]),
    "url_host": names,
    "url_port": ports,
    "host_header": st.builds(str.__add__, names, st.sampled_from(["", ":80", ":443", ":0", ":x", ":"])),
    "sni": names,
    "upgrade": st.sampled_from(["", "websocket", "WebSocket, h2c", "h2c"]),
    "has_body": st.booleans(),
}
# One field, which by itself has to be enough for a refusal, or two.
fields = st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=2, unique=True)
exchanged = fields.flatmap(lambda found: st.fixed_dictionaries({name: FIELDS[name] for name in found}))
requests = st.builds(lambda request, fields: request._replace(**fields), st.sampled_from(AGREED), exchanged)
# These allow what agrees; a host with rules among the others changes what is asked of it.
ALLOWED = ["a.test", "b.a.test", "evil.test", "10.0.0.0/8"]


@settings(max_examples=400)
@given(requests, st.lists(texts, max_size=1))
def test_whatever_is_allowed_names_one_host_that_the_policy_allows(request: HttpRequest, entries: list[str]) -> None:
    engine = Engine(*gather(parsed([*ALLOWED, *entries])).policy)
    if not engine.judge_request(request).allowed:
        return

    assert engine.judge(request.host, request.port).allowed
    (name,) = {canonical_host(name) for name in (request.host, request.url_host)}
    shown = show_authority(name, request.port)
    default = {"http": 80, "https": 443}[request.scheme]
    headers = {shown, shown.removesuffix(f":{default}")}
    assert request.host_header.lower().replace(".:", ":").removesuffix(".") in headers
    assert request.url_port == request.port
    assert (canonical_host(request.sni) if request.sni else "") == (name if request.scheme == "https" else "")
    # Nothing else is passed on.
    assert "websocket" not in request.upgrade.lower() or request.method == "GET"
