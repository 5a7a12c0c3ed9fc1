"""The place of what decided, from the file in which it was written to a gate's record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aisb.domain.check import check, parse_target
from aisb.domain.gather import SourcedHost, SourcedRule
from aisb.domain.http_rules import Rule
from aisb.domain.origins import origins_json
from aisb.domain.policy import Policy, parse_allow
from aisb.domain.rules import Engine
from gate.origins import Origins

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = (
    ("a.test", ".ai-sandbox/allow:1"),
    ("a.test:22", "--allow"),
    ("x.a.test", ".ai-sandbox/allow:9"),
    ("exact:b.test", ".ai-sandbox/allow:2"),
    ("below:b.test", "config.yaml:4"),
    ("10.20.0.0/16:5432", ".ai-sandbox/allow:3"),
    ("GET c.test/x/**", ".ai-sandbox/allow:4"),
    *(("many.test", f"f:{number}") for number in range(5)),
)
HOSTS = (SourcedHost("c.test", (SourcedRule(Rule("DENY", "*", "/.*"), "policy.yaml:5"),), "policy.yaml:3"),)


def policy_of(*entries: tuple[str, str], hosts: tuple[SourcedHost, ...] = ()) -> Policy:
    return Policy(
        net="allow",
        allow=parse_allow("allow", entries),
        hosts=hosts,
        environment=(),
        base_image="",
        install=(),
        project="",
        home_volume="",
        ca_bundle="",
        origins={},
    )


def origins_of(policy: Policy, path: Path) -> Origins:
    path.write_text(origins_json(policy), encoding="ascii")
    return Origins.read(str(path))


@pytest.mark.parametrize(
    ("target", "origin"),
    [
        ("a.test:443", ".ai-sandbox/allow:1"),
        ("deep.a.test:80", ".ai-sandbox/allow:1"),
        ("x.a.test:443", ".ai-sandbox/allow:1"),
        ("a.test:22", "--allow"),
        ("b.test:443", ".ai-sandbox/allow:2, config.yaml:4"),
        ("10.20.3.4:5432", ".ai-sandbox/allow:3"),
        ("http://c.test/x/y", ".ai-sandbox/allow:4"),
        ("http://c.test/y", "policy.yaml:5"),
        ("many.test:80", "f:0, f:1, f:2 and 2 more"),
        ("c.test:443", ""),
        ("d.test:443", ""),
    ],
)
def test_a_record_names_where_what_decided_was_written(target: str, origin: str, tmp_path: Path) -> None:
    policy = policy_of(*ENTRIES, hosts=HOSTS)
    answer = check(policy, parse_target(target))
    verdict = answer.verdict

    found = origins_of(policy, tmp_path / "o").of(
        answer.target.host, answer.target.port, verdict.rule, verdict.rule_index
    )
    assert found == origin


def test_a_file_name_of_any_letters_arrives(tmp_path: Path) -> None:
    strange = "p\udcff\u00e4\x1b/allow:1"
    policy = policy_of(("a.test", strange))

    rule = Engine(*policy.egress).judge("a.test", 443).rule
    assert origins_of(policy, tmp_path / "o").of("a.test", 443, rule, 0) == strange


def test_a_run_without_that_file_has_no_origins(tmp_path: Path) -> None:
    assert Origins.read(str(tmp_path / "none")).of("a.test", 443, "a.test", 0) == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"entries": [], "rules": {}}', "\u00e4"])
def test_what_aisb_does_not_write_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "o").write_text(text)
    with pytest.raises(ValueError, match=r"."):
        Origins.read(str(tmp_path / "o"))
