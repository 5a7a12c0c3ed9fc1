"""
Where what decided was written, in a run's own words: a gate is shared by policy, and knows no files of its runs.

aisb writes them beside the run's socket directory, where no sandbox sees them.
"""

from __future__ import annotations

import json
from typing import Any


class Origins:
    """The places in which one run's entries and rules were written, by what the engine calls them."""

    def __init__(self, entries: dict[str, Any], rules: dict[str, Any]) -> None:
        # The text of an entry -> its place, or its places by port where they differ.
        self._entries = entries
        # A host -> the places of its rules in their order.
        self._rules = rules

    @classmethod
    def read(cls, path: str) -> Origins:
        """Those in the file; none without one. Raises ValueError for what aisb does not write."""
        try:
            with open(path, encoding="ascii") as file:
                found = json.load(file)
        except FileNotFoundError:
            return cls({}, {})
        if not isinstance(found, dict) or {type(found.get(key)) for key in ("entries", "rules")} != {dict}:
            raise ValueError(f"{path} holds no origins")
        return cls(found["entries"], found["rules"])

    def of(self, host: str, port: int, rule: str, rule_index: int) -> str:
        """Where the rule that decided on this host and port was written; "" where that is nowhere."""
        if rule_index:
            places = self._rules.get(host, [])
            return str(places[rule_index - 1]) if rule_index <= len(places) else ""
        place = self._entries.get(rule, "")
        return str(place.get(str(port), "") if isinstance(place, dict) else place)
