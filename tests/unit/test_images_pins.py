"""The records of bases and of Node's archive."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from aisb.domain.base_image import parse_base_image
from aisb.domain.images import ImageSpec, NodePin
from aisb.effects.pins import (
    base_pin_path,
    node_pin_path,
    read_base_pin,
    read_node_pin,
    read_pins,
    read_previous_pin,
    replace_base_pin,
    this_platform,
    write_base_pin,
    write_node_pin,
)
from tests.image_values import BOOTSTRAPPED, NODE_FROM_MIRROR, NODE_FROM_NPM, REGISTRY

if TYPE_CHECKING:
    from pathlib import Path

DEBIAN = parse_base_image("debian:trixie")
SPEC = ImageSpec(DEBIAN, "linux/amd64")


def test_a_pin_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Base and Node, whole."""
    write_base_pin(str(tmp_path), DEBIAN, REGISTRY)
    write_node_pin(str(tmp_path), "linux/amd64", NODE_FROM_NPM)

    assert (read_base_pin(str(tmp_path), DEBIAN), read_node_pin(str(tmp_path), SPEC, REGISTRY)) == (
        REGISTRY,
        NODE_FROM_NPM,
    )


def test_what_was_never_looked_up_has_no_pin(tmp_path: Path) -> None:
    """Not an error: a build comes first then."""
    assert (read_base_pin(str(tmp_path), DEBIAN), read_node_pin(str(tmp_path), SPEC, REGISTRY)) == (None, None)


def test_two_spellings_of_one_image_share_a_pin(tmp_path: Path) -> None:
    """What is shown is the spelling that was asked for now."""
    write_base_pin(str(tmp_path), DEBIAN, REGISTRY)

    found = read_base_pin(str(tmp_path), parse_base_image("docker.io/library/debian:trixie"))

    assert found == REGISTRY._replace(reference="docker.io/library/debian:trixie")


def test_names_that_look_alike_have_records_of_their_own() -> None:
    """The readable part alone would be the same."""
    texts = ("example.com/a/b:1", "example.com/a-b:1", "bootstrap:trixie")

    assert len({base_pin_path("/c", parse_base_image(text)) for text in texts}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"source": "localhost/x:1\nRUN touch /tmp/x"},
        {"source": "--flag"},
        {"digest": "sha256:short"},
        {"generation": "0 && true"},
        {"generation": "2026-11-30.0"},
        {"time": "yesterday"},
        {"tried": 5},
        {"generation": "\uff12\uff10\uff12\uff16-11-30"},
        {"node": "22"},
        {"node": f"22.{'9' * 5000}.1"},
        {"agent": "1.6.0 && true"},
        {"unknown": "x"},
        {"digest": None},
    ],
)
def test_a_base_record_that_was_tampered_with_is_no_record(tmp_path: Path, change: dict[str, object]) -> None:
    """What it holds ends up in a Containerfile: it passes the same kind of door as an argument."""
    path = base_pin_path(str(tmp_path), DEBIAN)
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(REGISTRY._asdict() | change, file)

    assert read_base_pin(str(tmp_path), DEBIAN) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"version": "22.23.3", "origin": "npm", "archives": [["../x", "' + "a" * 64 + '"]]}',
        '{"version": "22.23.3", "origin": "npm", "archives": [["x.tgz", "short"]]}',
        '{"version": "22.23.3; x", "origin": "npm", "archives": []}',
        '{"version": "22.23.3", "origin": "elsewhere", "archives": []}',
        '{"version": "22.23.3", "origin": "npm", "archives": [1]}',
    ],
)
def test_a_record_of_node_that_cannot_be_is_no_record(tmp_path: Path, text: str) -> None:
    """The same holds for the names and hashes of archives."""
    path = node_pin_path(str(tmp_path), "linux/amd64", "22.23.3")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

    assert read_node_pin(str(tmp_path), SPEC, REGISTRY) is None


def test_node_is_taken_from_where_it_was_asked_for(tmp_path: Path) -> None:
    """A record of one source does not answer for the other."""
    write_node_pin(str(tmp_path), "linux/amd64", NODE_FROM_MIRROR)

    found = [read_node_pin(str(tmp_path), SPEC._replace(node_origin=origin), None) for origin in ("", "tarball", "npm")]

    assert found == [NODE_FROM_MIRROR, NODE_FROM_MIRROR, None]


def test_a_newer_node_than_this_releases_own_is_on_record(tmp_path: Path) -> None:
    """The base's record says which an update found; of another line it says nothing."""
    cache = str(tmp_path)
    newer = NODE_FROM_NPM._replace(version="22.99.1")
    for pin in (NODE_FROM_NPM, newer):
        write_node_pin(cache, "linux/amd64", pin)

    def found(version: str) -> NodePin | None:
        return read_node_pin(cache, SPEC, REGISTRY._replace(node=version))

    assert [found(version) for version in ("", "22.1.0", "22.99.1", "24.99.1", "22.99.2")] == [
        NODE_FROM_NPM,
        NODE_FROM_NPM,
        newer,
        NODE_FROM_NPM,
        None,
    ]


def test_a_replaced_record_is_kept(tmp_path: Path) -> None:
    """One of them: an update has one way back."""
    cache = str(tmp_path)
    pins = [REGISTRY._replace(generation=f"2026-11-0{day}") for day in (1, 2, 3)]
    before = read_previous_pin(cache, DEBIAN)
    for pin in pins:
        replace_base_pin(cache, DEBIAN, pin)

    assert (before, read_previous_pin(cache, DEBIAN), read_base_pin(cache, DEBIAN)) == (None, pins[1], pins[2])


def test_the_stamp_changes_with_each_record(tmp_path: Path) -> None:
    """It is what a kept plan depends on."""
    stamps = [read_pins(str(tmp_path), "bootstrap:trixie")]
    write_base_pin(str(tmp_path), parse_base_image("bootstrap:trixie"), BOOTSTRAPPED)
    stamps.append(read_pins(str(tmp_path), "bootstrap:trixie"))
    write_node_pin(str(tmp_path), this_platform(), NODE_FROM_NPM)
    stamps.append(read_pins(str(tmp_path), "bootstrap:trixie"))

    assert len(set(stamps)) == 3
    assert stamps[-1] == read_pins(str(tmp_path), "bootstrap:trixie")
