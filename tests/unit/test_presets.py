"""Presets: what they stand for, where that is known from, and what is said where it is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aisb.domain.entries import parse_entry
from aisb.domain.policy import Policy, need_entries, parse_allow, with_presets
from aisb.domain.presets import (
    PRESETS,
    REGISTRIES,
    Item,
    Registries,
    items_of,
    lacking,
    parse_registries,
    preset_names,
)
from aisb.effects.registries import look_for_registries, recorded_registries, registries_of
from aisb.errors import Unavailable, UsageError
from aisb.render.explain import preset_lines
from aisb.render.images import registries_argv
from gate.registries import entries
from tests.fakes import FakeRunner, said
from tests.image_world import make_shop

if TYPE_CHECKING:
    from pathlib import Path

READ = {"apt": (), "npm": ("exact:npm.test", "exact:npm.test:4873"), "pypi": ("10.0.0.5:3141",)}
IMAGE = "localhost/aisb-sandbox:0123"


def policy_of(*allowed: str) -> Policy:
    return Policy(
        net="allow", allow=parse_allow("allow", [(text, "--allow") for text in allowed]), environment=(), base_image="", install=(),
        project="", home_volume="", ca_bundle="", origins={},
    )  # fmt: skip


def test_a_preset_is_its_entries_each_with_where_it_stands() -> None:
    found = with_presets(policy_of("@npm", "@openai", "a.test"), lambda: READ)

    assert [(item.entry.text(), item.origin) for item in found.allow] == [
        ("a.test", "--allow"),
        ("exact:api.openai.com", "--allow @openai"),
        ("exact:npm.test", "--allow @npm"),
        ("exact:npm.test:4873", "--allow @npm"),
    ]
    assert {name.text() for name in found.names} == {
        "a.test",
        "exact:api.openai.com",
        "exact:npm.test:80,exact:npm.test:443,exact:npm.test:4873",
    }


def test_one_that_stands_for_nothing_says_so() -> None:
    found = with_presets(policy_of("@apt", "a.test"), lambda: READ)
    without_pip = with_presets(policy_of("@pypi", "a.test"), dict)

    assert [item.entry.text() for item in found.allow] == ["a.test"]
    assert found.notes == ("@apt stands for nothing: apt in this image fetches from nowhere",)
    assert without_pip.notes == (
        "@pypi stands for nothing: pip in this image fetches from nowhere; with --install python3-pip it has some",
    )


def test_a_list_that_comes_to_nothing_is_refused_with_what_it_lacks() -> None:
    """Not as if nobody had written one."""
    with pytest.raises(UsageError) as caught:
        need_entries(with_presets(policy_of("@pypi"), dict))

    assert caught.value.message == (
        "nothing is allowed yet: @pypi stands for nothing: pip in this image fetches from nowhere; "
        "with --install python3-pip it has some"
    )


@pytest.mark.parametrize(
    ("name", "registries", "installed", "said"),
    [
        ("npm", {"npm": ("exact:npm.test",)}, [], ""),
        ("apt", {"apt": ()}, [], "@apt stands for nothing: apt in this image fetches from nowhere"),
        ("npm", None, [], ""),
        ("pypi", None, ["python3-pip"], ""),
        (
            "pypi",
            None,
            ["python3-venv"],
            "@pypi stands for nothing without pip in the image: --install python3-pip puts it there",
        ),
    ],
)
def test_what_a_preset_lacks_is_known_before_a_run(
    name: str, registries: Registries | None, installed: list[str], said: str
) -> None:
    """Off the image's record, or off the packages that it will have."""
    assert lacking(name, registries, installed) == said


