"""
What is said of the host's pi on its way into a sandbox, as values: light, because each start with a pi reads them.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import NamedTuple

MODELS = "models.json"
SETTINGS = "settings.json"
DEFAULT_VARIABLE = "AI_API_TOKEN"
# Why a provider has no key: that is said of the provider already.
NO_TOKEN = "no token was given for this provider"  # noqa: S105  # words
# pi's package -> how it writes a reference to a variable. The older one would send `$NAME` as the key itself.
SPELLINGS = {"@earendil-works/pi-coding-agent": "${}", "@mariozechner/pi-coding-agent": "{}"}

# A canonical host and a port; a text and 0 where a URL names none.
Place = tuple[str, int]


class Drop(NamedTuple):
    """What was left out, by its place in the file, and why. Never the value."""

    place: str
    why: str


class Provider(NamedTuple):
    """A provider, the hosts and ports that it speaks to, whether it wants a key, and the headers that carry this."""

    name: str
    places: tuple[Place, ...]
    wants_key: bool
    headers: tuple[str, ...] = ("Authorization",)


class Token(NamedTuple):
    """A variable, and the provider whose key it holds."""

    variable: str
    provider: Provider


class ImagePi(NamedTuple):
    """The pi of an image: its package, which decides how it names a variable, and its version."""

    package: str
    version: str


class PiFiles(NamedTuple):
    """The two files of the host's pi that are read, None where there is none, and the directory that they are in."""

    directory: str
    models: bytes | None
    settings: bytes | None


class PiWish(NamedTuple):
    """
    What was asked for: the variable that all providers share, "" for none, and those of single providers.

    `inject`: the tokens stay in the gate. `withheld`: none goes along, because nobody has said yes to that. `passed`
    are the variables that go in all the same, because they were named by themselves.
    """

    wanted: bool = True
    variable: str = DEFAULT_VARIABLE
    given: tuple[tuple[str, str], ...] = ()
    inject: bool = False
    withheld: bool = False
    passed: tuple[str, ...] = ()


class Chosen(NamedTuple):
    """What a command line says of the provider: its name, or a model's, which may begin with one."""

    provider: str = ""
    model: str = ""


class Bridge(NamedTuple):
    """
    What comes of the host's files.

    `files` are name and text; `tokens` go along, `drops` were left out. `selected` is the provider that pi begins with,
    None where it would choose itself; `closed` are those that cannot be reached, each with the places that are not
    allowed, and `undecided` those of which nobody has said whose the token is.
    """

    files: dict[str, str]
    tokens: tuple[Token, ...]
    drops: tuple[Drop, ...]
    selected: Provider | None
    closed: tuple[Provider, ...]
    undecided: tuple[Provider, ...]


def bridge_json(bridge: Bridge) -> str:
    """The bridge as text, to be kept."""
    return json.dumps(bridge)


def read_bridge(text: str) -> Bridge:
    """The bridge that was kept. Raises ValueError or TypeError for anything else."""
    files, tokens, drops, selected, closed, undecided = json.loads(text)
    return Bridge(
        files,
        tuple(Token(variable, _provider(provider)) for variable, provider in tokens),
        tuple(Drop(*drop) for drop in drops),
        _provider(selected) if selected else None,
        tuple(map(_provider, closed)),
        tuple(map(_provider, undecided)),
    )


def _provider(item: list[object]) -> Provider:
    name, places, wants_key, headers = item
    if not isinstance(name, str) or not isinstance(places, list) or not isinstance(headers, list):
        raise TypeError("a provider is not in its form")
    return Provider(name, tuple((host, port) for host, port in places), bool(wants_key), tuple(headers))


def chosen_in(arguments: tuple[str, ...]) -> Chosen:
    """What the arguments of pi say of the provider; of two the later one counts."""
    found = {"--provider": "", "--model": ""}
    for flag, value in pairwise(arguments):
        if flag in found:
            found[flag] = value
    return Chosen(found["--provider"], found["--model"])
