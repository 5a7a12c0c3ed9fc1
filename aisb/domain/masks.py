"""Which files of a project read as empty inside: those that hold secrets by their name, and those that a flag names."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXAMPLES = (".example", ".sample", ".template", ".dist")
_KEYS = re.compile(r".*\.(pem|key)|id_.*", re.DOTALL | re.IGNORECASE)
KEY_MARK = b"PRIVATE KEY"


def is_environment_file(name: str) -> bool:
    """Whether the name is that of a file of variables, and not of an example of one."""
    return name == ".env" or (name.startswith(".env.") and not name.endswith(_EXAMPLES))


def may_be_key(name: str) -> bool:
    """Whether the name is that of a key; its first line has to say so too (`is_key`)."""
    return bool(_KEYS.fullmatch(name))


def is_key(data: bytes) -> bool:
    """Whether the first line is that of a private key: certificates have the same names."""
    return KEY_MARK in data.partition(b"\n")[0]


def parse_mask(text: str, origin: str) -> str:
    """A pattern: a name, or a path from the project on. Raises UsageError for what can match nothing."""
    parts = text.split("/")
    if not text or text.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\n" in text:
        raise UsageError(
            f"{origin} {text!r} is not a pattern of a name, nor of a path below the project",
            hint=f"write: {origin} '*.secret', or: {origin} config/secrets.yml",
        )
    return text


def is_masked(path: str, patterns: Iterable[str]) -> bool:
    """
    Whether one of the patterns means this path, which begins below the project.

    A pattern without a slash means names; in one with slashes `*` stays within a part of the path.
    """
    return any(_matches(path, pattern) for pattern in patterns)


def _matches(path: str, pattern: str) -> bool:
    names, patterns = path.split("/"), pattern.split("/")
    if len(patterns) == 1:
        return fnmatchcase(names[-1], pattern)
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def is_exact(pattern: str) -> bool:
    """Whether a pattern is one path, however deep it lies."""
    return "/" in pattern and not any(letter in pattern for letter in "*?[")
