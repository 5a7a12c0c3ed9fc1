"""The policy as the gate reads it."""

from __future__ import annotations

import pytest

from aisb.domain.egress import EgressPolicy, policy_json, read_policy
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.names import EXACT, WEB_PORTS, NameEntry

ENTRIES = ("a.test", "10.20.0.0/16:5432", "2001:db8::5", "host:11434", "GET,HEAD b.test/x/**")
WHOLE = (
    '{"addresses":[{"network":"10.20.0.0/16","port":5432},{"network":"2001:db8::5/128","port":null}],'
    '"host_ports":[11434],'
    '"injections":[],'
    '"learn":false,'
    '"names":[{"host":"a.test","match":"tree","ports":[80,443]}],'
    '"rules":[{"host":"b.test","rules":['
    '{"action":"ALLOW","method":"GET","path":"/x/.*"},{"action":"ALLOW","method":"HEAD","path":"/x/.*"}]}],'
    '"version":4}\n'
)


def test_every_kind_of_entry_is_in_it_and_no_origin() -> None:
    policy = gather((parse_entry(text), "/home/user/.config/ai-sandbox/config.yaml:3") for text in ENTRIES).policy

    assert policy_json(policy) == WHOLE
    assert read_policy(WHOLE) == policy


def test_an_empty_policy_is_a_policy() -> None:
    assert read_policy(policy_json(EgressPolicy())) == EgressPolicy()


def test_a_policy_that_learns_says_so() -> None:
    learning = read_policy(WHOLE)._replace(learn=True)

    assert policy_json(learning) == WHOLE.replace('"learn":false', '"learn":true')
    assert read_policy(policy_json(learning)) == learning


def test_squids_outer_bound_knows_the_hosts_with_rules() -> None:
    assert read_policy(WHOLE).listed_names[1:] == (NameEntry("b.test", EXACT, WEB_PORTS),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version":4', '"version":2'),
        ('"version":4', '"version":4.0'),
        ('"version":4', '"version":true'),
        ('"version":4', '"more":[],"version":4'),
        ('"version":4', '"version":4,"version":4'),
        (',"version":4', ""),
        ('"learn":false', '"learn":0'),
        ('"learn":false', '"learn":null'),
        ('"learn":false', '"learn":"true"'),
        ('"learn":false,', ""),
        ("\n", ""),
        ('{"addresses"', '{ "addresses"'),
        ('"host_ports":[11434],', ""),
        ('"host_ports":[11434]', '"host_ports":["11434"]'),
        ('"host_ports":[11434]', '"host_ports":11434'),
        ('"host_ports":[11434]', '"host_ports":null'),
        ('"host":"a.test"', '"host":"A.test"'),
        ('"host":"a.test"', '"host":7'),
        ('"match":"tree"', '"match":"regex"'),
        ('"match":"tree"', '"match":["tree"]'),
        ('"match":"tree",', ""),
        ("[80,443]", "[443,true]"),
        ("[80,443]", "[0]"),
        ('"10.20.0.0/16"', '"10.20.0.1/16"'),
        ('"10.20.0.0/16"', '"10.20.0.0/016"'),
        ('"10.20.0.0/16"', "168034304"),
        ('"port":5432', '"port":65536'),
        ('"port":5432', '"port":""'),
        ('"host":"b.test"', '"host":"B.test"'),
        ('"ALLOW","method":"GET"', '"allow","method":"GET"'),
        ('"method":"GET"', '"method":"get"'),
        ('"/x/.*"', '"("'),
        ('"/x/.*"', "null"),
        ('{"action":"ALLOW","method":"GET","path":"/x/.*"}', '["ALLOW","GET","/x/.*"]'),
        (WHOLE, "[]"),
        (WHOLE, "{}"),
        (WHOLE, ""),
        (WHOLE, "[" * 100_000),
    ],
)
def test_a_policy_that_is_not_canonical_is_refused_whole(old: str, new: str) -> None:
    assert old in WHOLE
    with pytest.raises(ValueError, match=r"."):
        read_policy(WHOLE.replace(old, new, 1))
