"""Which of several settings counts."""

from __future__ import annotations

import pytest

from aisb.domain.layers import (
    BUILT_IN,
    COMMAND_LINE,
    ENVIRONMENT,
    PROJECT,
    STRENGTH,
    USER,
    Chosen,
    Layer,
    Setting,
    added,
    capped,
    check_project,
    net_mode,
    strongest,
)
from aisb.errors import UsageError


def layer(kind: str, lists: dict[str, tuple[str, ...]] | None = None, /, **scalars: str) -> Layer:
    """A layer whose origins are its own name."""
    items = {key: tuple(Setting(value, kind) for value in values) for key, values in (lists or {}).items()}
    return Layer(kind, {key: Setting(value, kind) for key, value in scalars.items()}, items)


def test_the_strongest_that_speaks_counts_in_whatever_order_they_come() -> None:
    layers = [layer(kind, harness=kind) for kind in reversed(STRENGTH)]

    for kind in STRENGTH:
        assert strongest(layers, "harness") == Setting(kind, kind)
        layers.pop()
    assert strongest(layers, "harness") is None


def test_lists_add_up_each_item_with_its_origin() -> None:
    layers = [
        layer(COMMAND_LINE, {"allow": ("c", "a")}),
        layer(USER, {"allow": ("a",)}),
        layer(PROJECT, {"allow": ("b",)}),
    ]

    assert added(layers, "allow") == (
        Setting("a", USER), Setting("b", PROJECT), Setting("c", COMMAND_LINE), Setting("a", COMMAND_LINE),
    )  # fmt: skip
    assert added(layers, "env") == ()


@pytest.mark.parametrize(
    ("project", "user", "flag", "expected"),
    [
        ("none", "allow", None, Chosen(Setting("none", PROJECT))),
        ("allow", "allow", None, Chosen(Setting("allow", PROJECT))),
        ("allow", "full", None, Chosen(Setting("allow", PROJECT))),
        (
            "allow",
            "none",
            None,
            Chosen(Setting("none", USER), "project: net: allow is cut down to none (user)"),
        ),
        ("allow", None, None, Chosen(Setting("allow", PROJECT))),
        ("none", "none", "full", Chosen(Setting("full", COMMAND_LINE))),
        (None, "none", None, Chosen(Setting("none", USER))),
        (None, None, None, Chosen(Setting("allow", BUILT_IN))),
    ],
)
def test_a_project_may_only_narrow_the_network(
    project: str | None, user: str | None, flag: str | None, expected: Chosen
) -> None:
    """(C11)"""
    said = {PROJECT: project, USER: user, COMMAND_LINE: flag, BUILT_IN: "allow"}

    assert net_mode([layer(kind, net=net) for kind, net in said.items() if net]) == expected


def test_no_project_asks_for_everything_even_where_a_flag_is_stronger() -> None:
    with pytest.raises(UsageError, match=r"^project: a project cannot ask for net: full"):
        net_mode([layer(COMMAND_LINE, net="none"), layer(PROJECT, net="full")])


def test_what_is_no_mode_is_an_error_wherever_it_stands() -> None:
    with pytest.raises(UsageError, match=r"^user: net 'open' is not a mode"):
        net_mode([layer(COMMAND_LINE, net="none"), layer(USER, net="open")])


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ({PROJECT: "4", USER: "8"}, Chosen(Setting("4", PROJECT))),
        ({PROJECT: "8", USER: "4"}, Chosen(Setting("4", USER), "project: memory: 8 is cut down to 4 (user)")),
        (
            {PROJECT: "8", BUILT_IN: "4"},
            Chosen(Setting("4", BUILT_IN), "project: memory: 8 is cut down to 4 (built in)"),
        ),
        ({PROJECT: "8", USER: "4", COMMAND_LINE: "16"}, Chosen(Setting("16", COMMAND_LINE))),
        ({PROJECT: "2", USER: "4", ENVIRONMENT: "3"}, Chosen(Setting("3", ENVIRONMENT))),
        ({PROJECT: "8"}, Chosen(Setting("8", PROJECT))),
        ({}, Chosen(None)),
    ],
)
def test_a_cap_above_the_users_is_cut_down_and_said(kinds: dict[str, str], expected: Chosen) -> None:
    assert capped([layer(kind, memory=value) for kind, value in kinds.items()], "memory", int) == expected


def test_a_cap_that_is_no_number_is_an_error_with_its_origin() -> None:
    with pytest.raises(UsageError, match=r"^project: memory: 'much' is no size"):
        capped([layer(PROJECT, memory="much"), layer(USER, memory="4")], "memory", int)


def test_what_a_project_may_say() -> None:
    check_project(
        layer(PROJECT, {"allow": ("a",), "install": ("jq",), "protect": ("x",), "env": ()}, net="none", memory="4"),
        ["memory"],
    )


@pytest.mark.parametrize(
    "said",
    [
        layer(PROJECT, {"env": ("HOME",)}),
        layer(PROJECT, {"mount": ("/",)}),
        layer(PROJECT, memory="4"),
        layer(PROJECT, base_image="x"),
    ],
)
def test_what_is_the_users_alone_to_say(said: Layer) -> None:
    """Variables and paths of the host above all (A59)."""
    with pytest.raises(UsageError, match="is not for a project to set") as caught:
        check_project(said, ["cpus"])
    assert "config.yaml" in caught.value.hint
