"""Base images and packages as text become values at one door each."""

from __future__ import annotations

import os

import pytest

from aisb.domain.base_image import BaseImage, parse_base_image
from aisb.domain.images import (
    GATE_PACKAGES,
    SANDBOX_PACKAGES,
    next_generation,
    parse_node_line,
    parse_node_origin,
    parse_platform,
)
from aisb.domain.packages import parse_packages
from aisb.errors import Unavailable, UsageError

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("bootstrap:trixie", BaseImage("bootstrap:trixie", "bootstrap", "", "trixie")),
        ("bootstrap:bookworm", BaseImage("bootstrap:bookworm", "bootstrap", "", "bookworm")),
        ("debian:trixie", BaseImage("debian:trixie", "registry", "docker.io/library/debian", "trixie")),
        ("someone/base:1.2", BaseImage("someone/base:1.2", "registry", "docker.io/someone/base", "1.2")),
        (
            "registry.example.com/team/base:2026-11",
            BaseImage(
                "registry.example.com/team/base:2026-11", "registry", "registry.example.com/team/base", "2026-11"
            ),
        ),
        ("127.0.0.1:5000/base:1", BaseImage("127.0.0.1:5000/base:1", "registry", "127.0.0.1:5000/base", "1")),
        ("localhost:5000/base:1", BaseImage("localhost:5000/base:1", "registry", "localhost:5000/base", "1")),
        ("localhost/mine:latest", BaseImage("localhost/mine:latest", "local", "localhost/mine", "latest")),
        (
            f"example.com/base@{DIGEST}",
            BaseImage(f"example.com/base@{DIGEST}", "registry", "example.com/base", "", DIGEST),
        ),
    ],
)
def test_a_base_image_is_read(text: str, base: BaseImage) -> None:
    """Every accepted form, with the registry that a short name stands for."""
    assert parse_base_image(text) == base


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("debian", "write: debian:latest"),
        ("Debian:Trixie", "write: debian:trixie"),
        ("docker://debian:trixie", "write: debian:trixie"),
        ("https://example.com/base:1", "write: example.com/base:1"),
        (" debian:trixie ", "write: debian:trixie"),
        (f"debian:trixie@{DIGEST}", f"write: debian@{DIGEST}"),
        ("bootstrap:sid", "write: bootstrap:trixie or bootstrap:bookworm"),
        ("bootstrap:trixie\n", "write: bootstrap:trixie or bootstrap:bookworm"),
        ("bootstrap:", "write: bootstrap:trixie or bootstrap:bookworm"),
        ("", None),
        ("x@sha256:short", None),
        (f"X@{DIGEST.upper()}", f"write: x@{DIGEST}"),
        ("../x:1", None),
        ("debian:trixie\nRUN true", None),
        ("-debian:trixie", None),
        ("debian:trixie --net=host", None),
        ("deb\u0131an:trixie", None),
        ("debian:\uff11", None),
        ("example.com/a//b:1", None),
        (f"example.com/{'a' * 255}:1", None),
        ("debian:" + "a" * 129, None),
        ("$(id):1", None),
    ],
)
def test_anything_else_is_refused_with_the_nearest_form(text: str, hint: str | None) -> None:
    """Hostile or mistaken text never becomes a line of a Containerfile."""
    with pytest.raises(UsageError) as caught:
        parse_base_image(text)

    forms = "write: NAME:TAG, REGISTRY/NAME:TAG, NAME@sha256:DIGEST, localhost/NAME:TAG or bootstrap:trixie"
    assert caught.value.hint == (hint or forms)


def test_the_reference_is_complete() -> None:
    """What podman and skopeo are given has a registry, and a tag or a digest."""
    texts = ("debian:trixie", f"debian@{DIGEST}", "localhost/mine:1")

    assert [parse_base_image(text).reference for text in texts] == [
        "docker.io/library/debian:trixie",
        f"docker.io/library/debian@{DIGEST}",
        "localhost/mine:1",
    ]


def test_packages_are_sorted_and_each_is_there_once() -> None:
    """The order in which packages are asked for changes no image."""
    assert parse_packages(["zsh", "g++", "jq=1.7*", "zsh"]) == ("g++", "jq=1.7*", "zsh")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "jq; x",
        "jq\nx",
        "--reinstall",
        "-o=APT::Sandbox::User=root",
        "jq-",
        "jq/sid",
        "jq:arm64",
        "../jq",
        "jq=",
        "jq=1*7",
        "jq='x'",
        "jq=$(id)",
        "jq*",
        "j",
        "\u0458q",
        "jq =1",
    ],
)
def test_a_package_that_apt_would_read_otherwise_is_refused(text: str) -> None:
    """apt reads `jq-` as a removal, `-o` as an option, and `/` as a release."""
    with pytest.raises(UsageError, match="is not a package name"):
        parse_packages([text])


def test_the_nearest_package_name_is_offered() -> None:
    """Case and blanks are what people get wrong."""
    with pytest.raises(UsageError) as caught:
        parse_packages([" JQ "])

    assert caught.value.hint == "write: --install jq"


def test_one_package_in_two_versions_is_refused() -> None:
    """There is no telling which one was meant."""
    with pytest.raises(UsageError, match=r"--install names jq twice: jq and jq=1\.7\*"):
        parse_packages(["jq=1.7*", "jq"])


def test_every_package_of_an_image_has_that_name_in_ubuntu_too() -> None:
    """By a recorded list: no test can ask Ubuntu's archive."""
    with open(os.path.join(os.path.dirname(__file__), "../recorded/ubuntu-24.04-packages"), encoding="utf-8") as file:
        known = {line.split()[1] for line in file if not line.startswith("#")}

    assert {*SANDBOX_PACKAGES, *GATE_PACKAGES} - known == set()


def test_a_machine_without_a_node_is_named() -> None:
    """Only platforms that Node, Debian and the tests know."""
    assert [parse_platform("x86_64"), parse_platform("aarch64")] == ["linux/amd64", "linux/arm64"]
    with pytest.raises(Unavailable, match="images cannot be built for 'riscv64'"):
        parse_platform("riscv64")


def test_the_line_of_node_is_one_of_two() -> None:
    """Empty stands for the usual one."""
    assert [parse_node_line(text) for text in ("", "22", "24")] == ["22", "22", "24"]
    for text in ("23", "22.1.0", "v22", "22\n", "lts"):
        with pytest.raises(UsageError, match="is no line of Node"):
            parse_node_line(text)


@pytest.mark.parametrize(
    ("known", "generation"),
    [
        ("0", "2026-11-30"),
        ("2026-11-29", "2026-11-30"),
        ("2026-11-29.3", "2026-11-30"),
        ("2026-11-30", "2026-11-30.2"),
        ("2026-11-30.9", "2026-11-30.10"),
    ],
)
def test_a_generation_is_the_date_of_its_update(known: str, generation: str) -> None:
    """With a number where that day has had one: two of them are never the same."""
    assert next_generation(known, "2026-11-30") == generation


def test_the_source_of_node_is_one_of_two() -> None:
    """Empty stands for: whichever is to be had."""
    assert [parse_node_origin(text) for text in ("", "tarball", "npm")] == ["", "tarball", "npm"]
    with pytest.raises(UsageError, match="'nvm' is no source of Node"):
        parse_node_origin("nvm")
