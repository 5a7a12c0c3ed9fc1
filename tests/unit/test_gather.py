"""From entries and files to one policy, with the origin of each rule."""

from __future__ import annotations

import pytest

from aisb.domain.egress import EgressPolicy
from aisb.domain.entries import parse_entry
from aisb.domain.gather import Gathered, SourcedHost, SourcedRule, gather
from aisb.domain.http_rules import HostPolicy, Rule
from aisb.errors import InternalError

ALLOW, DENY = Rule("ALLOW", "GET", "/a"), Rule("DENY", "*", "/.*")


def host(name: str, origin: str, *rules: Rule) -> SourcedHost:
    return SourcedHost(name, tuple(SourcedRule(rule, f"{origin}:{line}") for line, rule in enumerate(rules, 2)), origin)


def test_rules_of_files_stand_in_their_order_and_entries_come_after_them() -> None:
    gathered = gather(
        [(parse_entry("PUT,HEAD a.test/x/*"), "--allow"), (parse_entry("GET a.test/b"), "allow:7")],
        [host("a.test", "repo.yaml", DENY, ALLOW), host("b.test", "repo.yaml"), host("a.test", "--policy", DENY)],
    )

    assert gathered == Gathered(
        EgressPolicy(
            rules=(
                HostPolicy(
                    "a.test",
                    (
                        ALLOW,
                        DENY,
                        Rule("ALLOW", "GET", "/b"),
                        Rule("ALLOW", "HEAD", "/x/[^/]+"),
                        Rule("ALLOW", "PUT", "/x/[^/]+"),
                    ),
                ),
                HostPolicy("b.test", ()),
            )
        ),
        {"a.test": ("repo.yaml:3", "--policy:2", "allow:7", "--allow", "--allow"), "b.test": ()},
    )


def test_of_equal_rules_the_last_one_stays() -> None:
    gathered = gather([], [host("a.test", "f", ALLOW, DENY, ALLOW)])

    assert gathered.policy.rules == (HostPolicy("a.test", (DENY, ALLOW)),)
    assert gathered.origins == {"a.test": ("f:3", "f:4")}


@pytest.mark.parametrize(
    "entries",
    [
        ("GET,PUT a.test/a", "GET a.test/b"),
        ("GET a.test/b", "PUT a.test/a", "GET a.test/a"),
        ("GET a.test/a", "PUT,GET a.test/a", "GET A.test/b"),
    ],
)
def test_the_same_meaning_is_the_same_policy_however_it_is_written(entries: tuple[str, ...]) -> None:
    rules = (Rule("ALLOW", "GET", "/a"), Rule("ALLOW", "GET", "/b"), Rule("ALLOW", "PUT", "/a"))

    policy = gather((parse_entry(entry), f"allow:{line}") for line, entry in enumerate(entries)).policy

    assert policy == EgressPolicy(rules=(HostPolicy("a.test", rules),))


def test_a_preset_that_nobody_expanded_is_our_own_fault() -> None:
    with pytest.raises(InternalError):
        gather([(parse_entry("@npm"), "--allow")])
