"""
Strict YAML, in which everything is text and nothing has a second meaning.

Only the tree of nodes is read: a scalar is the text that stands there, whatever YAML would make of it. What
could stand for something else (anchors, aliases, tags, directives, escapes, a second document) is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEEPEST = 8
# Of what a backslash may stand before in double quotes, this is itself and nothing else.
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ITSELF = '\\"/'
# A text as it was meant, behind one of the characters that begin something else.
_PLAIN = re.compile(r"[@`*%][^,\]}\"\\]*")


class YamlReader:
    """
    Reads one file; knows its name for what is wrong in it.

    `keys` are the known keys by where they belong; the hint for a key at the wrong place names the right one.
    `forms` are examples of each place: the first is that of the whole file, the last stands deepest.
    """

    def __init__(self, name: str, keys: Mapping[str, tuple[str, ...]], forms: Mapping[str, str]) -> None:
        self._name = name
        self._keys = keys
        self._forms = forms
        self._whole, *_, self._deepest = [*forms.values(), *forms.values()]

    def root(self, text: str) -> yaml.Node:
        """The one document of the file. Raises UsageError for what is none, or could mean something else."""
        try:
            root = self._compose(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
            why = getattr(error, "problem", None) or "a character here cannot stand in YAML"
            hint = _in_quotes(text, error) or f"write: {self._whole}"
            raise UsageError(f"{self._name}:{line}: this is not YAML: {why}", hint=hint) from error
        if root is None:
            raise UsageError(f"{self._name}:1: the file says nothing", hint=f"write: {self._whole}")
        return root

    def _compose(self, text: str) -> yaml.Node | None:
        """The tree. Each event is looked at before anything is made of it, and refused where it could mean another."""
        refused = self._refusal_of
        depth = documents = 0

        def escaped(event: yaml.Event) -> UsageError | None:
            fault = _fault_of_escapes(text, event)
            return self.refused(event, fault, "the text itself") if fault else None

        class Checked(yaml.SafeLoader):
            def get_event(self) -> yaml.Event:
                nonlocal depth, documents
                event: yaml.Event = super().get_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                documents += isinstance(event, yaml.DocumentStartEvent)
                if fault := refused(event, depth, documents) or escaped(event):
                    raise fault
                return event

        root: yaml.Node | None = yaml.compose(text, Loader=Checked)
        return root

    def _refusal_of(self, event: yaml.Event, depth: int, documents: int) -> UsageError | None:
        """What is wrong with an event, so deep and in this document."""
        if fault := _fault_of_event(event):
            meant = f'"*{event.anchor}", in quotes' if isinstance(event, yaml.AliasEvent) else "the text itself"
            return self.refused(event, fault, meant)
        if depth > _DEEPEST:
            return self.refused(event, "this is nested too deeply", self._deepest)
        if documents > 1:
            return self.refused(event, "a second document begins here", "one document in a file")
        return None

    def mapping(self, node: yaml.Node, where: str, needs: tuple[str, ...] = ()) -> dict[str, yaml.Node]:
        """The values of known keys, each once. Raises UsageError with the nearest known key."""
        if not isinstance(node, yaml.MappingNode):
            raise self.refused(node, f"{where} has keys: {', '.join(self._keys[where])}", self._forms[where])
        found: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self.text(key_node)
            if key not in self._keys[where]:
                raise self.refused(key_node, f"{key!r} is not a known key here", self._nearest_key(key, where))
            if key in found:
                raise self.refused(key_node, f"{key!r} stands here twice", f"one {key}")
            found[key] = value
        if missing := [key for key in needs if key not in found]:
            raise self.refused(node, f"{where} needs {' and '.join(map(repr, missing))}", self._forms[where])
        return found

    def items(self, node: yaml.Node | None, key: str) -> list[yaml.Node]:
        """The items of the list under this key, none where the key is not there."""
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self.refused(node, f"{key!r} is a list", f"{key}: [...], or one item a line after -")
        return list(node.value)

    def text(self, node: yaml.Node) -> str:
        """The text as it is written."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.refused(node, "this is text, not a list and not keys", '"in quotes"')
        # Nothing after a dash or a colon: YAML calls it null, and nobody means it.
        if not node.value:
            raise self.refused(node, "there is nothing here", "a text")
        return str(node.value)

    def origin(self, node: yaml.Node | yaml.Event) -> str:
        """Where it is written: file:line."""
        # The stub of an event allows for no mark; the parser always sets one.
        return f"{self._name}:{node.start_mark.line + 1 if node.start_mark else 1}"

    def refused(self, node: yaml.Node | yaml.Event, why: str, nearest: str) -> UsageError:
        """The error that says where, why, and what to write instead."""
        return UsageError(f"{self.origin(node)}: {why[:300]}", hint=f"write: {nearest[:300]}")

    def _nearest_key(self, key: str, where: str) -> str:
        elsewhere = [place for place, keys in self._keys.items() if key in keys]
        if elsewhere:
            return f"{key} in {elsewhere[0]}"
        from difflib import get_close_matches

        known = {name.lower(): name for name in self._keys[where]}
        close = get_close_matches(key.lower(), known, n=1)
        return known[close[0]] if close else ", ".join(self._keys[where])


def _in_quotes(text: str, error: yaml.YAMLError) -> str:
    """What to write where a text begins with a character that means something to YAML; "" where that is not it."""
    for mark in (getattr(error, "context_mark", None), getattr(error, "problem_mark", None)):
        lines = text.split("\n")
        if mark is None or mark.line >= len(lines):
            continue
        word = _PLAIN.match(lines[mark.line], mark.column)
        if word:
            return f'put it in quotes: "{word[0].rstrip()[:300]}"'
    return ""


def _fault_of_escapes(text: str, event: yaml.Event) -> str:
    """What a name says by its numbers, or over several lines, is not what a person reads."""
    if not isinstance(event, yaml.ScalarEvent) or event.style != '"' or not event.start_mark or not event.end_mark:
        return ""
    for escape in _ESCAPE.finditer(text[event.start_mark.index : event.end_mark.index]):
        if escape[1] not in _ITSELF:
            shown = f"\\{escape[1]}" if escape[1].isprintable() else "a backslash at the end of a line"
            return f"{shown} stands for something else"
    return ""


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
