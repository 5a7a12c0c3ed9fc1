"""The schemas for editors: every example validates, and what the parsers refuse of keys and types they refuse too."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from aisb.domain.config_file import parse_config
from aisb.domain.layers import PROJECT, USER
from aisb.domain.options import CONFIGURABLE, FLAG, LIST
from aisb.domain.policy_file import parse_policy_file
from aisb.errors import UsageError

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
NAMED = re.compile(r"# \S*(config|policy)\.yaml\b")


def schema_of(kind: str) -> Draft7Validator:
    """The published schema of that name."""
    return Draft7Validator(json.loads((ROOT / f"config/schemas/{kind}.json").read_text()))


def is_parsed(kind: str, text: str) -> bool:
    """Whether aisb's own parser of such a file takes the text."""
    try:
        if kind == "policy":
            parse_policy_file(text.encode(), "file")
        else:
            parse_config(text.encode(), "file", PROJECT if kind == "project" else USER)
    except UsageError:
        return False
    return True


def examples() -> list[tuple[str, str, str]]:
    """What the documents and config/examples show of such files: where, which, and the text."""
    found = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "config/examples").iterdir()]):
        if page.suffix == ".yaml":
            text = page.read_text()
            found.append((page.name, "policy" if "networkPolicies" in text else "config", text))
        elif page.suffix == ".md":
            found += [(page.name, kind_of(block), block) for block in blocks_of(page.read_text())]
    return found


def blocks_of(text: str) -> list[str]:
    """The blocks of a page that are such a file: fenced as YAML, or indented below a comment with the file's name."""
    indented = ("".join(line[4:] for line in block.splitlines(keepends=True)) for block in BLOCK.findall(text))
    return [*FENCED.findall(text), *(block for block in indented if NAMED.match(block))]


def kind_of(block: str) -> str:
    """The schema that an example is for: its comment names the schema, or the file."""
    if named := re.search(r"schemas/(\w+)\.json", block):
        return named[1]
    return "policy" if "policy.yaml" in block else "project" if ".ai-sandbox/config.yaml" in block else "config"


@pytest.mark.parametrize("kind", ["config", "policy", "project"])
def test_a_schema_is_one(kind: str) -> None:
    Draft7Validator.check_schema(json.loads((ROOT / f"config/schemas/{kind}.json").read_text()))


def test_every_example_validates_and_is_parsed() -> None:
    """Those in config/examples with their commented keys too."""
    found = examples()

    assert {("config.yaml", "config"), ("github-read-only.yaml", "policy"), ("policy-reference.md", "policy")} <= {
        (name, kind) for name, kind, _ in found
    }
    for name, kind, text in found:
        for form in (text, re.sub(r"^#(?=[a-z-]+: )", "", text, flags=re.MULTILINE)):
            faults = [error.message for error in schema_of(kind).iter_errors(yaml.safe_load(form))]
            assert (faults, is_parsed(kind, form)) == ([], True), (name, form)


REFUSED: dict[str, tuple[Any, ...]] = {
    "config": (
        {"alow": ["example.com"]},
        {"allow": "example.com"},
        {"allow": {"example.com": "yes"}},
        {"allow": [["example.com"]]},
        {"allow": [""]},
        {"memory": ["8g"]},
        {"memory": {"size": "8g"}},
        {"memory": ""},
        {"net": "full"},
        {"policy": ["rules.yaml"]},
        {"dry-run": True},
        {"project": "/srv"},
        ["allow"],
        "allow",
    ),
    "project": (
        {"env": ["AI_API_TOKEN"]},
        {"mount": ["/srv"]},
        {"no-gate": True},
        {"base-image": "debian:13"},
        {"net": "full"},
        {"unprotect": [".git"]},
        {"allow": "example.com"},
    ),
    "policy": (
        {"version": 2},
        {"version": [1]},
        {"hosts": ["example.com"]},
        {"allow": "example.com"},
        {"allow": [["example.com"]]},
        {"networkPolicies": {"host": "example.com"}},
        {"networkPolicies": [{"host": "example.com"}]},
        {"networkPolicies": [{"policies": []}]},
        {"networkPolicies": [{"host": "example.com", "policies": [], "port": 443}]},
        {"networkPolicies": [{"host": ["example.com"], "policies": []}]},
        {"networkPolicies": [{"host": "example.com", "policies": [{"action": "allow", "path": "/", "method": "GET"}]}]},
        {"networkPolicies": [{"host": "example.com", "policies": [{"action": "ALLOW", "path": "/", "method": "get"}]}]},
        {"networkPolicies": [{"host": "example.com", "policies": [{"action": "ALLOW", "path": "/"}]}]},
        {"networkPolicies": [{"host": "example.com", "policies": [{"action": "ALLOW", "path": "", "method": "GET"}]}]},
        {"networkPolicies": [{"host": "example.com", "policies": ["ALLOW GET /"]}]},
    ),
}


@pytest.mark.parametrize(
    ("kind", "document"), [(kind, document) for kind, all_of in REFUSED.items() for document in all_of]
)
def test_what_the_parser_refuses_the_schema_refuses(kind: str, document: object) -> None:
    """JSON is YAML: the same text goes to both."""
    text = json.dumps(document)

    assert (is_parsed(kind, text), schema_of(kind).is_valid(document)) == (False, False)


@pytest.mark.parametrize("name", sorted(CONFIGURABLE))
def test_every_key_of_the_table_is_known(name: str) -> None:
    """In the form that it has, and in no other."""
    good = {LIST: ["x"], FLAG: True}
    values = {"net": "none", "harness": "claude", "node": 24, "node-source": "npm", "pull": "never"}
    value = values.get(name, good.get(CONFIGURABLE[name].kind, "x"))
    other = "x" if CONFIGURABLE[name].kind == LIST else ["x"]

    assert [error.message for error in schema_of("config").iter_errors({name: value})] == []
    assert is_parsed("config", json.dumps({name: value}))
    assert not schema_of("config").is_valid({name: other})
    assert not is_parsed("config", json.dumps({name: other}))


@pytest.mark.parametrize("value", ["true", "Yes", "0", 0, 1, False])
def test_a_switch_is_taken_in_every_form_that_aisb_reads(value: object) -> None:
    assert schema_of("config").is_valid({"read-only": value})


@pytest.mark.parametrize("value", ["on", 2, "", None])
def test_a_switch_is_neither_on_nor_off(value: object) -> None:
    assert not schema_of("config").is_valid({"read-only": value})