def test_the_image_is_asked_only_for_a_registry() -> None:
    def nobody() -> dict[str, tuple[str, ...]]:
        raise AssertionError

    assert with_presets(policy_of("@github"), nobody).allow
    assert with_presets(policy_of("a.test"), nobody) == policy_of("a.test")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("@githib", "write: @github"),
        ("@npn", "write: @npm"),
        ("@x", "see what there is: aisb policy presets"),
        ("@nope", "see what there is: aisb policy presets"),
    ],
)
def test_a_preset_that_is_none_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_allow("allow", [(name, ".ai-sandbox/allow:3")])

    assert (caught.value.message, caught.value.hint) == (
        f".ai-sandbox/allow:3: {name!r}: there is no preset of that name",
        hint,
    )


def test_every_entry_of_a_service_is_one_exact_name_with_a_reason() -> None:
    items = [item for found in PRESETS.values() for item in found]

    assert all(parse_entry(item.entry).text() == item.entry and item.entry.startswith("exact:") for item in items)
    assert all(item.reason for item in items)
    assert preset_names() == sorted([*PRESETS, *REGISTRIES])
    assert preset_lines("x", [Item("exact:a.test", "why")]) == "x.0=exact:a.test\nx.0.reason=why\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "[" * 100_000,
        '{"npm": 1}',
        '{"npm": ["*"]}',
        '{"npm": ["a.test accept"]}',
        '{"npm": ["0.0.0.0/0"]}',
    ],
)
def test_what_an_image_says_goes_through_the_same_door(text: str) -> None:
    """A base image of somebody else's may hold anything."""
    with pytest.raises(Unavailable):
        parse_registries(text)


@pytest.mark.parametrize(
    "entry",
    [
        "host:5432", "a.test", "below:a.test", "=a.test:22,b.test", "10.0.0.0/8", "10.0.0.0/8:443", "10.0.0.5", "[2001:db8::/64]:443",
        "169.254.169.254:80", "[fd00:ec2::254]:80", "[64:ff9b::a00:5]:80", "@github", "GET a.test/**",
    ],
)  # fmt: skip
def test_an_image_names_places_of_registries_and_nothing_else(entry: str) -> None:
    """Whoever allows @npm has not been asked about ports of this machine, or about all of a network."""
    with pytest.raises(Unavailable):
        parse_registries(json.dumps({"npm": ["exact:npm.test", entry]}))

    assert parse_registries(json.dumps(READ)) == READ


def test_it_is_read_off_the_label_and_remembered(tmp_path: Path) -> None:
    label = json.dumps(READ)
    runner = FakeRunner(said(f"{label}\n"))
    shop = make_shop(tmp_path, runner)

    with pytest.raises(Unavailable, match="not built yet"):
        recorded_registries(f"{tmp_path}/cache", IMAGE)
    assert registries_of(shop, IMAGE) == READ == recorded_registries(f"{tmp_path}/cache", IMAGE)
    assert runner.argvs == [
        ("/usr/bin/podman", "image", "inspect", "--format", '{{index .Labels "aisb.registries"}}', IMAGE)
    ]
    assert items_of("npm", lambda: READ)[0] == Item("exact:npm.test", "npm in the image is configured to use it")


def test_the_tools_are_asked_without_a_network(tmp_path: Path) -> None:
    runner = FakeRunner(said(json.dumps(READ) + "\n"))

    assert look_for_registries(make_shop(tmp_path, runner), "sha256:1") == json.dumps(READ)
    assert runner.argvs == [registries_argv("/usr/bin/podman", "sha256:1")]
    assert "--network none" in " ".join(runner.argvs[0])


def test_an_entry_for_each_place_that_a_tool_names() -> None:
    urls = [
        "https://npm.test/", "https://npm.test/x/", "https://user:word@npm.test:4873/a", "http://NPM.test", "http://a.test:80/x",
        "https://10.0.0.5:3141/simple", "http://10.0.0.6/", "https://[2001:db8::5]/", "file:///srv", "git+ssh://x.test/", "npm.test", "",
        "https://a.test accept",
    ]  # fmt: skip

    assert entries(urls) == [
        "10.0.0.5:3141", "10.0.0.6:80", "[2001:db8::5]:443", "exact:a.test", "exact:npm.test", "exact:npm.test:4873",
    ]  # fmt: skip
