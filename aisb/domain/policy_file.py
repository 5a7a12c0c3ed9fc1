"""
The policy file: strict YAML, in which everything is text and nothing has a second meaning.

    version: 1
    allow: [llm.example.com, "@npm", "10.20.0.5:5432"]
    networkPolicies:
      - host: api.github.com
        policies:
          - {action: DENY,  path: "/.*",       method: "*"}
          - {action: ALLOW, path: "/repos/.*", method: GET}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.entries import parse_entry
from aisb.domain.gather import SourcedHost, SourcedRule
from aisb.domain.http_rules import ACTIONS, METHODS, can_never_match, parse_rule
from aisb.domain.names import EXACT, NameEntry
from aisb.domain.text_file import text_of
from aisb.domain.yaml_reader import YamlReader
from aisb.errors import UsageError

if TYPE_CHECKING:
    import yaml

VERSION = "1"
LARGEST_FILE = 1_000_000
TOP_KEYS = ("version", "allow", "networkPolicies")
HOST_KEYS = ("host", "policies")
RULE_KEYS = ("action", "path", "method")
# By where they belong; the hint for a key at the wrong place names the right one.
_KEYS = {
    "the top of the file": TOP_KEYS,
    "an item of networkPolicies": HOST_KEYS,
    "an item of policies": RULE_KEYS,
}
_TOP, _HOST, _RULE = _KEYS
_FORMS = {
    _TOP: "version: 1, and allow: [...] or networkPolicies: [...]",
    _HOST: "{host: api.example.com, policies: [...]}",
    _RULE: '{action: ALLOW, path: "/repos/.*", method: GET}',
}


class PolicyFile(NamedTuple):
    """What a file says: entries as they are written, each with its origin, and the rules of hosts."""

    allow: tuple[tuple[str, str], ...]
    hosts: tuple[SourcedHost, ...]


def parse_policy_file(data: bytes, name: str) -> PolicyFile:
    """The file's policy. Raises UsageError with `name`, the line, the item and the nearest right form."""
    if len(data) > LARGEST_FILE:
        raise UsageError(f"{name}: the file is larger than {LARGEST_FILE} bytes", hint="write rules that say more")
    return _Reader(name).read(text_of(data, name))


class _Reader(YamlReader):
    """Reads the top of a policy file, its hosts and their rules."""

    def __init__(self, name: str) -> None:
        super().__init__(name, _KEYS, _FORMS)

    def read(self, text: str) -> PolicyFile:
        top = self.mapping(self.root(text), _TOP)
        if (version := top.get("version")) is not None and self.text(version) != VERSION:
            raise self.refused(version, f"version {self.text(version)!r} is not known", f"version: {VERSION}")
        allow, hosts = top.get("allow"), top.get("networkPolicies")
        return PolicyFile(
            allow=tuple((self.text(item), self.origin(item)) for item in self.items(allow, "allow")),
            hosts=tuple(map(self._host, self.items(hosts, "networkPolicies"))),
        )

    def _host(self, node: yaml.Node) -> SourcedHost:
        fields = self.mapping(node, _HOST, needs=HOST_KEYS)
        rules = tuple(map(self._rule, self.items(fields["policies"], "policies")))
        return SourcedHost(self._name_of_host(fields["host"]), rules, self.origin(node))

    def _name_of_host(self, node: yaml.Node) -> str:
        text = self.text(node)
        try:
            entry = parse_entry(f"exact:{text}")
        except UsageError as error:
            raise self.refused(node, f"host {text!r} is not one exact name", "host: api.example.com") from error
        # A port would be dropped silently: rules speak of requests, on ports 80 and 443.
        if not isinstance(entry, NameEntry) or entry.match != EXACT or ":" in text:
            raise self.refused(node, f"host {text!r} is more than a name", f"host: {text.partition(':')[0]}")
        return entry.host

    def _rule(self, node: yaml.Node) -> SourcedRule:
        fields = self.mapping(node, _RULE, needs=RULE_KEYS)
        action, path, method = (self.text(fields[key]) for key in RULE_KEYS)
        try:
            rule = parse_rule(action, method, path)
        except ValueError as error:
            raise self.refused(node, str(error), _in_capitals(action, method) or _FORMS[_RULE]) from error
        if can_never_match(path):
            why = f"the path {path[:80]!r} matches nothing: every path begins with /, and the whole path is compared"
            raise self.refused(fields["path"], why, f"/{path.removeprefix('^')}")
        return SourcedRule(rule, self.origin(node))


def _in_capitals(action: str, method: str) -> str:
    """The first of the two that is none but for its small letters, as it is written; "" for neither."""
    parts = (("action", action, ACTIONS), ("method", method, METHODS))
    near = (f"{key}: {text.upper()}" for key, text, known in parts if text not in known and text.upper() in known)
    return next(near, "")
