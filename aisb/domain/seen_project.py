"""
A first allow list for a project, from what its tools are configured to use.

Only the user's own configuration counts. What a file of the project names, its agent could have written: that is put
down as a comment, for a person to judge.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.names import WEB_PORTS, NameEntry
from aisb.domain.net import ALLOW
from aisb.domain.policy import parse_allow
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Linear in the text, which may be a large one that somebody made to be slow.
_URL = re.compile(
    r"(https?)://(?:[^\s/@\"']{0,200}@)?([A-Za-z0-9.-]{1,253})(?::([0-9]{1,5}))?(?=[/\s\"'),?#]|$)", re.IGNORECASE
)
_MODULE = re.compile(r"^[ \t]*(?:require[ \t]+)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)/\S+[ \t]+v[0-9]", re.MULTILINE)
_MOST = 40


class Tool(NamedTuple):
    """
    A tool that fetches packages: `marker` is the file that shows its use, `locks` the project's files that name hosts.

    `preset` is the name of the hosts that the image's own tool uses, "" where there is no such preset.
    """

    name: str
    marker: str
    locks: tuple[str, ...]
    preset: str = ""


TOOLS = (
    Tool("npm", "package.json", (".npmrc", "package-lock.json", "yarn.lock"), "npm"),
    Tool("pip", "pyproject.toml", ("pyproject.toml", "requirements.txt", "uv.lock", "poetry.lock"), "pypi"),
    Tool("cargo", "Cargo.toml", (".cargo/config.toml", "Cargo.lock")),
    Tool("go", "go.mod", ("go.mod",)),
)


class Seen(NamedTuple):
    """
    What was read for one tool: texts by where they stand, the user's own and the project's, and what could not be read.
    """

    tool: Tool
    own: Mapping[str, str]
    theirs: Mapping[str, str]
    unread: tuple[str, ...] = ()


def allow_list(seen: Iterable[Seen]) -> str:
    """The text of `.ai-sandbox/allow`: entries by the user's configuration, as comments what the project proposes."""
    lines = ["# What may be reached from this project, one entry a line.", "# What it comes to: aisb policy show"]
    allowed: set[str] = set()
    for item in seen:
        lines += _of_tool(item, allowed)
    return "".join(f"{line}\n" for line in lines)


def _of_tool(seen: Seen, allowed: set[str]) -> list[str]:
    own = _entries_by_place(seen.own, seen.tool.name)
    theirs = _entries_by_place(seen.theirs, seen.tool.name)
    fresh = sorted(own.keys() - allowed)
    allowed.update(own)
    proposed = sorted(theirs.keys() - allowed)
    return [
        "",
        f"# {seen.tool.marker}: {seen.tool.name}",
        *_preset(seen.tool),
        *(f"{entry}  # {own[entry]}" for entry in fresh),
        *(
            []
            if own or seen.tool.preset
            else [f"# No host is configured for {seen.tool.name}. What it needs: aisb learn"]
        ),
        *(["# Named by files that an agent can write. To allow one, take its # away:"] if proposed else []),
        *(f"#{entry}  # {theirs[entry]}" for entry in proposed[:_MOST]),
        *([f"# ... and {len(proposed) - _MOST} other hosts"] if len(proposed) > _MOST else []),
        *(f"# {name} could not be read" for name in seen.unread),
    ]


def _preset(tool: Tool) -> list[str]:
    return [f"@{tool.preset}"] if tool.preset else []


def _entries_by_place(texts: Mapping[str, str], tool: str) -> dict[str, str]:
    """Each entry with the first place that names it."""
    return {entry: where for where in reversed(list(texts)) for entry in entries_in(texts[where], tool)}


def entries_in(text: str, tool: str = "") -> list[str]:
    """An exact entry for each host that a text names as a place to fetch from; what is no host name is left out."""
    ports = {"http": 80, "https": 443}
    found = [(match[2], int(match[3] or ports[match[1].lower()])) for match in _URL.finditer(text)]
    if tool == "go":
        found += [(match[1], 443) for match in _MODULE.finditer(text)]
    entries = dict.fromkeys(_entry(host, port) for host, port in found)
    return [entry for entry in entries if entry]


def _entry(host: str, port: int) -> str:
    """The narrowest entry that aisb takes, "" where there is none."""
    text = f"exact:{host}" if port in WEB_PORTS else f"exact:{host}:{port}"
    try:
        (item,) = parse_allow(ALLOW, [(text, "--allow")])
    except UsageError:
        return ""
    return item.entry.text() if isinstance(item.entry, NameEntry) else ""
