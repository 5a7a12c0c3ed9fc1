"""
`--inject VAR@HOST[:Header]`: which variable's value goes to which host, and what the sandbox has in its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.entries import a_label
from aisb.domain.hosts import canonical_name, is_address
from aisb.domain.injection import AUTHORIZATION, Injection, Secret, header_form
from aisb.domain.names import OWN_SUFFIX
from aisb.domain.variables import is_name, refuse_own
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from aisb.domain.layers import Setting
    from aisb.domain.policy import Policy

KEY = "inject"
_FORM = "write: --inject AI_API_TOKEN@llm.example.com, or --inject AI_API_TOKEN@llm.example.com:X-Api-Key"
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
# What decides where a request goes, where it ends, or which squid makes itself.
_NO_HEADERS = re.compile(
    r"(?:proxy-.*|host|connection|keep-alive|content-length|transfer-encoding|te|trailer|upgrade|expect|via|cookie"
    r"|cache-control|accept.*|content-.*|range|if-.*)",
    re.IGNORECASE,
)
_VALUE = re.compile(r"[!-~]+(?: [!-~]+)*")
# A shorter one would be found by chance, wherever it is looked for.
_SHORTEST, _LONGEST = 8, 8192
# How a kind of token begins: words that say what it is, not which one.
_PREFIX = re.compile(r"(?:[A-Za-z][A-Za-z0-9]{0,7}[-_]){1,4}")
_ALPHABETS = ("0123456789", "0123456789abcdef", "0123456789abcdefghijklmnopqrstuvwxyz")
_ANY = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PUNCTUATION = "-_.+/=~:"


class Injected(NamedTuple):
    """One injection as it was asked for: the variable, where its value goes, and where that was written."""

    variable: str
    host: str
    header: str
    origin: str

    @property
    def injection(self) -> Injection:
        """Without the variable, as a gate knows it."""
        return Injection(self.host, self.header)

    def text(self) -> str:
        """As it may be written again."""
        return f"{self.variable}@{self.host}:{self.header}"


def may_carry(header: str) -> bool:
    """Whether a secret may go into the header of that name."""
    return bool(_HEADER.fullmatch(header)) and not _NO_HEADERS.fullmatch(header)


def parse_injections(settings: Iterable[Setting]) -> tuple[Injected, ...]:
    """The injections, each once. Raises UsageError for what cannot be meant."""
    found: dict[tuple[str, str], Injected] = {}
    for setting in settings:
        item = _parse(setting)
        other = found.setdefault((item.host, item.header), item)
        if other.variable != item.variable:
            where = f"{setting.named(KEY)} {setting.value!r}"
            raise UsageError(
                f"{where}: {other.variable} goes into that header of that host already", hint="leave one of the two out"
            )
    return tuple(found.values())


def _parse(setting: Setting) -> Injected:
    where = f"{setting.named(KEY)} {setting.value!r}"
    variable, at, place = setting.value.partition("@")
    host, colon, header = place.partition(":")
    if not is_name(variable) or not at or (colon and not _HEADER.fullmatch(header)):
        raise UsageError(f"{where} is not of the form VAR@HOST[:Header]", hint=_FORM)
    refuse_own(variable, setting.named(KEY))
    if header and not may_carry(header):
        raise UsageError(f"{where}: no secret goes into {header}", hint="name the header that the host's manual names")
    try:
        name = canonical_name(a_label(host))
    except ValueError as error:
        raise UsageError(f"{where}: {host!r} is not one exact name", hint=_FORM) from error
    if is_address(name) or name == OWN_SUFFIX or name.endswith(f".{OWN_SUFFIX}"):
        raise UsageError(f"{where}: {host!r} is not the name of a host outside", hint=_FORM)
    return Injected(variable, name, header_form(header or AUTHORIZATION), setting.origin)


def need_reach(policy: Policy) -> Policy:
    """The policy. Raises UsageError for an injection to a host that is not allowed by something else."""
    if not policy.injections:
        return policy
    from aisb.domain.rules import Engine

    engine = Engine(*policy.egress)
    for item in policy.injections:
        if not engine.judge(item.host, 443).allowed:
            raise UsageError(
                f"{item.origin}: {item.text()}: {item.host} is not allowed, and an injection allows nothing",
                hint=f"add: --allow exact:{item.host}",
            )
    return policy


def placeholder_for(value: str, random: Callable[[int], bytes]) -> str:
    """
    A value of the same length, which begins with the same words and has its marks at the same places, and is no secret.

    Programs look at the form of a token before they use it.
    """
    match = _PREFIX.match(value)
    prefix = match[0] if match and 3 * len(match[0]) <= len(value) else ""
    rest = value[len(prefix) :]
    letters = "".join(char for char in rest if char not in _PUNCTUATION)
    alphabet = next((kind for kind in _ALPHABETS if set(letters) <= set(kind)), _ANY)
    while True:
        made = prefix + "".join(char if char in _PUNCTUATION else _pick(alphabet, random) for char in rest)
        if made != value or not letters:
            return made


def _pick(alphabet: str, random: Callable[[int], bytes]) -> str:
    # Two bytes: the remainder makes no letter likelier than another by more than a thousandth.
    return alphabet[int.from_bytes(random(2), "big") % len(alphabet)]


def secrets_of(
    injections: Sequence[Injected], values: Mapping[str, bytes], random: Callable[[int], bytes]
) -> tuple[tuple[Secret, ...], dict[bytes, bytes]]:
    """The secrets, and the variables of the sandbox that stand for them. Raises UsageError for what can be neither."""
    placeholders = {item.variable: placeholder_for(_need_value(item, values), random) for item in injections}
    secrets = tuple(
        Secret(item.host, item.header, placeholders[item.variable], _need_value(item, values)) for item in injections
    )
    return secrets, {name.encode(): made.encode("ascii") for name, made in placeholders.items()}


def _need_value(item: Injected, values: Mapping[str, bytes]) -> str:
    if item.variable not in values:
        raise UsageError(
            f"{item.origin}: {item.variable}: this variable is not set", hint=f"export {item.variable}=... first"
        )
    text = values[item.variable].decode("latin-1")
    if not _VALUE.fullmatch(text) or not _SHORTEST <= len(text) <= _LONGEST:
        raise UsageError(
            f"{item.origin}: the value of {item.variable} cannot be a token in a header",
            hint=f"it must be {_SHORTEST} to {_LONGEST} characters of ASCII, in one line",
        )
    return text


def refuse_elsewhere(secrets: Iterable[Secret], places: Mapping[str, bytes], way_out: str = "leave that out") -> None:
    """Raises UsageError where a secret would go into the sandbox all the same, by one of these places."""
    for secret in secrets:
        for name, data in places.items():
            if secret.value.encode("latin-1") in data:
                raise UsageError(
                    f"a value that is to be injected stands in {name} too, and would be in the sandbox",
                    hint=f"{way_out}: what is injected must not be inside",
                )


def git_variables(injections: Iterable[Injected]) -> dict[bytes, bytes]:
    """
    What has git, inside, answer a host that asks for a password with the placeholder: a helper for that host alone.

    The helper names the variable; the value stands nowhere else.
    """
    asked = [item for item in injections if item.header == AUTHORIZATION]
    found = {}
    for index, item in enumerate(asked):
        found[f"GIT_CONFIG_KEY_{index}"] = f"credential.https://{item.host}.helper"
        found[f"GIT_CONFIG_VALUE_{index}"] = (
            '!f() { test "$1" = get || exit 0; u=x-access-token; '
            'while IFS== read -r k v; do test "$k" != username || u=$v; done; '
            f'printf "username=%s\\npassword=%s\\n" "$u" "${item.variable}"; }}; f'
        )
    if asked:
        found["GIT_CONFIG_COUNT"] = str(len(asked))
    return {name.encode(): value.encode("ascii") for name, value in found.items()}
