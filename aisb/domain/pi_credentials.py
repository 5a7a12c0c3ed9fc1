"""What in pi's files is a credential: by its name, by its form, or because it is a copy of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aisb.domain.pi_values import Drop

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# Of a header, and of a part of a URL: where the name alone says that a value is for nobody else.
_CREDENTIAL_NAME = re.compile(
    r"authori[sz]ation|tokens?(?![a-z])|secret|cookie|passw|credential|api-?key|bearer|signature"
    r"|(?:^|[-_. ])(?:auth|keys?|login|jwt|pass|pat|pwd|session|sig)(?:$|[-_. ])"
)
# Of any other field, which may be a preference ("maxTokensField") or a model's: its last words have to say it.
_CREDENTIAL_FIELD = re.compile(
    r"(?:.*[-_. ])?(?:(?:api|access|secret|private)-?keys?|(?:access|api|auth|bearer|id|refresh|session)-?tokens?"
    r"|token|secrets?|passwords?|passwd|credentials?|authorization|cookies?)"
)
# How vendors' keys begin, and what only a credential looks like.
_VENDORS = (
    r"(?:(?:[gc]?sk|pk|rk|xai|nvapi|pplx|hf|r8|fw|tgp|gh[oprsu]|github_pat|glpat|xox[a-z])[-_]|AIza|AKIA|eyJ)"
    r"[-_A-Za-z0-9./+=]{8,}"
)
_CREDENTIAL_VALUE = re.compile(
    rf"(?:bearer|basic|digest|token|apikey)\s+\S.*|[A-Za-z0-9+/_=-]{{32,}}|(?:.*[^A-Za-z0-9])?{_VENDORS}.*",
    re.IGNORECASE | re.DOTALL,
)
_VENDORS_KEY = re.compile(_VENDORS, re.IGNORECASE)
# A name is no secret: what it stands for is not in the sandbox unless somebody passes it in.
_REFERENCE = re.compile(
    r"(?:(?:bearer|basic|token)\s+)?\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})", re.IGNORECASE
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL_WITH_LOGIN = re.compile(r"://[^/\s@:]*:[^/\s@]+@")
# Shorter ones are words ("ollama") that a document may hold for other reasons.
_SHORTEST_SECRET = 12


def is_reference(text: str) -> bool:
    """Whether the text only names a variable."""
    return bool(_REFERENCE.fullmatch(text))


def is_credential(name: str, value: str) -> bool:
    """Whether a header or a part of a URL with this name and value is for nobody else."""
    if is_reference(value):
        return False
    return bool(_CREDENTIAL_NAME.search(_words(name)) or _CREDENTIAL_VALUE.fullmatch(value))


def _words(name: str) -> str:
    return _CAMEL.sub("-", name).lower().replace("_", "-")


def is_credential_field(name: str, value: object) -> bool:
    """Whether a field that is no header holds a credential: a text, or a list of them."""
    if not value or not isinstance(value, str | list) or (isinstance(value, str) and is_reference(value)):
        return False
    return bool(_CREDENTIAL_FIELD.fullmatch(_words(name)))


def without_credentials(url: str) -> str:
    """The URL without user and password, without a fragment, and without what in its path and query is a credential."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host:
        # Nothing that pi could use; where its credential ends, nobody knows.
        return "" if "@" in url else url
    netloc = parts.netloc.rpartition("@")[2]
    path = "/".join(part for part in parts.path.split("/") if not _VENDORS_KEY.fullmatch(part))
    query = "&".join(pair for pair in parts.query.split("&") if not _has_credential(pair))
    cleaned = parts._replace(netloc=netloc, path=path, query=query, fragment="")
    # Not written anew for nothing: that may change its form.
    return url if cleaned == parts else cleaned.geturl()


def _has_credential(pair: str) -> bool:
    # Servers differ in whether a semicolon ends a part of a query.
    return any(is_credential(name, value) for name, _, value in (one.partition("=") for one in pair.split(";")))


def parts_of_secret(text: str) -> Iterable[str]:
    """What of a key or a command must be nowhere else."""
    for part in (text, text.removeprefix("!"), text.partition(" ")[2]):
        if len(part) >= _SHORTEST_SECRET:
            yield part


def without_secrets(
    value: Any,  # noqa: ANN401  # JSON
    secrets: Collection[str],
    own: Collection[str],
    place: str,
    drops: list[Drop],
) -> Any:  # noqa: ANN401  # JSON
    """
    A copy without what holds a secret elsewhere than where secrets belong, which is looked at by itself.

    `own` are the references that keys were replaced by.
    """
    if isinstance(value, list):
        items = [(f"{place}[{index}]", item) for index, item in enumerate(value)]
        return [
            without_secrets(item, secrets, own, where, drops)
            for where, item in items
            if not _is_copy(item, secrets, where, drops)
        ]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        where = f"{place}.{name}" if place else name
        if any(secret in name for secret in secrets):
            drops.append(Drop(place or "the file", "a name that holds one of its keys"))
        elif isinstance(item, str) and item in own:
            kept[name] = item
        elif is_credential_field(name, item):
            drops.append(Drop(where, "it looks like a credential"))
        elif not _is_copy(item, secrets, where, drops):
            kept[name] = without_secrets(item, secrets, own, where, drops)
    return kept


def _is_copy(value: object, secrets: Collection[str], place: str, drops: list[Drop]) -> bool:
    if not isinstance(value, str):
        return False
    why = "a credential in a URL" if _URL_WITH_LOGIN.search(value) else ""
    if any(secret in value for secret in secrets):
        why = "it holds one of the keys of pi"
    if why:
        drops.append(Drop(place, why))
    return bool(why)
