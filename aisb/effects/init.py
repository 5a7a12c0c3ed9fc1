"""Look at a project and at the user's own configuration of its tools, and write a first allow list."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from aisb.domain.seen_project import TOOLS, Seen, allow_list
from aisb.domain.source_files import source_file
from aisb.domain.trust import ALLOW_FILE
from aisb.effects.safe_files import is_reached_through, make_own_directory, not_written, read_in_project, read_outside
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisb.domain.seen_project import Tool
    from aisb.domain.source_files import SourceFile

# Lines of these keys name a place to fetch from; others (a proxy, a home page) do not.
_FILES: Mapping[str, tuple[str, ...]] = {
    "npm": ("/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc", "~/.npmrc"),
    "pip": ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf", "~/.config/uv/uv.toml"),
    "cargo": ("~/.cargo/config.toml",),
    "go": ("~/.config/go/env",),
}
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "npm": ("NPM_CONFIG_REGISTRY", "npm_config_registry"),
    "pip": ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX"),
    "cargo": (),
    "go": ("GOPROXY",),
}
_KEYS = ("registry", "index", "url", "find-links", "goproxy", "replace-with")


def look_at(project: str, environ: Mapping[str, str]) -> list[Seen]:
    """What is to be read of each tool that the project uses."""
    used = [tool for tool in TOOLS if os.path.lexists(f"{project}/{tool.marker}")]
    return [Seen(tool, _own(tool, project, environ), *_theirs(tool, project)) for tool in used]


def write_allow_list(project: str, seen: Iterable[Seen]) -> SourceFile:
    """
    Write `.ai-sandbox/allow` as the caller's, and return what was written. Raises UsageError where there is one.
    """
    file = source_file(ALLOW_FILE, allow_list(seen).encode())
    with ExitStack() as stack:
        directory = make_own_directory(stack, project)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(os.path.basename(ALLOW_FILE), flags, 0o644, dir_fd=directory)
        except FileExistsError as error:
            raise UsageError(
                f"{project}/{ALLOW_FILE} is there already", hint="edit it, and say so: aisb trust"
            ) from error
        except OSError as error:
            raise not_written(f"{project}/{ALLOW_FILE}", "written", error) from error
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(file.data())
    return file


def _own(tool: Tool, project: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The user's configuration of a tool, by where it stands, only the lines that say where to fetch from."""
    home = environ.get("HOME", "")
    files = {path: _outside(path.replace("~", home, 1), project) for path in _FILES[tool.name]}
    found = {path: _lines_that_count(text) for path, text in files.items()}
    found |= {f"${name}": environ.get(name, "") for name in _VARIABLES[tool.name]}
    return {where: text for where, text in found.items() if text}


def _lines_that_count(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    kept = (line for line in lines if line[:1] not in (";", "#") and any(key in _key(line) for key in _KEYS))
    return "\n".join(kept)


def _key(line: str) -> str:
    return line.partition("=")[0].strip().lower()


def _outside(path: str, project: str) -> str:
    """A file of the user's; empty where there is none to read, and where it is a link to what an agent can write."""
    try:
        return "" if is_reached_through(path, project) else read_outside(path, path).text
    except UsageError:
        return ""


def _theirs(tool: Tool, project: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the project's files say, and the names of those that are there and cannot be read."""
    texts: dict[str, str] = {}
    unread: list[str] = []
    for name in tool.locks:
        if not os.path.lexists(f"{project}/{name}"):
            continue
        try:
            texts[name] = read_in_project(project, name).text
        except UsageError:
            unread.append(name)
    return texts, tuple(unread)
