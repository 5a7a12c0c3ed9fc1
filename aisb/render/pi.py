"""What is said of the host's pi in a sandbox: what goes along, what was left out, and what is missing."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.net import ALLOW, FULL
from aisb.domain.pi_values import NO_TOKEN
from aisb.domain.project import SHARED_HOME
from aisb.render.argv import HOME_TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisb.domain.pi_values import Bridge, PiWish, Place, Provider, Token

# Where pi looks for its configuration, below the home.
AGENT_DIRECTORY = ".pi/agent"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WEB_PORTS = (80, 443)
# As gate/seeding.py has it.
EDITED, BOTH = "edited", "both"


class Missing(NamedTuple):
    """Something without which pi does not reach its model, and the next step."""

    what: str
    hint: str
    is_needed: bool = True


def missing_of(bridge: Bridge, unset: Sequence[Token], wish: PiWish, net: str) -> tuple[Missing, ...]:
    """
    What pi would miss. `unset` are the tokens that nobody has.

    `is_needed` is what it needs for the provider that it begins with, or for one that was named.
    """
    closed = {provider.name: provider for provider in bridge.closed}
    found = []
    if bridge.selected and bridge.selected.name in closed:
        found.append(_closed(closed[bridge.selected.name], net))
    if bridge.undecided:
        found.append(_undecided(bridge.undecided, bridge.selected, wish))
    if wish.withheld and any(provider.wants_key for provider in (bridge.selected,) if provider):
        found.append(
            Missing(
                "no token of pi's goes in under aisb learn",
                "say that you want that: aisb learn --yes --pi-token-env NAME",
            )
        )
    if _has_no_token(bridge, wish):
        name = bridge.selected.name if bridge.selected else ""
        found.append(Missing(f"pi's provider {name} has no token", f"name one: --pi-token-env {quote(f'{name}=NAME')}"))
    for variable in dict.fromkeys(token.variable for token in unset):
        names = [token.provider.name for token in unset if token.variable == variable]
        another = _another(names[0], variable)
        hint = f"export {variable}=... first; name another: --pi-token-env {another}; or none: --no-pi-token-env"
        found.append(Missing(f"{variable}, the token of pi's provider {_list(names)}, is not set, or empty", hint))
    return tuple(found)


def _another(provider: str, variable: str) -> str:
    """The variable that pi itself would look into, where that is known and another one."""
    from aisb.domain.pi_bridge import KNOWN

    own = KNOWN[provider].variables[0] if provider in KNOWN else variable
    return own if own != variable else "NAME"


def _has_no_token(bridge: Bridge, wish: PiWish) -> bool:
    """Whether others were named one by one, and the one that pi begins with was not."""
    one = bridge.selected
    if one is None or not wish.given or not one.wants_key:
        return False
    said = [*(token.provider.name for token in bridge.tokens), *(other.name for other in bridge.undecided)]
    return one.name not in [*said, *(provider.name for provider in bridge.closed)]


def _closed(provider: Provider, net: str) -> Missing:
    entries = [entry for place in provider.places if (entry := entry_of(place))]
    places = _list([shown(place) for place in provider.places])
    hint = "mend its baseUrl, or run without it: --no-pi-config"
    if entries:
        mode = "" if net not in ("none", FULL) else f"--net {ALLOW} "
        hint = f"add: {mode}{' '.join(f'--allow {quote(entry)}' for entry in entries)}"
    return Missing(f"pi's provider {provider.name} is at {places}, which is not allowed", hint)


def _undecided(providers: Sequence[Provider], selected: Provider | None, wish: PiWish) -> Missing:
    names = [provider.name for provider in providers]
    is_needed = selected is None or selected.name in names
    whose = selected.name if selected and is_needed else names[0]
    what = f"pi's providers {_list(names)} are at different hosts, and one token goes to one host"
    return Missing(what, f"say whose it is: --pi-token-env {quote(f'{whose}={wish.variable}')}", is_needed)


def entry_of(place: Place) -> str:
    """The `--allow` entry for a place, "" where none would do."""
    host, port = place
    if not port:
        return ""
    if host in _LOOPBACK:
        return f"host:{port}"
    from aisb.domain.proposals import entry_for

    return entry_for(host, port)


def shown(place: Place) -> str:
    """A place as people write it. A URL that names none may hold anything, and is not repeated."""
    host, port = place
    if not port:
        return "a baseUrl that names no host"
    if ":" in host:
        host = f"[{host}]"
    return host if port in _WEB_PORTS else f"{host}:{port}"


def missing_line(missing: Iterable[Missing], others: Sequence[Provider] = ()) -> str:
    """All of it in one line, where nothing is refused for it; `others` are providers that could be chosen later."""
    if others:
        missing = [*missing, Missing(_count(others), "--trace names what would allow it")]
    return f"warning: pi would not work as it is: {'; '.join(f'{item.what} ({item.hint})' for item in missing)}"


def others_of(bridge: Bridge) -> tuple[Provider, ...]:
    """What cannot be reached and could be chosen later."""
    own = bridge.selected.name if bridge.selected else ""
    return tuple(provider for provider in bridge.closed if provider.name != own)


def others_line(others: Sequence[Provider]) -> str:
    """How many they are."""
    return f"warning: {_count(others)} (--trace names what would allow it)"


def _count(others: Sequence[Provider]) -> str:
    many = f"{len(others)} more providers of pi's are" if len(others) > 1 else "1 more provider of pi's is"
    return f"{many} configured and not allowed"


def trace_lines(others: Iterable[Provider]) -> list[str]:
    """Each of them, with what would allow it."""
    lines = []
    for provider in others:
        flags = [f"--allow {quote(entry)}" for place in provider.places if (entry := entry_of(place))]
        places = _list([shown(place) for place in provider.places])
        lines.append(f"pi's provider {provider.name} is at {places}: {' '.join(flags) or 'nothing allows that'}")
    return lines


def bridge_lines(
    bridge: Bridge, passed: Sequence[Token], injected: Sequence[Token], directory: str, *, trace: bool
) -> list[str]:
    """What goes along, and each thing that was left out."""
    tokens = [f"{_tokens(passed)} goes in (--pi-inject keeps it out)"] if passed else []
    tokens += [f"{_tokens(injected)} stays in the gate"] if injected else []
    files = _list(list(bridge.files))
    lines = [f"pi: {files} of {directory}{''.join(f'; {text}' for text in tokens)}"]
    drops = [drop for drop in bridge.drops if trace or drop.why != NO_TOKEN]
    return [*lines, *(f"note: pi: left out {drop.place}: {drop.why}" for drop in drops)]


def _tokens(tokens: Sequence[Token]) -> str:
    by_variable: dict[str, list[str]] = {}
    for token in tokens:
        hosts = by_variable.setdefault(token.variable, [])
        hosts += [text for place in token.provider.places if (text := shown(place)) not in hosts]
    return _list([f"{variable} for {_list(hosts)}" for variable, hosts in by_variable.items()])


def token_text(token: Token, *, stays: bool) -> str:
    """What a token is for, and whether it stays outside."""
    places = _list([shown(place) for place in token.provider.places])
    return f"{token.provider.name} at {places}, {'stays in the gate' if stays else 'goes in'}"


def seed_lines(seeds: Iterable[tuple[str, str]], home_volume: str) -> list[str]:
    """What became of files that were edited inside, each with what takes the host's version."""
    # The command has to meet the same home.
    flag = "--shared-home " if home_volume == SHARED_HOME else ""
    lines = []
    for state, name in seeds:
        path = f"{HOME_TARGET}/{name}"
        if state == EDITED:
            lines.append(f"note: {path} was edited inside, and stays so")
        if state == BOTH:
            lines.append(
                f"note: {path} was edited inside and stays so, though this host has another version now; to take that: "
                f"aisb --net none --no-pi-config {flag}-- rm {path}"
            )
    return lines


def _list(words: Sequence[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"
