"""Names of distribution packages for `--install`. What comes out can stand in a shell command between quotes."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# apt reads a trailing '-' as "remove", '/' as "from that suite" and a leading '-' as an option: none of them fits.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:-]*\*?")


def parse_packages(texts: Iterable[str], named: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """
    The packages, sorted, each once. Raises UsageError for one that is not `NAME` or `NAME=VERSION`.

    `named` says of a text what an error about it begins with, where it did not come by the flag.
    """
    packages = sorted({_parse(text, named.get(text, "--install")) for text in texts})
    names = [package.partition("=")[0] for package in packages]
    for name in names:
        if names.count(name) > 1:
            both = " and ".join(package for package in packages if package.partition("=")[0] == name)
            raise UsageError(f"--install names {name} twice: {both}", hint="leave one of them out")
    return tuple(packages)


def _parse(text: str, where: str) -> str:
    name, equals, version = text.partition("=")
    if _NAME.fullmatch(name) and (_VERSION.fullmatch(version) if equals else True):
        return text
    nearest = text.strip().lower()
    if nearest != text and _NAME.fullmatch(nearest):
        raise UsageError(
            f"{where} {text!r} is not a package name",
            hint=f"write: {nearest}" if where != "--install" else f"write: --install {nearest}",
        )
    raise UsageError(f"{where} {text!r} is not a package name", hint="write: --install jq, or --install 'jq=1.7*'")
