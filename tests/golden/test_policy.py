"""The printed policy, whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aisb.domain.inject_flag import Injected
from aisb.domain.layers import Setting
from aisb.domain.limits import Limit
from aisb.domain.policy import Policy, parse_allow
from aisb.domain.publish import Published
from aisb.render.explain import Files, policy_lines, policy_notes, policy_pairs

if TYPE_CHECKING:
    from collections.abc import Callable


def policy_of(*allow: str, net: str = "allow") -> Policy:
    return Policy(
        net=net,
        allow=parse_allow(net, [(text, "--allow") for text in allow]),
        environment=(Setting("AI_API_TOKEN", "--env"), Setting("LOG_LEVEL", "~/.config/ai-sandbox/config.yaml:2")),
        base_image="docker.io/library/ubuntu:24.04",
        install=(Setting("jq", "--install"), Setting("zsh=5.9*", ".ai-sandbox/config.yaml:4")),
        project="/home/ada/100% new\nproject",
        home_volume="aisb-home-billing-3f2a19",
        ca_bundle="",
        origins={"net": "--net", "base_image": "built in"},
    )


def test_the_printed_policy(golden: Callable[[str, str], None]) -> None:
    """Each entry with its ports and its origin; a line is a line whatever stands in a path."""
    entries = ("allowed.test", "allowed.test:22", "sub.allowed.test", "exact:one.test:5432")

    golden("policy/lines", policy_lines(policy_of(*entries)))


def test_the_printed_policy_names_what_of_the_host_is_inside(golden: Callable[[str, str], None]) -> None:
    """What is mounted and by what flag, what is protected and how, and what reads as empty."""
    files = Files(
        mounts=(("/home/ada/x -> /srv/x -> /mnt/x (ro)", "--mount"), ("/srv/r.git (rw)", ".git")),
        protected=(("/home/ada/p/.envrc", "watched"), ("/home/ada/p/.git/hooks", "read-only")),
        masked=("/home/ada/p/.env", "/home/ada/p/a\n.pem"),
        tokens=(("AI_API_TOKEN", "gw at llm.example.com, goes in"),),
    )

    golden("policy/files", policy_lines(policy_of(net="none"), files))


def test_the_printed_policy_says_what_else_was_asked_for() -> None:
    """Each of what a policy can hold besides, beside what it says without; what is written nowhere has no line."""
    plain = policy_of("a.test")
    more = replace(
        plain,
        home_volume="",
        limits=(Limit("memory", "2g", "--memory"),),
        injections=(Injected("TOKEN", "a.test", "X-Key", "--inject"),),
        proxy="http://proxy.test:3128",
        proxy_auth="LOGIN",
        learn=True,
        publish=(Published(8080, 80),),
        notes=("a note",),
        origins={**plain.origins, "proxy": "~/.config/ai-sandbox/config.yaml:3"},
    )
    without, found = policy_pairs(plain), policy_pairs(more)

    assert {key: value for key, value in found.items() if without.get(key) != value} == {
        "home": "gone after the run",
        "inject.0": "TOKEN@a.test:X-Key",
        "inject.0.origin": "--inject",
        "learn": "everything public, ports 80 and 443",
        "limit.0": "memory 2g",
        "limit.0.origin": "--memory",
        "proxy": "http://proxy.test:3128",
        "proxy.origin": "~/.config/ai-sandbox/config.yaml:3",
        "proxy_auth": "LOGIN",
        "publish.0": "127.0.0.1:8080:80",
        "publish.0.origin": "--publish",
    }
    assert policy_notes(more) == (
        "a note",
        "everything goes through the proxy http://proxy.test:3128, nothing past it; it resolves the names: which addresses"
        " are reached, private ones too, is its matter",
        "TOKEN stays out of the sandbox: the gate puts it into X-Key of requests to a.test, whose TLS it opens",
    )


@pytest.mark.parametrize(
    ("allow", "merged"),
    [
        pytest.param(("a.test", "b.test"), {}, id="two names"),
        pytest.param(("a.test", "a.test:22"), {}, id="a port more"),
        pytest.param(("a.test", "x.a.test"), {"x.a.test": "a.test"}, id="a name below"),
        pytest.param(("below:a.test", "a.test"), {"below:a.test": "a.test"}, id="only what is below, and all"),
        pytest.param(("exact:a.test", "below:a.test"), {}, id="two halves"),
        pytest.param(("exact:a.test", "x.a.test"), {}, id="a name below an exact one"),
        pytest.param(("a.test:22", "x.a.test"), {}, id="another port"),
        pytest.param(("a.test:443", "x.a.test"), {}, id="one of two ports"),
        pytest.param(
            ("a.test:80", "a.test:443", "x.a.test"), {"x.a.test": "a.test:443 and a.test:80"}, id="each port by another"
        ),
        pytest.param(("a.test", "xa.test"), {}, id="a name that only ends alike"),
        pytest.param(("a.test", "A.test."), {}, id="the same twice is one"),
    ],
)
def test_an_entry_that_adds_nothing_says_which_one_holds_it(allow: tuple[str, ...], merged: dict[str, str]) -> None:
    lines = dict(line.split("=", 1) for line in policy_lines(policy_of(*allow)).splitlines())

    assert {lines[key.removesuffix(".merged")]: value for key, value in lines.items() if key.endswith(".merged")} == {
        entry: f"into {wider}" for entry, wider in merged.items()
    }
