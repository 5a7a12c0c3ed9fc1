"""npm's configuration on the host, reduced to what fetching packages needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Credentials are kept under `//host/path:key`, scopes under `@scope:registry`.
_LENT = re.compile(
    r"registry|@[^:\s]+:registry|//.+|_auth|proxy|https?-proxy|noproxy|strict-ssl"
    r"|fetch-(?:retries|timeout|retry-(?:factor|mintimeout|maxtimeout))|maxsockets"
)
_VARIABLE = re.compile(r"\$\{([^}]+?)(\?)?\}")
_FROM_ENVIRONMENT = "npm_config_"


def merge_npmrc(texts: Iterable[str], environ: Mapping[str, str]) -> str:
    """
    One npmrc of several, the weakest first, and of the `npm_config_*` variables, which are the strongest.

    References to variables are filled in, for the build has none of them. Names of files on the host are dropped.
    """
    settings: dict[str, str] = {}
    for text in texts:
        settings |= {key: _expand(value, environ) for key, value in _parse(text).items() if _LENT.fullmatch(key)}
    settings |= _environment_settings(environ)
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))


def certificate_files(texts: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The files of extra certificates that npm is told of."""
    values = [_parse(text).get("cafile", "") for text in texts]
    values.append(_lower(environ).get("npm_config_cafile", ""))
    return tuple(dict.fromkeys(_expand(value, environ) for value in values if value))


def _parse(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        key, equals, value = stripped.partition("=")
        if equals and not stripped.startswith((";", "#")):
            found[key.strip()] = value.strip().strip("\"'")
    return found


def _environment_settings(environ: Mapping[str, str]) -> dict[str, str]:
    names = {
        name.removeprefix(_FROM_ENVIRONMENT): value
        for name, value in _lower(environ).items()
        if name.startswith(_FROM_ENVIRONMENT) and value and "\n" not in value
    }
    # Only a plain key is written with underscores for dashes; a credential's key is taken as it is.
    keys = {
        name if name.startswith(("/", "@", "_")) else name.replace("_", "-"): value for name, value in names.items()
    }
    return {key: value for key, value in keys.items() if _LENT.fullmatch(key)}


def _lower(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.lower() if name.lower().startswith(_FROM_ENVIRONMENT) and "//" not in name else name: value
        for name, value in environ.items()
    }


def _expand(value: str, environ: Mapping[str, str]) -> str:
    """Fill in `${NAME}`; `${NAME?}` is empty where unset, a plain one stays as it is, as npm has it."""
    return _VARIABLE.sub(lambda match: environ.get(match[1], "" if match[2] else match[0]), value)
