"""
The policy file: strict YAML, in which everything is text and nothing has a second meaning.

    version: 1
    allow: [llm.example.com, "@npm", "10.20.0.5:5432"]
    networkPolicies:
      - host: api.github.com
        policies:
          - {action: DENY,  path: "/.*",       method: "*"}
          - {action: ALLOW, path: "/repos/.*", method: GET}

Only the tree of nodes is read: a scalar is the text that stands there, whatever YAML would make of it. What
could stand for something else (anchors, aliases, tags, directives, a second document) is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import yaml

from aisb.domain.entries import parse_entry
from aisb.domain.gather import SourcedHost, SourcedRule
from aisb.domain.http_rules import parse_rule
from aisb.domain.names import EXACT, NameEntry
from aisb.domain.text_file import text_of
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = "1"
LARGEST_FILE = 1_000_000
_DEEPEST = 8
# By where they belong; the hint for a key at the wrong place names the right one.
_KEYS = {
    "the top of the file": ("version", "allow", "networkPolicies"),
    "an item of networkPolicies": ("host", "policies"),
    "an item of policies": ("action", "path", "method"),
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


class _Reader:
    """Reads one file; knows its name for what is wrong in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, text: str) -> PolicyFile:
        top = self._mapping(self._root(text), _TOP)
        if (version := top.get("version")) is not None and self._text(version) != VERSION:
            raise self._refused(version, f"version {self._text(version)!r} is not known", f"version: {VERSION}")
        allow, hosts = top.get("allow"), top.get("networkPolicies")
        return PolicyFile(
            allow=tuple((self._text(item), self._origin(item)) for item in self._items(allow, "allow")),
            hosts=tuple(map(self._host, self._items(hosts, "networkPolicies"))),
        )

    def _root(self, text: str) -> yaml.Node:
        try:
            self._check_events(yaml.parse(text, Loader=yaml.SafeLoader))
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
            why = getattr(error, "problem", None) or "a character here cannot stand in YAML"
            raise UsageError(f"{self._name}:{line}: this is not YAML: {why}", hint=f"write: {_FORMS[_TOP]}") from error
        if root is None:
            raise UsageError(f"{self._name}:1: the file says nothing", hint=f"write: {_FORMS[_TOP]}")
        return root

    def _check_events(self, events: Iterable[yaml.Event]) -> None:
        """Refuse what could stand for something else, before a tree is made of it."""
        depth = documents = 0
        for event in events:
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            documents += isinstance(event, yaml.DocumentStartEvent)
            if fault := _fault_of_event(event):
                raise self._refused(event, fault, "the text itself")
            if depth > _DEEPEST:
                raise self._refused(event, "this is nested too deeply", _FORMS[_RULE])
            if documents > 1:
                raise self._refused(event, "a second document begins here", "one document in a file")

    def _host(self, node: yaml.Node) -> SourcedHost:
        fields = self._mapping(node, _HOST, needs=("host", "policies"))
        rules = tuple(map(self._rule, self._items(fields["policies"], "policies")))
        return SourcedHost(self._name_of_host(fields["host"]), rules, self._origin(node))

    def _name_of_host(self, node: yaml.Node) -> str:
        text = self._text(node)
        try:
            entry = parse_entry(f"exact:{text}")
        except UsageError as error:
            raise self._refused(node, f"host {text!r} is not one exact name", "host: api.example.com") from error
        # A port would be dropped silently: rules speak of requests, on ports 80 and 443.
        if not isinstance(entry, NameEntry) or entry.match != EXACT or ":" in text:
            raise self._refused(node, f"host {text!r} is more than a name", f"host: {text.partition(':')[0]}")
        return entry.host

    def _rule(self, node: yaml.Node) -> SourcedRule:
        fields = self._mapping(node, _RULE, needs=("action", "path", "method"))
        action, path, method = (self._text(fields[key]) for key in ("action", "path", "method"))
        try:
            return SourcedRule(parse_rule(action, method, path), self._origin(node))
        except ValueError as error:
            raise self._refused(node, str(error), _FORMS[_RULE]) from error

    def _mapping(self, node: yaml.Node, where: str, needs: tuple[str, ...] = ()) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._refused(node, f"{where} has keys: {', '.join(_KEYS[where])}", _FORMS[where])
        found: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self._text(key_node)
            if key not in _KEYS[where]:
                raise self._refused(key_node, f"{key!r} is not a known key here", _nearest_key(key, where))
            if key in found:
                raise self._refused(key_node, f"{key!r} stands here twice", f"one {key}")
            found[key] = value
        if missing := [key for key in needs if key not in found]:
            raise self._refused(node, f"{where} needs {' and '.join(map(repr, missing))}", _FORMS[where])
        return found

    def _items(self, node: yaml.Node | None, key: str) -> list[yaml.Node]:
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self._refused(node, f"{key!r} is a list", f"{key}: [...], or one item a line after -")
        return list(node.value)

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._refused(node, "this is text, not a list and not keys", '"in quotes"')
        # Nothing after a dash or a colon: YAML calls it null, and nobody means it.
        if not node.value:
            raise self._refused(node, "there is nothing here", "a text")
        return str(node.value)

    def _origin(self, node: yaml.Node | yaml.Event) -> str:
        # The stub of an event allows for no mark; the parser always sets one.
        return f"{self._name}:{node.start_mark.line + 1 if node.start_mark else 1}"

    def _refused(self, node: yaml.Node | yaml.Event, why: str, nearest: str) -> UsageError:
        return UsageError(f"{self._origin(node)}: {why[:300]}", hint=f"write: {nearest[:300]}")


def _fault_of_event(event: yaml.Event) -> str:
    if isinstance(event, yaml.AliasEvent):
        return f"*{event.anchor} is an alias"
    if getattr(event, "anchor", None):
        return "there is an anchor"
    if getattr(event, "tag", None):
        return "there is a tag"
    if isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
        return "there is a directive"
    return ""


def _nearest_key(key: str, where: str) -> str:
    elsewhere = [place for place, keys in _KEYS.items() if key in keys]
    if elsewhere:
        return f"{key} in {elsewhere[0]}"
    from difflib import get_close_matches

    close = get_close_matches(key.lower(), {known.lower(): known for known in _KEYS[where]}, n=1)
    return next((known for known in _KEYS[where] if [known.lower()] == close), ", ".join(_KEYS[where]))
