"""`aisb policy check` and `policy show`: the gate's own answer, and where what decided was written."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.domain.check import Target, check, parse_target
from aisb.domain.layers import Setting
from aisb.domain.policy import Policy, host_bits_notes, parse_allow
from aisb.domain.policy_file import parse_policy_file
from aisb.errors import UsageError
from aisb.render.explain import check_lines, policy_lines, policy_notes

if TYPE_CHECKING:
    from pathlib import Path

RULES = b"""allow: [b.test]
networkPolicies:
  - host: api.test
    policies:
      - {action: ALLOW, path: "/repos/.*", method: GET}
      - {action: DENY,  path: "/repos/secret", method: "*"}
"""


def policy_of(*entries: tuple[str, str], net: str = "allow", file: bytes = b"allow: []\n") -> Policy:
    read = parse_policy_file(file, ".ai-sandbox/policy.yaml")
    return Policy(
        net=net,
        allow=parse_allow(net, (*entries, *read.allow)),
        hosts=read.hosts,
        environment=(),
        base_image="x",
        install=(Setting("jq", "--install"),),
        project="",
        home_volume="",
        ca_bundle="",
        origins={"net": "AISB_NET"},
    )


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (("a.test",), Target("a.test", 443)),
        (("A.Test.:22",), Target("a.test", 22)),
        (("[2001:DB8:0::1]:22",), Target("2001:db8::1", 22)),
        (("[2001:db8::1]",), Target("2001:db8::1", 443)),
        (("10.0.0.1:5432",), Target("10.0.0.1", 5432)),
        (("host:11434",), Target("host.aisb.internal", 11434)),
        (("http://a.test",), Target("a.test", 80, "http", "GET", "/")),
        (("HTTPS://a.test:8443/x?q=1#top",), Target("a.test", 8443, "https", "GET", "/x?q=1")),
        (("a.test/x",), Target("a.test", 443, "https", "GET", "/x")),
        (("a.test:80/x",), Target("a.test", 80, "http", "GET", "/x")),
        (("a.test?q",), Target("a.test", 443, "https", "GET", "/?q")),
        (("a.test", "POST"), Target("a.test", 443, "https", "POST", "/")),
        (("bücher.test",), Target("xn--bcher-kva.test", 443)),
    ],
)
def test_a_target_is_what_a_person_would_type(words: tuple[str, ...], target: Target) -> None:
    text, *method = words
    if "#" in text:
        with pytest.raises(UsageError):
            parse_target(text, *method)
        text = text.partition("#")[0]
    assert parse_target(text, *method) == target


@pytest.mark.parametrize(
    "text",
    ["", "/x", "ssh://a.test", "u@a.test", "https://u:p@a.test/", "a.test:0", "a.test:x", "a b", "*", "::1", "a..b"],
)
def test_what_names_no_host_is_an_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert caught.value.hint == "write: HOST, HOST:PORT, or https://HOST/PATH"


def test_a_password_in_a_target_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse_target("https://ada:s3cr3t@a.test/")
    assert caught.value.message == "a target has no user and no password"
    # The name of a package is no user.
    assert parse_target("https://a.test/@scope/x").path == "/@scope/x"


def answer(policy: Policy, *words: str) -> dict[str, str]:
    text, *method = words
    lines = check_lines(check(policy, parse_target(text, *method))).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_each_place_that_allows_it_is_named() -> None:
    """The reduced entry may be the sum of several that were written."""
    policy = policy_of(("a.test", "--allow"), ("x.a.test", "f:3"), ("a.test:22", "f:4"), ("b.test", "f:5"))

    assert answer(policy, "x.a.test") == {
        "bumped": "no",
        "decision": "allow",
        "host": "x.a.test",
        "injected": "no",
        "origin.0": "--allow",
        "origin.1": "f:3",
        "port": "443",
        "rule": "a.test:22,a.test:80,a.test:443",
    }


def test_a_denial_says_why_and_what_would_allow_it() -> None:
    assert answer(policy_of(("a.test", "--allow")), "a.test:22") == {
        "add": "--allow a.test:22",
        "bumped": "no",
        "decision": "deny",
        "host": "a.test",
        "injected": "no",
        "port": "22",
        "reason": "port",
        "why": "the host is allowed, but not on this port",
    }


def test_a_rule_is_named_with_its_line() -> None:
    policy = policy_of(("HEAD api.test/*", "--allow"), file=RULES)

    allowed = answer(policy, "https://api.test/repos/x?token=1")
    denied = answer(policy, "api.test/repos/secret", "GET")
    entry = answer(policy, "http://api.test/x", "HEAD")
    nothing = answer(policy, "api.test/x", "GET")
    connection = answer(policy, "api.test")

    decided = [(found["decision"], found.get("origin.0"), found["bumped"]) for found in (allowed, denied, entry)]
    assert decided == [
        ("allow", ".ai-sandbox/policy.yaml:5", "yes"),
        ("deny", ".ai-sandbox/policy.yaml:6", "yes"),
        ("allow", "--allow", "yes"),
    ]
    assert answer(policy, "api.test/repos/x", "PUT")["add"] == "--allow 'PUT api.test/repos/x'"
    assert (denied["reason"], nothing["reason"], connection["rule"]) == ("path", "method", "the rules of api.test")
    for found in (nothing, connection):
        assert [found[f"origin.{index}"] for index in range(3)] == [
            ".ai-sandbox/policy.yaml:5",
            ".ai-sandbox/policy.yaml:6",
            "--allow",
        ]


def test_the_rules_are_in_the_printed_policy_in_their_order() -> None:
    lines = policy_lines(policy_of(("HEAD api.test/*", "--allow"), file=RULES)).splitlines()

    assert [line for line in lines if line.startswith("rule.")] == [
        "rule.0=api.test rule 1: ALLOW GET /repos/.*",
        "rule.0.origin=.ai-sandbox/policy.yaml:5",
        "rule.1=api.test rule 2: DENY * /repos/secret",
        "rule.1.origin=.ai-sandbox/policy.yaml:6",
        "rule.2=api.test rule 3: ALLOW HEAD /[^/]+",
        "rule.2.origin=--allow",
    ]


def test_a_host_without_any_rule_is_printed_as_what_it_is() -> None:
    file = b"networkPolicies:\n- host: b.test\n  policies: []\n- host: a.test\n  policies: []\n"
    lines = policy_lines(policy_of(("a.test", "--allow"), file=file)).splitlines()

    assert [line for line in lines if line.startswith("rule.")] == [
        "rule.0=a.test denies everything",
        "rule.0.origin=.ai-sandbox/policy.yaml:4",
        "rule.1=b.test denies everything",
        "rule.1.origin=.ai-sandbox/policy.yaml:2",
    ]


def test_a_network_that_was_written_as_one_address_is_said() -> None:
    """(C07) The host's bits are dropped, and not silently."""
    written = [
        ("10.0.0.5/24:80", "--allow"),
        ("10.0.0.0/24", "--allow"),
        ("10.0.0.5", "--allow"),
        ("[2001:db8::5/32]:443", "f:3"),
        ("2001:db8::/32", "f:4"),
        ("GET a.test/x", "f:5"),
    ]

    assert host_bits_notes(written) == (
        "--allow 10.0.0.5/24:80 means all of 10.0.0.0/24",
        "f:3: [2001:db8::5/32]:443 means all of 2001:db8::/32",
    )


