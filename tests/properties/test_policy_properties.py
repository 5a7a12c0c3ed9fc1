"""What holds for every list of entries."""

from __future__ import annotations

import re
import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from aisb.domain.egress import EgressPolicy, policy_json
from aisb.domain.entries import parse_entries, parse_entry
from aisb.domain.entry_kinds import RULE_FORM
from aisb.domain.hosts import canonical_name, parse_authority, show_authority
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import MATCHES, Engine, NameEntry
from aisb.errors import UsageError

RULE_EXAMPLE = "GET,HEAD example.com/path/**"
labels = st.sampled_from(["a", "b", "api", "x-1", "test"])
names = st.lists(labels, min_size=2, max_size=5).map(".".join)
entries = st.builds(
    NameEntry, names, st.sampled_from(MATCHES), st.sampled_from([(80, 443), (22,), (443,), (22, 80, 443)])
)


@given(st.text(max_size=60))
def test_accepted_text_holds_only_safe_characters(text: str) -> None:
    try:
        canonical = parse_entry(text).text()
    except UsageError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._:/@,\[\]* !-~-]+", canonical)
    assert parse_entry(canonical).text() == canonical


pieces = st.sampled_from([
    "a.test", "test", "exact:", "below:", "preset:", "host:", "localhost", "http://", "git@", "@", "*.", "*", "=", ":", ".", ",",
    " ", "/", "22", "0", "10.0.0.1", "::1", "[", "]", "x", "GET",
])  # fmt: skip


def test_the_form_of_rules_holds_one() -> None:
    assert RULE_FORM.startswith(f"write: {RULE_EXAMPLE}, ")


def hint_for(text: str) -> str:
    try:
        parse_entries(text)
    except UsageError as error:
        return error.hint
    return ""


@given(st.lists(pieces, max_size=6).map("".join))
@example("GET exact:/")
@example("GET http://a.test/x")
@example(".git@10.0.0.1")
def test_what_a_refusal_says_to_write_is_an_entry(text: str) -> None:
    """Advice never leads from one refusal to the next."""
    hint = hint_for(text)
    if hint.startswith("write: "):
        # Of what holds a blank the whole is meant: a rule, in quotes or as the form of all rules.
        advised = RULE_EXAMPLE if hint == RULE_FORM else shlex.split(hint)[1].rstrip(",")
        assert parse_entries(advised), hint


@given(st.text(alphabet="aA1.-_*:[]\n é", max_size=20))
def test_a_canonical_name_is_canonical(text: str) -> None:
    try:
        name = canonical_name(text)
    except ValueError:
        return
    assert canonical_name(name) == name
    assert re.fullmatch(r"[a-z0-9._-]+", name)


@given(st.text(alphabet="ab1.:[]-0 \r\n", max_size=20))
def test_an_authority_survives_being_written_and_read(text: str) -> None:
    try:
        host, port = parse_authority(text)
    except ValueError:
        return
    assert parse_authority(show_authority(host, port)) == (host, port)


@given(st.lists(entries, max_size=8), st.randoms())
def test_permutations_and_repetitions_give_the_same_bytes(items: list[NameEntry], random: object) -> None:
    shuffled = [*items, *items]
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random, typed as object

    assert policy_json(EgressPolicy(reduce_names(shuffled))) == policy_json(EgressPolicy(reduce_names(items)))


@given(st.lists(entries, max_size=8), names, st.sampled_from([22, 80, 443, 8443]))
def test_reducing_changes_no_verdict(items: list[NameEntry], host: str, port: int) -> None:
    assert Engine(items).judge(host, port).allowed == Engine(reduce_names(items)).judge(host, port).allowed


@given(st.lists(entries, max_size=8))
def test_reducing_twice_is_reducing_once(items: list[NameEntry]) -> None:
    assert reduce_names(reduce_names(items)) == reduce_names(items)


@given(st.lists(entries, max_size=6))
def test_no_entry_is_left_that_another_covers(items: list[NameEntry]) -> None:
    reduced = reduce_names(items)

    for one in reduced:
        others = Engine(entry for entry in reduced if entry != one)
        witness = one.host if one.match != "below" else f"w.{one.host}"
        assert not all(others.judge(witness, port).allowed for port in one.ports) or one.match == "tree"
