"""From the host's pi to the sandbox's: what is written into its home, which token goes along, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisb.domain.pi_json import parse_pi_json, pi_json
from aisb.domain.pi_models import known_places, providers_of, rewrite_models
from aisb.domain.pi_settings import rewrite_settings
from aisb.domain.pi_tokens import assign, is_open, reference
from aisb.domain.pi_values import MODELS, SETTINGS, Bridge, Chosen, Provider, Token
from aisb.domain.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.pi_models import Rewritten
    from aisb.domain.pi_values import ImagePi, PiFiles, PiWish, Place

# Providers that pi knows by itself, as far as there is a preset for their hosts.
KNOWN = {name: PRESETS[name][0].entry.removeprefix("exact:") for name in ("anthropic", "openai")}
NOTHING = Chosen()


def bridge(
    found: PiFiles, pi: ImagePi, is_allowed: Callable[[Place], bool], wish: PiWish, chosen: Chosen = NOTHING
) -> Bridge:
    """
    What the sandbox's pi is to have of the host's. Raises UsageError for a file that is none of pi's.

    `pi` is the image's, `chosen` what its arguments say of the provider.
    """
    models = _read(found.models, f"{found.directory}/{MODELS}", comments=True)
    settings = _read(found.settings, f"{found.directory}/{SETTINGS}", comments=False)
    providers = providers_of(models, KNOWN)
    tokens = assign(providers, is_allowed, wish.variable, dict(wish.given))
    written = {
        MODELS: rewrite_models(models, lambda name: reference(pi.package, tokens.variables.get(name, ""))),
        SETTINGS: _seen(rewrite_settings(settings), pi.version),
    }
    # Settings in any case: pi would make the file itself, and it would not be the host's any more.
    there = [*([MODELS] if found.models is not None else []), SETTINGS]
    selected = _selected(chosen, settings.get("defaultProvider"), providers)
    # One that pi knows by itself need not be in the file.
    asked = [*providers, *([selected] if selected and selected not in providers else [])]
    return Bridge(
        files={name: pi_json(written[name].document) for name in there},
        tokens=tuple(Token(tokens.variables[one.name], one) for one in providers if one.name in tokens.variables),
        drops=tuple(drop._replace(place=f"{name}: {drop.place}") for name in there for drop in written[name].drops),
        selected=selected,
        closed=tuple(_closed(one, is_allowed) for one in asked if one.places and not is_open(one, is_allowed)),
        undecided=tokens.undecided,
    )


def _seen(rewritten: Rewritten, version: str) -> Rewritten:
    """
    The settings with this version's news seen.

    pi would show what is new since the host's version, call home, and write the file: an edit that nobody made.
    """
    return rewritten._replace(document={**rewritten.document, "lastChangelogVersion": version})


def _read(data: bytes | None, name: str, *, comments: bool) -> dict[str, Any]:
    return parse_pi_json(data, name, comments=comments) if data is not None else {}


def _closed(provider: Provider, is_allowed: Callable[[Place], bool]) -> Provider:
    return provider._replace(places=tuple(place for place in provider.places if not is_allowed(place)))


def _selected(chosen: Chosen, default: object, providers: tuple[Provider, ...]) -> Provider | None:
    known = {name: Provider(name, known_places(host), wants_key=False) for name, host in KNOWN.items()}
    known |= {provider.name: provider for provider in providers}
    if chosen.provider:
        return known.get(chosen.provider)
    prefix = chosen.model.partition("/")[0]
    if prefix in known:
        return known[prefix]
    if isinstance(default, str):
        return known.get(default)
    return providers[0] if len(providers) == 1 else None
