"""
Everything that was allowed, from wherever it came, as one reduced policy; and where each rule of it was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import AddressEntry
from aisb.domain.egress import EgressPolicy
from aisb.domain.entry_kinds import HostPortEntry, PresetEntry, RuleEntry
from aisb.domain.http_rules import ALLOW, HostPolicy, Rule
from aisb.domain.names import NameEntry
from aisb.domain.paths import glob_regex
from aisb.domain.reduce import reduce_addresses, reduce_names
from aisb.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisb.domain.entry_kinds import Entry


class SourcedRule(NamedTuple):
    """A rule and where it was written."""

    rule: Rule
    origin: str


class SourcedHost(NamedTuple):
    """One item of a file's `networkPolicies`."""

    host: str
    rules: tuple[SourcedRule, ...]
    origin: str


class Gathered(NamedTuple):
    """
    The policy, and the origins of its rules: those of a host in the order of its rules.

    The verdict's `rule_index` less one finds the origin of the rule that decided.
    """

    policy: EgressPolicy
    origins: Mapping[str, tuple[str, ...]]


def gather(entries: Iterable[tuple[Entry, str]], hosts: Iterable[SourcedHost] = ()) -> Gathered:
    """
    The policy of entries with their origins and of the rules of policy files, the weakest file first.

    Rules of one host add up in the order of their files; method and path entries follow them as ALLOW rules.
    """
    sourced = sorted(entries, key=lambda pair: (pair[0].text(), pair[1]))
    kinds = [entry for entry, _ in sourced]
    if any(isinstance(entry, PresetEntry) for entry in kinds):
        raise InternalError("a preset was not expanded")
    rules = _rules_by_host(sourced, hosts)
    policy = EgressPolicy(
        names=reduce_names(entry for entry in kinds if isinstance(entry, NameEntry)),
        addresses=reduce_addresses(entry for entry in kinds if isinstance(entry, AddressEntry)),
        host_ports=tuple(sorted({entry.port for entry in kinds if isinstance(entry, HostPortEntry)})),
        rules=tuple(HostPolicy(host, tuple(item.rule for item in rules[host])) for host in sorted(rules)),
    )
    return Gathered(policy, {host: tuple(item.origin for item in found) for host, found in rules.items()})


def _rules_by_host(
    sourced: Iterable[tuple[Entry, str]], hosts: Iterable[SourcedHost]
) -> dict[str, tuple[SourcedRule, ...]]:
    found: dict[str, list[SourcedRule]] = {}
    for item in hosts:
        found.setdefault(item.host, []).extend(item.rules)
    entries: dict[str, list[SourcedRule]] = {}
    for entry, origin in sourced:
        if isinstance(entry, RuleEntry):
            entries.setdefault(entry.host, []).extend(_rules_of(entry, origin))
    for host, rules in entries.items():
        # All of them allow, so their order means nothing, and one text stands for all with that meaning.
        found.setdefault(host, []).extend(sorted(rules))
    return {host: _without_repetitions(rules) for host, rules in found.items()}


def _rules_of(entry: RuleEntry, origin: str) -> Iterable[SourcedRule]:
    path = glob_regex(entry.path)
    return (SourcedRule(Rule(ALLOW, method, path), origin) for method in entry.methods)


def _without_repetitions(rules: list[SourcedRule]) -> tuple[SourcedRule, ...]:
    """Of equal rules the last: wherever an earlier one matches, the last one does, later."""
    last = {item.rule: index for index, item in enumerate(rules)}
    return tuple(item for index, item in enumerate(rules) if last[item.rule] == index)
