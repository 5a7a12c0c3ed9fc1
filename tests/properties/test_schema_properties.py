"""Schemas and parsers over made-up documents: of keys and types the schema takes nothing that the parser refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from jsonschema import Draft7Validator

from aisb.domain.config_file import parse_config
from aisb.domain.http_rules import ACTIONS, METHODS
from aisb.domain.layers import PROJECT, USER
from aisb.domain.options import CONFIGURABLE, OPTIONS
from aisb.domain.policy_file import parse_policy_file
from aisb.errors import UsageError

SCHEMAS = {
    path.stem: Draft7Validator(json.loads(path.read_text()))
    for path in (Path(__file__).parents[2] / "config/schemas").iterdir()
}
WORDS = ["", "x", "none", "allow", "full", "pi", "never", "1", "example.com", "/x", "*", *ACTIONS, *METHODS]
SCALARS = some.one_of(some.sampled_from(WORDS), some.booleans(), some.integers(0, 9), some.text("ab:/", max_size=3))
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.sampled_from(WORDS), inner, max_size=2),
)
KEYS = some.sampled_from([*(option.name for option in OPTIONS), "alow", ""])
POLICY_KEYS = some.sampled_from(["version", "allow", "networkPolicies", "host", "policies", "action", "path", "method"])
RULES = some.dictionaries(POLICY_KEYS, VALUES, max_size=3) | some.fixed_dictionaries(
    {"action": SCALARS, "path": SCALARS, "method": SCALARS}
)
HOSTS = some.fixed_dictionaries({"host": SCALARS, "policies": some.lists(RULES | SCALARS, max_size=2)})
POLICIES = some.dictionaries(POLICY_KEYS, VALUES, max_size=3) | some.fixed_dictionaries(
    {},
    optional={
        "version": SCALARS,
        "allow": some.lists(SCALARS, max_size=2),
        "networkPolicies": some.lists(HOSTS, max_size=2),
    },
)
# What a value means, and no key and no type: the parsers of entries and rules see to it.
MEANINGS = ("is not one exact name", "is more than a name", "matches nothing")


def fault(kind: str, document: Any) -> str:
    """What aisb's own parser has against the document; "" where it takes it."""
    data = json.dumps(document).encode()
    try:
        if kind == "policy":
            parse_policy_file(data, "file")
        else:
            parse_config(data, "file", PROJECT if kind == "project" else USER)
    except UsageError as error:
        return error.message
    return ""


@pytest.mark.parametrize("kind", ["config", "project"])
@given(document=some.dictionaries(KEYS, VALUES, max_size=3) | VALUES)
def test_a_configuration_that_the_schema_takes_is_parsed(kind: str, document: Any) -> None:
    if SCHEMAS[kind].is_valid(document):
        assert fault(kind, document) == ""


@given(document=POLICIES | VALUES)
def test_a_policy_that_the_schema_takes_is_parsed(document: Any) -> None:
    if SCHEMAS["policy"].is_valid(document):
        assert not (why := fault("policy", document)) or any(meaning in why for meaning in MEANINGS)


@given(
    document=some.fixed_dictionaries(
        {},
        optional={
            option.name: some.lists(some.just("x"), min_size=1)
            for option in CONFIGURABLE.values()
            if option.kind == "list"
        },
    )
)
def test_lists_that_are_parsed_the_schema_takes(document: Any) -> None:
    """No red line under what is right."""
    assert (fault("config", document), SCHEMAS["config"].is_valid(document)) == ("", True)
