"""The configuration file: known keys, each value with its line, and a closed list of what a project may say."""

from __future__ import annotations

import pytest

from aisb.domain.config_file import parse_config
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.limits import PROJECT_CAPS
from aisb.domain.options import CONFIGURABLE
from aisb.errors import UsageError


def test_each_value_is_the_text_that_stands_there_with_its_line() -> None:
    text = b"# mine\nallow: [exact:a.test, 'b.test:22']\nenv:\n  - AI_API_TOKEN\n\nnet: none\nquiet: yes\ngate-idle: 0x10\n"

    assert parse_config(text, "c", USER) == Layer(
        USER,
        {"net": Setting("none", "c:6"), "quiet": Setting("yes", "c:7"), "gate-idle": Setting("0x10", "c:8")},
        {
            "allow": (Setting("exact:a.test", "c:2"), Setting("b.test:22", "c:2")),
            "env": (Setting("AI_API_TOKEN", "c:4"),),
        },
    )


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n  # yet\n", b"\xef\xbb\xbf# BOM\r\n"])
def test_a_file_of_comments_says_nothing(text: bytes) -> None:
    assert parse_config(text, "c", USER) == Layer(USER, {}, {})


KEYS = "allow: [exact:llm.example.com], each key on a line of its own"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("alow: [x]", "c:1: 'alow' is not a known key here", "write: allow"),
        ("net: none\nallow: [a.test]\nnet: allow", "c:3: 'net' stands here twice", "write: one net"),
        ("gate_idle: 3", "c:1: 'gate_idle' is not a known key here", "write: gate-idle"),
        ("policy: [x]", "c:1: 'policy' is not a known key here", None),
        ("trust-once: x", "c:1: 'trust-once' is not a known key here", None),
        ("project: /x", "c:1: 'project' is not a known key here", None),
        ("1: x", "c:1: '1' is not a known key here", None),
        ("allow: a.test", "c:1: 'allow' is a list", "write: allow: [...], or one item a line after -"),
        ("allow:", "c:1: 'allow' is a list", "write: allow: [...], or one item a line after -"),
        ("allow:\n- ", "c:2: there is nothing here", "write: a text"),
        ("net: [none]", "c:1: this is text, not a list and not keys", 'write: "in quotes"'),
        ("net:", "c:1: there is nothing here", "write: a text"),
        ("net: &x none", "c:1: there is an anchor", "write: the text itself"),
        ("net: !!str none", "c:1: there is a tag", "write: the text itself"),
        ("a: b: c", "c:1: this is not YAML: mapping values are not allowed here", f"write: {KEYS}"),
        ("- allow", "c:1: a configuration file has keys: allow, net, gate-network", f"write: {KEYS}"),
        ("---\nnet: none\n---\n", "c:3: a second document begins here", "write: one document in a file"),
        (
            "net: full",
            "c:1: net: full: an open network is never a default",
            "give the flag: --net full; or, for a list of hosts, take that line away",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_nearest(text: str, message: str, hint: str | None) -> None:
    """(C01, C02)"""
    with pytest.raises(UsageError) as caught:
        parse_config(text.encode(), "c", USER)
    assert caught.value.message.startswith(message)
    assert hint in (None, caught.value.hint)


def test_what_a_project_may_say_is_a_closed_list() -> None:
    """Every other key, one that comes to be known later included, is the user's alone."""
    refused = []
    for key, option in CONFIGURABLE.items():
        text = f"{key}: [x]" if option.kind == "list" else f"{key}: x"
        if key in {"allow", "harness", "install", "net", "protect", *PROJECT_CAPS}:
            parse_config(text.encode(), "c", PROJECT)
            continue
        with pytest.raises(UsageError) as caught:
            parse_config(text.encode(), "c", PROJECT)
        assert caught.value.message == f"c:1: {key!r} is not for a project to set"
        refused.append(key)

    assert len(refused) == len(CONFIGURABLE) - 5 - len(PROJECT_CAPS)
