"""
Prints, as JSON, the places that this image's own npm, pip and apt fetch packages from: entries for the presets.

Run once, when an image has been built, in a container without a network. What a tool is configured to use it alone
knows: each is asked for its settings, and a tool that is not there fetches from nowhere.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess

# As `typing` has it, whose import would take 15 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = 60.0
_URL = re.compile(r"(https?)://(?:[^/@\s]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?(?=[/?#]|$)")
_PORTS = {"http": "80", "https": "443"}
# Where pip looks when nobody says anything, in its own words: the index, and where its files are.
_PIP_DEFAULT = """
from pip._internal.models.index import PyPI
print(PyPI.simple_url, "https://" + PyPI.file_storage_domain)
"""


def said(*argv: str) -> str:
    """What a program printed; nothing where it is not there or failed."""
    environment = {"PATH": os.defpath + ":/usr/local/bin", "HOME": "/root", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, env=environment, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def npm() -> list[str]:
    """Its registry, and those of scopes."""
    try:
        settings = json.loads(said("npm", "config", "ls", "--long", "--json"))
    except ValueError:
        return []
    return [str(value) for key, value in settings.items() if key == "registry" or key.endswith(":registry")]


def pip() -> list[str]:
    """Its indexes as configured, or those that it has without being configured."""
    pairs = (line.partition("=") for line in said("python3", "-m", "pip", "config", "list").splitlines())
    named = [(key, " ".join(shlex.split(value))) for key, _, value in pairs if key.endswith("index-url")]
    default = [] if any(key.endswith(".index-url") for key, _ in named) else [said("python3", "-c", _PIP_DEFAULT)]
    return [url for text in (*(value for _, value in named), *default) for url in text.split()]


def apt() -> list[str]:
    """The archives in its sources: what it would fetch for an update, of which nothing is fetched."""
    return [
        line.split("'")[1] for line in said("apt-get", "--print-uris", "update").splitlines() if line.startswith("'")
    ]


def entries(urls: Iterable[str]) -> list[str]:
    """An entry for the host of each URL: the name alone, at the port of the web or the URL's own."""
    return sorted({entry for url in urls if (entry := entry_of(url))})


def entry_of(url: str) -> str:
    """The entry for one URL, "" for one that is not of the web."""
    match = _URL.match(url)
    if match is None:
        return ""
    scheme, host, port = match.groups()
    is_address = host.startswith("[") or host.replace(".", "").isdigit()
    if is_address:
        return f"{host}:{port or _PORTS[scheme]}"
    return f"exact:{host.lower()}" if port in (None, *_PORTS.values()) else f"exact:{host.lower()}:{port}"


def main() -> None:
    """All three, by the names of their presets."""
    print(json.dumps({"apt": entries(apt()), "npm": entries(npm()), "pypi": entries(pip())}, sort_keys=True))


if __name__ == "__main__":
    main()
