"""Whatever pi's files hold: no key and no command comes out of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.pi_json import parse_pi_json, pi_json
from aisb.domain.pi_models import rewrite_models
from aisb.domain.pi_settings import names_a_path, rewrite_settings

MARK = "q7Zk-never-to-be-seen"
secrets = st.builds(
    "{}{}{}".format, st.sampled_from(["", "!", "Bearer ", "!echo ", "sk-"]), st.just(MARK), st.text(max_size=3)
)
words = st.one_of(
    st.text(max_size=8), st.sampled_from(["https://llm.test/v1", "~/x", "/etc/passwd", "openai"]), secrets
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=8
)
# A mark counts where a key, a command or a credential's header said it; elsewhere it is a word like any other.
headers = st.dictionaries(st.sampled_from(["Authorization", "x-api-key", "X-Tenant", "cookie"]), words, max_size=3)
parts = st.fixed_dictionaries(
    {}, optional={"headers": headers, "baseUrl": words, "compat": anything, "other": anything}
)
providers = st.builds(
    lambda part, key, models, overrides: part | {"apiKey": key, "models": models, "modelOverrides": overrides},
    parts,
    secrets,
    st.lists(parts, max_size=2),
    st.dictionaries(words, parts, max_size=2),
)
documents = st.dictionaries(st.sampled_from(["providers", "$schema", "other"]), anything).flatmap(
    lambda rest: st.dictionaries(st.text(max_size=4), providers, min_size=1, max_size=3).map(
        lambda found: rest | {"providers": found}
    )
)


@given(documents, st.sampled_from(["", "$AI_API_TOKEN", "AI_API_TOKEN"]))
def test_no_key_comes_out_and_twice_is_once(document: dict[str, Any], reference: str) -> None:
    before = json.dumps(document)
    once = rewrite_models(document, lambda _name: reference)

    keys = [provider["apiKey"] for provider in document["providers"].values()]
    assert [text for text in texts(once.document) if any(key in text for key in keys)] == []
    assert [provider.get("apiKey", "") for provider in once.document["providers"].values()] == [reference] * len(
        document["providers"]
    )
    assert rewrite_models(once.document, lambda _name: reference) == (once.document, ())
    assert json.dumps(document) == before


@given(st.dictionaries(st.sampled_from(["theme", "extensions", "packages", "sessionDir", "shellPath", "x"]), anything))
def test_no_path_of_the_host_comes_out_of_settings_and_twice_is_once(settings: dict[str, Any]) -> None:
    once = rewrite_settings(settings)

    assert [text for text in values(once.document) if names_a_path(text)] == []
    assert rewrite_settings(once.document) == (once.document, ())


def values(value: object) -> list[str]:
    """All strings of a document but its names."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for child in children for text in values(child)]


def texts(value: object) -> list[str]:
    """All strings of a document, names included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *texts(list(value.values()))]
    return [text for child in value for text in texts(child)] if isinstance(value, list) else []


@given(st.dictionaries(st.text(max_size=4), anything))
def test_what_is_written_is_read_as_it_was(document: dict[str, Any]) -> None:
    assert parse_pi_json(pi_json(document).encode(), "x", comments=True) == document
