"""From the host's pi to the sandbox's: what is written into its home, which token goes along, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.pi_json import parse_pi_json, pi_json
from aisb.domain.pi_models import Drop, Provider, providers_of, rewrite_models
from aisb.domain.pi_settings import rewrite_settings
from aisb.domain.pi_tokens import assign, is_open, reference
from aisb.domain.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aisb.domain.pi_models import Place

MODELS = "models.json"
SETTINGS = "settings.json"
# Providers that pi knows by itself, as far as there is a preset for their hosts.
KNOWN = {name: PRESETS[name][0].entry.removeprefix("exact:") for name in ("anthropic", "openai")}


class PiFiles(NamedTuple):
    """The two files of the host's pi that are read, None where there is none, and the directory that they are in."""

    directory: str
    models: bytes | None
    settings: bytes | None


class Bridge(NamedTuple):
    """
    What comes of them.

    `files` are name and text; `variables` the tokens that go along, each once; `drops` what was left out.
    `selected` is the provider that pi begins with, None where it would choose itself; `closed` are those that
    cannot be reached, `undecided` those of which nobody has said whose the token is.
    """

    files: dict[str, str]
    variables: tuple[str, ...]
    drops: tuple[Drop, ...]
    selected: Provider | None
    closed: tuple[Provider, ...]
    undecided: tuple[Provider, ...]


def bridge(
    found: PiFiles, package: str, is_allowed: Callable[[Place], bool], variable: str, given: Mapping[str, str]
) -> Bridge:
    """
    What the sandbox's pi is to have of the host's. Raises UsageError for a file that is none of pi's.

    `package` is the pi in the image, `variable` the token's name ("" for none), `given` names one for single providers.
    """
    models = (
        parse_pi_json(found.models, f"{found.directory}/{MODELS}", comments=True) if found.models is not None else {}
    )
    settings = (
        parse_pi_json(found.settings, f"{found.directory}/{SETTINGS}", comments=False)
        if found.settings is not None
        else {}
    )
    providers = providers_of(models, KNOWN)
    tokens = assign(providers, is_allowed, variable, given)
    written = rewrite_models(models, lambda name: reference(package, tokens.variables.get(name, "")))
    kept = rewrite_settings(settings)
    files = {MODELS: written, SETTINGS: kept}
    return Bridge(
        files={name: pi_json(one.document) for name, one in files.items() if _there(found, name)},
        variables=tuple(dict.fromkeys(tokens.variables.values())),
        drops=tuple(drop._replace(place=f"{name}: {drop.place}") for name, one in files.items() for drop in one.drops),
        selected=_selected(settings.get("defaultProvider"), providers),
        closed=tuple(one for one in providers if one.places and not is_open(one, is_allowed)),
        undecided=tokens.undecided,
    )


def _there(found: PiFiles, name: str) -> bool:
    return (found.models if name == MODELS else found.settings) is not None


def _selected(name: object, providers: tuple[Provider, ...]) -> Provider | None:
    known = {provider.name: provider for provider in providers}
    if isinstance(name, str) and name not in known and name in KNOWN:
        return Provider(name, ((KNOWN[name], 443),), wants_key=True)
    return known.get(name) if isinstance(name, str) else None
