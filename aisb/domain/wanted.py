"""What a person asked for, as far as a plan follows from it: plain text still, checked where it is used."""

from __future__ import annotations

from typing import NamedTuple


class Wanted(NamedTuple):
    """One request's part of a plan. `allow` holds the arguments of `--allow`, each with where it was written."""

    net: str
    allow: tuple[tuple[str, str], ...]
    environment: tuple[str, ...]
    install: tuple[str, ...]
    base_image: str
    ca_bundle: str
    node_origin: str
    idle_seconds: int
