"""
pi's models.json, rewritten for a sandbox: providers, models and preferences go in, credentials do not.

A key becomes a reference to one variable, for the one host that its token is for. A header that holds a credential or
runs a command is dropped. All else stays as it is.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from aisb.domain.hosts import canonical_host
from aisb.domain.inject_flag import may_carry
from aisb.domain.injection import header_form
from aisb.domain.pi_credentials import (
    is_credential,
    is_reference,
    parts_of_secret,
    without_credentials,
    without_secrets,
)
from aisb.domain.pi_values import NO_TOKEN, Drop, Provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aisb.domain.pi_values import Place

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PORTS = {"http": 80, "https": 443}

PROVIDERS = "providers"
API_KEY = "apiKey"
HEADERS = "headers"
BASE_URL = "baseUrl"
_API = "api"
# Where pi puts the key by the API that it speaks; and without one, by the provider that it knows itself.
_BEARER = "Authorization"
_KEY_HEADERS = {
    "anthropic-messages": ("X-Api-Key", _BEARER),
    "azure-openai-responses": ("Api-Key",),
    "google-generative-ai": ("X-Goog-Api-Key",),
}
_KNOWN_APIS = {"anthropic": "anthropic-messages", "google": "google-generative-ai"}


class Rewritten(NamedTuple):
    """The document as the sandbox gets it, and what was left out."""

    document: dict[str, Any]
    drops: tuple[Drop, ...]


def providers_of(document: Mapping[str, Any], known: Mapping[str, str]) -> tuple[Provider, ...]:
    """
    The providers, in the file's order.

    `known` has the hosts of providers that pi knows by itself: their name in the file is enough, and models with places
    of their own come to those that pi knows. Where neither says it, there are no places.
    """
    return tuple(
        Provider(
            name,
            _places(provider, known.get(name)),
            API_KEY in provider,
            _key_headers(name, provider),
        )
        for name, provider in _providers(document)
    )


def known_places(host: str | None) -> tuple[Place, ...]:
    """Where a provider is whose host pi knows by itself."""
    return ((host, _PORTS["https"]),) if host else ()


def _key_headers(name: str, provider: Mapping[str, Any]) -> tuple[str, ...]:
    own = [provider.get(_API), *(model.get(_API) for model in _objects(provider.get("models")))]
    apis = [api for api in own if isinstance(api, str)] or [_KNOWN_APIS.get(name, "")]
    headers = [header for api in apis for header in _KEY_HEADERS.get(api, (_BEARER,))]
    return tuple(dict.fromkeys([*headers, *([_BEARER] if provider.get("authHeader") is True else [])]))


def headers_naming(document: Mapping[str, Any], name: str, variable: str) -> tuple[str, ...]:
    """The headers of that provider, and of its models, that hold a token by the name of its variable."""
    headers = (
        part[HEADERS] for part in _parts(dict(_providers(document))[name]) if isinstance(part.get(HEADERS), dict)
    )
    found = ((header, value) for part in headers for header, value in part.items() if isinstance(value, str))
    return tuple(header_form(name) for name, value in found if may_carry(name) and variable in _NAME.findall(value))


def rewrite_models(document: Mapping[str, Any], reference_of: Callable[[str], str]) -> Rewritten:
    """
    The document without a credential in it. `reference_of` a provider's name is what stands for its key, or "".

    Rewriting twice is rewriting once.
    """
    drops: list[Drop] = []
    references = {name: reference_of(name) for name, _ in _providers(document)}
    own = {reference for reference in references.values() if reference}
    rewritten = deepcopy(dict(document))
    without_key = {name for name, provider in _providers(document) if API_KEY in provider and not references[name]}
    for name, provider in _providers(rewritten):
        place = f"{PROVIDERS}.{name}"
        _rewrite_key(provider, place, references[name], drops)
        foreign = {_variable(reference) for reference in own - {references[name]}}
        _rewrite_part(provider, place, foreign, drops)
        for index, model in enumerate(_objects(provider.get("models"))):
            _rewrite_part(model, f"{place}.models[{index}]", foreign, drops)
        overrides = provider.get("modelOverrides")
        for key, override in overrides.items() if isinstance(overrides, dict) else ():
            if isinstance(override, dict):
                _rewrite_part(override, f"{place}.modelOverrides.{key}", foreign, drops)
        if not provider and name in without_key:
            # Only its key was there: pi takes no provider without anything.
            del rewritten[PROVIDERS][name]
    secrets = secrets_in(document, references)
    return Rewritten(without_secrets(rewritten, secrets, own, "", drops), tuple(drops))


def _rewrite_key(provider: dict[str, Any], place: str, reference: str, drops: list[Drop]) -> None:
    if API_KEY not in provider:
        return
    if provider[API_KEY] == reference:
        return
    if reference:
        provider[API_KEY] = reference
        return
    del provider[API_KEY]
    drops.append(Drop(f"{place}.{API_KEY}", NO_TOKEN))


def _variable(reference: str) -> str:
    return reference.removeprefix("$")


def _rewrite_part(part: dict[str, Any], place: str, foreign: set[str], drops: list[Drop]) -> None:
    """What a provider, a model and an override have alike: headers and a URL."""
    headers = part.get(HEADERS)
    if not isinstance(headers, dict):
        headers = {}
    for name, value in list(headers.items()):
        why = _why_not(name, value) or _is_foreign(value, foreign)
        if why:
            del headers[name]
            drops.append(Drop(f"{place}.{HEADERS}.{name}", why))
    url = part.get(BASE_URL)
    if isinstance(url, str) and (cleaned := without_credentials(url)) != url:
        part[BASE_URL] = cleaned
        if not cleaned:
            # pi takes no empty one, and with it nothing of the file.
            del part[BASE_URL]
        drops.append(Drop(f"{place}.{BASE_URL}", "a credential in the URL"))


def _why_not(name: str, value: object) -> str:
    if not isinstance(value, str):
        return "no text"
    if value.startswith("!"):
        return "a command: nothing of this host is run"
    return "it looks like a credential" if is_credential(name, value) else ""


def _is_foreign(value: str, foreign: set[str]) -> str:
    """Whether a header names a variable that holds the token of another provider, whose host is another."""
    return "it names the token of another provider" if foreign.intersection(_NAME.findall(value)) else ""


def _providers(document: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = document.get(PROVIDERS)
    return [(name, one) for name, one in found.items() if isinstance(one, dict)] if isinstance(found, dict) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parts(provider: dict[str, Any]) -> list[dict[str, Any]]:
    """A provider, its models and what it overrides in others: each may have headers."""
    overrides = provider.get("modelOverrides")
    values = list(overrides.values()) if isinstance(overrides, dict) else []
    return [provider, *_objects(provider.get("models")), *_objects(values)]


def _places(provider: Mapping[str, Any], known_host: str | None) -> tuple[Place, ...]:
    base = provider.get(BASE_URL)
    urls = [base, *(model.get(BASE_URL) for model in _objects(provider.get("models")))]
    places = [place_of(url) for url in urls if isinstance(url, str)]
    return tuple(dict.fromkeys(places if isinstance(base, str) else [*places, *known_places(known_host)]))


def place_of(url: str) -> Place:
    """The canonical host of a URL and its port; the URL itself and 0 where it names none, which no entry allows."""
    try:
        parts = urlsplit(url)
        return canonical_host(parts.hostname or ""), parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return url, 0


def secrets_in(document: Mapping[str, Any], references: Mapping[str, str]) -> tuple[str, ...]:
    """Texts that must be nowhere in what is written: keys, commands, and what headers hold."""
    return tuple(_secrets(document, references))


def _secrets(document: Mapping[str, Any], references: Mapping[str, str]) -> Iterable[str]:
    for name, provider in _providers(document):
        key = provider.get(API_KEY)
        if isinstance(key, str) and key != references.get(name) and not is_reference(key):
            yield from parts_of_secret(key)
        for part in _parts(provider):
            headers = part.get(HEADERS)
            for header, value in headers.items() if isinstance(headers, dict) else ():
                if isinstance(value, str) and _why_not(header, value):
                    yield from parts_of_secret(value)
