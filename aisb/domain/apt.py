"""
The host's apt sources as something that serves another suite of the same distribution.

A base is seldom the host's own release, so suites are written `@suite@`, `@suite@-updates`, `@suite@-security`
and filled in where the base is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SUITE = "@suite@"

# The release that a host follows without naming it.
_ALIASES = ("oldstable", "stable", "testing", "unstable", "sid")
_KINDS = ("", "-updates", "-security")
_ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>\S.*)")
_MIRROR_LIST = "mirror+file:"
_ARCHIVE_KEYS = ("debian-archive-", "ubuntu-archive-")

# What of apt's configuration decides whether packages can be fetched at all. Nothing that runs a program.
_LENT = re.compile(r'Acquire::(?:https?::Proxy(?:::[^\s"]+)?|Check-(?:Date|Valid-Until)|ForceIPv[46]) "[^"\n]*";')


class AptSource(NamedTuple):
    """A mirror, the suites of it in terms of `@suite@`, its components, and whether the host takes it unsigned."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    trusted: bool = False


class _Entry(NamedTuple):
    """A source as it stands in a file."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    trusted: bool
    signed_by: str


def parse_sources(files: Iterable[tuple[str, str]], codename: str, read: Callable[[str], str]) -> tuple[AptSource, ...]:
    """
    The archive of the distribution itself, of what /etc/apt/sources.list and its like hold.

    `files` are pairs of name and text; `read` gives the text of a mirror list that a source points at. Other
    repositories, sources on a disk and backports are left out.
    """
    found: dict[AptSource, None] = {}
    for name, text in files:
        for entry in _deb822(text) if name.endswith(".sources") else _one_line(text):
            wanted = tuple(kind for suite in entry.suites for kind in _kind(suite, codename))
            uri = _resolve(entry.uri, read)
            if wanted and uri and _is_archive(entry):
                found[AptSource(uri, wanted, entry.components, entry.trusted)] = None
    return tuple(found)


def _is_archive(entry: _Entry) -> bool:
    """
    Whether this is the distribution's own archive, as far as that shows.

    Other people's repositories also have a `main` for each release, but they are signed by other keys.
    """
    keys = [key.rpartition("/")[2] for key in entry.signed_by.split()]
    return "main" in entry.components and all(key.startswith(_ARCHIVE_KEYS) for key in keys)


def _kind(suite: str, codename: str) -> Iterator[str]:
    for name in (codename, *_ALIASES):
        for suffix in _KINDS:
            if suite == name + suffix:
                yield SUITE + suffix


def _resolve(uri: str, read: Callable[[str], str]) -> str:
    """The http address of a source, or empty."""
    if uri.startswith(_MIRROR_LIST):
        lines = read("/" + uri.removeprefix(_MIRROR_LIST).lstrip("/")).split()
        uri = next((line for line in lines if line.startswith(("http://", "https://"))), "")
    return uri if uri.startswith(("http://", "https://")) else ""


def _one_line(text: str) -> Iterator[_Entry]:
    for line in text.splitlines():
        match = _ONE_LINE.fullmatch(line.partition("#")[0].strip())
        if match:
            options = dict(_option(option) for option in (match["options"] or "").split())
            yield _Entry(
                uri=match["uri"],
                suites=(match["suite"],),
                components=tuple(match["components"].split()),
                trusted=options.get("trusted", "") == "yes",
                signed_by=options.get("signed-by", "").replace(",", " "),
            )


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.lower(), value


def _deb822(text: str) -> Iterator[_Entry]:
    for stanza in re.split(r"\n\s*\n", text):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        for uri in fields.get("uris", "").split():
            yield _Entry(
                uri=uri,
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                trusted=fields.get("trusted", "").lower() == "yes",
                signed_by=fields.get("signed-by", ""),
            )


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[key] = f"{fields.get(key, '')} {line.strip()}"
            continue
        key, _, value = line.partition(":")
        key = key.strip().lower()
        fields[key] = value.strip()
    return fields


def render_sources(sources: Iterable[AptSource], distribution: str) -> str:
    """A deb822 file for the build, its first line naming the distribution that it serves; empty for no sources."""
    stanzas = [
        f"\nTypes: deb\nURIs: {source.uri}\nSuites: {' '.join(source.suites)}\n"
        f"Components: {' '.join(source.components)}\n" + ("Trusted: yes\n" if source.trusted else "")
        for source in sources
    ]
    return f"# {distribution}\n" + "".join(stanzas) if stanzas else ""


def render_suite(sources: Iterable[AptSource], suite: str) -> str:
    """A sources.list for one suite, with the main component alone; empty for no sources."""
    return "".join(
        f"deb {'[trusted=yes] ' if source.trusted else ''}{source.uri} {name.replace(SUITE, suite)} main\n"
        for source in sources
        for name in source.suites
    )


def lent_settings(dump: str) -> str:
    """The lines of `apt-config dump` that a build needs: proxies, and checks that the host cannot meet."""
    return "".join(f"{line}\n" for line in dump.splitlines() if _LENT.fullmatch(line))
