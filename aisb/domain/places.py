"""What in a text that is no entry looks like a host: for advice, never for a policy."""

from __future__ import annotations

import re

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/@]*@)?(?P<place>[^/?#]*).*", re.IGNORECASE)
_SCP = re.compile(r"[^/@:]+@(?P<host>[^/@:]+):(?![0-9]+(?:/|$)).+")
# A URL of another scheme names neither 80 nor 443.
_SCHEME_PORTS = {"ssh": 22, "git+ssh": 22, "git": 9418, "postgres": 5432, "postgresql": 5432}
SEPARATORS = re.compile(r"[,\s]+")


def find_place(text: str) -> str:
    """What in the text looks like a host, with its port; "" where nothing does."""
    found = (_place_in(word) for word in SEPARATORS.split(text))
    return next((place for place in found if "." in place or place.startswith("localhost")), "")


def _place_in(word: str) -> str:
    url, scp = _URL.fullmatch(word), _SCP.fullmatch(word)
    place = scp["host"] if scp else url["place"] if url else word
    place = place.rpartition("@")[2].partition("/")[0].partition("#")[0].strip("*.=\"'`;").lower()
    port = 22 if scp else _SCHEME_PORTS.get(url["scheme"].lower()) if url else None
    return f"{place}:{port}" if port and ":" not in place else place
