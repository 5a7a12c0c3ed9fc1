"""From the host's pi to the sandbox's: what is written into its home, which token goes along, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.domain.pi_json import parse_pi_json, pi_json
from aisb.domain.pi_models import (
    API_KEY,
    PROVIDERS,
    headers_naming,
    known_places,
    providers_of,
    rewrite_models,
    secrets_in,
)
from aisb.domain.pi_settings import rewrite_settings
from aisb.domain.pi_tokens import assign, is_open, reference
from aisb.domain.pi_values import MODELS, SETTINGS, Bridge, Chosen, Provider, Token

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.pi_models import Rewritten
    from aisb.domain.pi_values import ImagePi, PiFiles, PiWish, Place


class Known(NamedTuple):
    """Where a provider is that pi knows by itself, and the variables in which it looks for its key."""

    host: str
    variables: tuple[str, ...]


# Those with one host and one key. Of the others pi's file has to say where they are.
KNOWN = {
    "anthropic": Known("api.anthropic.com", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN")),
    "cerebras": Known("api.cerebras.ai", ("CEREBRAS_API_KEY",)),
    "deepseek": Known("api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "google": Known("generativelanguage.googleapis.com", ("GEMINI_API_KEY",)),
    "groq": Known("api.groq.com", ("GROQ_API_KEY",)),
    "mistral": Known("api.mistral.ai", ("MISTRAL_API_KEY",)),
    "openai": Known("api.openai.com", ("OPENAI_API_KEY",)),
    "openrouter": Known("openrouter.ai", ("OPENROUTER_API_KEY",)),
    "xai": Known("api.x.ai", ("XAI_API_KEY",)),
}
_HOSTS = {name: known.host for name, known in KNOWN.items()}
NOTHING = Chosen()


def bridge(
    found: PiFiles, pi: ImagePi, is_allowed: Callable[[Place], bool], wish: PiWish, chosen: Chosen = NOTHING
) -> Bridge:
    """
    What the sandbox's pi is to have of the host's. Raises UsageError for a file that is none of pi's.

    `pi` is the image's, `chosen` what its arguments say of the provider.
    """
    # Both in any case: what an earlier run wrote would stay otherwise, and pi makes settings itself.
    models = _read(found.models, {PROVIDERS: {}}, f"{found.directory}/{MODELS}", comments=True)
    settings = _read(found.settings, {}, f"{found.directory}/{SETTINGS}", comments=False)
    providers = providers_of(models, _HOSTS)
    selected = _selected(chosen, settings.get("defaultProvider"), providers)
    needy = selected.name if selected and _needs_key(selected, wish) else ""
    if selected and needy:
        # The key of one that pi knows by itself is elsewhere on the host, where nothing is opened.
        selected = selected._replace(wants_key=True)
        providers = (*(one for one in providers if one.name != needy), selected)
    tokens = assign(providers, is_allowed, wish.variable, dict(wish.given))
    if needy in tokens.variables:
        models = _with_key(models, needy)
    references = {one.name: reference(pi.package, tokens.variables.get(one.name, "")) for one in providers}
    written = {
        MODELS: rewrite_models(models, lambda name: references.get(name, "")),
        SETTINGS: _seen(rewrite_settings(settings, secrets_in(models, references)), pi.version),
    }
    # One that pi knows by itself need not be in the file.
    asked = [*providers, *([selected] if selected and selected not in providers else [])]
    return Bridge(
        files={name: pi_json(one.document) for name, one in written.items()},
        tokens=tuple(
            _token(one, tokens.variables[one.name], models) for one in providers if one.name in tokens.variables
        ),
        drops=tuple(
            drop._replace(place=f"{name}: {drop.place}") for name, one in written.items() for drop in one.drops
        ),
        selected=selected,
        closed=tuple(_closed(one, is_allowed) for one in asked if one.places and not is_open(one, is_allowed)),
        undecided=tokens.undecided,
    )


def _token(provider: Provider, variable: str, models: dict[str, Any]) -> Token:
    """With the headers in which that file puts the token besides."""
    headers = (*provider.headers, *headers_naming(models, provider.name, variable))
    return Token(variable, provider._replace(headers=tuple(dict.fromkeys(headers))))


def _seen(rewritten: Rewritten, version: str) -> Rewritten:
    """
    The settings with this version's news seen.

    pi would show what is new since the host's version, call home, and write the file: an edit that nobody made.
    """
    return rewritten._replace(document={**rewritten.document, "lastChangelogVersion": version})


def _read(data: bytes | None, without: dict[str, Any], name: str, *, comments: bool) -> dict[str, Any]:
    return parse_pi_json(data, name, comments=comments) if data is not None else without


def _needs_key(selected: Provider, wish: PiWish) -> bool:
    """Whether the provider that pi begins with is one that it knows by itself, and nobody has passed in its key."""
    known = KNOWN.get(selected.name)
    if known is None or selected.wants_key or selected.places != known_places(known.host):
        return False
    return not set(known.variables).intersection(wish.passed)


def _with_key(models: dict[str, Any], name: str) -> dict[str, Any]:
    """The same with a key for that provider, which a reference or nothing comes in the place of."""
    providers = models.get(PROVIDERS)
    found = providers if isinstance(providers, dict) else {}
    own = found.get(name)
    return {**models, PROVIDERS: {**found, name: {**(own if isinstance(own, dict) else {}), API_KEY: ""}}}


def _closed(provider: Provider, is_allowed: Callable[[Place], bool]) -> Provider:
    return provider._replace(places=tuple(place for place in provider.places if not is_allowed(place)))


def _selected(chosen: Chosen, default: object, providers: tuple[Provider, ...]) -> Provider | None:
    known = {one.name: one for one in providers_of({PROVIDERS: {name: {} for name in KNOWN}}, _HOSTS)}
    known |= {provider.name: provider for provider in providers}
    if chosen.provider:
        return known.get(chosen.provider)
    prefix = chosen.model.partition("/")[0]
    if prefix in known:
        return known[prefix]
    if isinstance(default, str):
        return known.get(default)
    return providers[0] if len(providers) == 1 else None
