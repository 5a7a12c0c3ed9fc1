"""Names of distribution packages for `--install`. What comes out can stand in a shell command between quotes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

# apt reads a trailing '-' as "remove", '/' as "from that suite" and a leading '-' as an option: none of them fits.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:-]*\*?")


def parse_packages(texts: Iterable[str]) -> tuple[str, ...]:
    """The packages, sorted, each once. Raises UsageError for one that is not `NAME` or `NAME=VERSION`."""
    packages = sorted({_parse(text) for text in texts})
    names = [package.partition("=")[0] for package in packages]
    for name in names:
        if names.count(name) > 1:
            both = " and ".join(package for package in packages if package.partition("=")[0] == name)
            raise UsageError(f"--install names {name} twice: {both}", hint="leave one of them out")
    return tuple(packages)


def _parse(text: str) -> str:
    name, equals, version = text.partition("=")
    if _NAME.fullmatch(name) and (_VERSION.fullmatch(version) if equals else True):
        return text
    nearest = text.strip().lower()
    if nearest != text and _NAME.fullmatch(nearest):
        raise UsageError(f"--install {text!r} is not a package name", hint=f"write: --install {nearest}")
    raise UsageError(f"--install {text!r} is not a package name", hint="write: --install jq, or --install 'jq=1.7*'")
