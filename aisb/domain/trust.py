"""
What of a project's files has been seen by its user: by content, whatever date, branch or author they have.

The agent can write its project, so a file in it counts only with the very content that somebody looked at.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisb.domain.source_files import SourceFile

# Counts only directly in the project, and is read-only inside.
PROJECT_DIRECTORY = ".ai-sandbox"
ALLOW_FILE = f"{PROJECT_DIRECTORY}/allow"
POLICY_FILE = f"{PROJECT_DIRECTORY}/policy.yaml"
CONFIG_FILE = f"{PROJECT_DIRECTORY}/config.yaml"
# What aisb reads there.
PROJECT_FILES = (ALLOW_FILE, POLICY_FILE, CONFIG_FILE)
# Written by aisb for a person to look at, and never read.
PROPOSED_FILE = f"{PROJECT_DIRECTORY}/allow.proposed"


class Change(NamedTuple):
    """A file that is not what was trusted: `old` is None where it is new, `new` where it is gone."""

    name: str
    old: str | None
    new: str | None

    @property
    def state(self) -> str:
        """`new`, `gone` or `changed`."""
        return "new" if self.old is None else "gone" if self.new is None else "changed"

    def sentence(self) -> str:
        """What happened to it."""
        return f"{self.name} has changed" if self.state == "changed" else f"{self.name} is {self.state}"


def content_hash(files: Iterable[SourceFile]) -> str:
    """The hash of names and contents, whatever their order."""
    material = json.dumps(sorted(files))
    return hashlib.sha256(material.encode()).hexdigest()


def changes(trusted: Mapping[str, str], files: Iterable[SourceFile]) -> tuple[Change, ...]:
    """
    What differs between what was trusted and what a run is about to read, in the order of names.

    A project's own file that is gone counts too: with it may go what it denies. A file that only a flag names,
    and that no flag names now, does not.
    """
    now = {file.name: file.text for file in files}
    old = {name: text for name, text in trusted.items() if name in now or name in PROJECT_FILES}
    names = sorted(name for name in old.keys() | now.keys() if old.get(name) != now.get(name))
    return tuple(Change(name, old.get(name), now.get(name)) for name in names)