def test_what_rules_cost_is_said() -> None:
    """(B36) Of each host, and of many not of all."""
    many = b"networkPolicies:\n" + b"".join(b" - {host: a%d.test, policies: []}\n" % number for number in range(7))

    assert policy_notes(policy_of(("a.test", "--allow"), file=RULES)) == (
        "api.test is judged by its rules alone, on ports 80 and 443; the gate opens its TLS: no HTTP/2 and no gRPC there",
    )
    assert policy_notes(policy_of(("a.test", "--allow"))) == ()
    assert policy_notes(policy_of(file=many))[5:] == ("... and 2 other hosts with rules",)


def test_without_a_gate_there_is_one_answer_or_none() -> None:
    assert answer(policy_of(net="none"), "a.test") == {
        "bumped": "no",
        "decision": "deny",
        "host": "a.test",
        "injected": "no",
        "port": "443",
        "reason": "no-network",
        "why": "there is no network: net=none (AISB_NET)",
    }
    with pytest.raises(UsageError, match="under --net full nothing is judged"):
        answer(policy_of(net="full"), "a.test")


def aisb(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    (tmp_path / "p").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "aisb", "policy", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path / "p",
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_exit_code_is_the_answer(tmp_path: Path) -> None:
    """0 allowed, 1 denied, 2 what cannot be meant, 78 what nobody has seen; nothing is written."""
    allowed = aisb(tmp_path, "check", "--allow", "a.test,b.test", "GET", "https://b.test/")
    denied = aisb(tmp_path, "check", "--allow", "a.test", "b.test")
    wrong = aisb(tmp_path, "check", "--allow", "a.test", "GET", "b.test", "c.test")
    nothing = aisb(tmp_path, "check", "b.test")
    shown = aisb(tmp_path, "show", "--allow", "a.test")
    left = sorted(os.listdir(tmp_path))
    (tmp_path / "p" / ".ai-sandbox").mkdir()
    (tmp_path / "p" / ".ai-sandbox" / "allow").write_text("b.test\n")
    untrusted = aisb(tmp_path, "check", "b.test")

    assert [run[0] for run in (allowed, denied, wrong, nothing, shown, untrusted)] == [0, 1, 2, 2, 0, 78]
    assert "decision=allow\n" in allowed[1]
    assert "add=--allow b.test\n" in denied[1]
    assert shown[1].startswith("allow.0=a.test\nallow.0.origin=--allow\n")
    assert f"protect.0={tmp_path}/p/.envrc\nprotect.0.how=watched\n" in shown[1]
    assert left == ["p"]


def test_it_can_be_asked_without_a_gate(tmp_path: Path) -> None:
    """Where a name means itself alone."""
    asked = [aisb(tmp_path, "check", *more, "--allow", "a.test", "x.a.test") for more in ((), ("--no-gate",))]
    shown = aisb(tmp_path, "show", "--no-gate", "--allow", "a.test")

    assert [run[0] for run in asked] == [0, 1]
    assert "no_gate.origin=--no-gate\n" in shown[1]
