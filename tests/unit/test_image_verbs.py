"""`aisb build`, `update` and `inspect` as command lines: what cannot be meant is refused before anything is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aisb.cli.verbs import run_verb
from aisb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    "--install=jq; x",
    "--install=jq\nRUN x",
    "--install=-o=APT::Get::AllowUnauthenticated=1",
    "--install=../x",
    "--install=jq,zsh-",
    "--base-image=debian:trixie\nRUN true",
    "--base-image=../x:1",
    "--base-image=-x:1",
    "--base-image=x@sha256:short",
    "--base-image=bootstrap:../x",
    "--node=22; x",
    "--node=--eval",
    "--node-source=npm\n",
    "--harness=../pi",
    "--customize=/dev/zero",
    "--customize=/nowhere\nRUN x",
)
OF_BUILDS = ("--ca-bundle=/dev/zero", "--ca-bundle=/nowhere", "--pull=never\n", "--pull=always")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)


@pytest.mark.parametrize(
    ("verb", "word"),
    [
        *((verb, word) for verb in ("build", "update", "inspect") for word in HOSTILE),
        *((verb, word) for verb in ("build", "update") for word in OF_BUILDS),
    ],
)
def test_hostile_text_is_refused_before_anything_is_touched(tmp_path: Path, verb: str, word: str) -> None:
    """By its pattern, and by the name of its flag."""
    with pytest.raises(UsageError, match=f"^{word.partition('=')[0]} "):
        run_verb(verb, [word])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AISB_BASE_TTL_DAYS", "7 days"),
        ("AISB_BASE_AUTO_UPDATE", "never"),
        ("AISB_REGISTRY_MIRROR", "https://mirror.test"),
        ("AISB_REGISTRY_MIRROR", "mirror.test/x\ny"),
        ("AISB_BASE_IMAGE", "x@sha256:short"),
        ("AISB_NODE", "latest"),
        ("AISB_NODE_SOURCE", "-x"),
        ("AISB_PULL", "always"),
        ("AISB_CUSTOMIZE", "/nowhere"),
        ("AISB_HARNESS", "pi; x"),
    ],
)
def test_so_is_that_of_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """By its own name."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=name):
        run_verb("build", [])
    assert list(tmp_path.iterdir()) == []


def test_an_update_does_one_thing() -> None:
    """What contradicts itself is not guessed at."""
    with pytest.raises(UsageError, match="--check and --rollback exclude each other"):
        run_verb("update", ["--check", "--rollback"])
