"""Answers for programs: each is one object in printable ASCII, whose first field is the version of its form."""

from __future__ import annotations

import json
from typing import Any

# One for all verbs. A field that is added changes nothing; one that goes, or means something else, makes a new version.
VERSION = 1


def answer_text(fields: dict[str, Any]) -> str:
    """The object, as it is printed."""
    return json.dumps({"version": VERSION, **fields}, indent=2) + "\n"
