"""The base image: what is asked of podman, skopeo and mmdebstrap, and what is made of their answers."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from aisb.domain.apt import AptSource
from aisb.domain.base_image import parse_base_image
from aisb.domain.images import ImageSpec, PinnedBase
from aisb.effects.base import need_base
from aisb.effects.bootstrap import BootstrapView, bootstrap_argv
from aisb.effects.lending import Lent
from aisb.effects.pins import read_base_pin, write_base_pin
from aisb.effects.process import Finished
from aisb.effects.skopeo import Resolved, read_manifest
from aisb.errors import CommandError, Unavailable
from tests.fakes import FakeRunner, said
from tests.image_values import BOOTSTRAPPED, DIGEST, OTHER_DIGEST
from tests.image_world import Heard, make_shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aisb.domain.base_image import BaseImage
    from aisb.effects.process import Command

NOTHING = Lent("", (), "", "", "")
DEBIAN = parse_base_image("debian:trixie")
LOCAL = parse_base_image("localhost/mine:1")
INDEX = json.dumps(
    {
        "manifests": [
            {"digest": DIGEST, "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": OTHER_DIGEST, "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        ]
    }
).encode()
MANIFEST = b'{"schemaVersion": 2, "config": {}, "layers": []}'
FORGET_HOST = (
    'rm -f "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/sources.list.d/*'
)
FORGET_MIRROR = (
    'echo "# The packages came from a mirror of the machine that made this base." > "$1"/etc/apt/sources.list'
)
YES, NO = said(""), said("", code=1)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def spec(text: str, platform: str = "linux/amd64") -> ImageSpec:
    return ImageSpec(parse_base_image(text), platform)


def test_an_index_stands_for_the_platforms_manifest() -> None:
    """Both digests are kept."""
    assert [read_manifest(DEBIAN, INDEX, platform) for platform in ("linux/amd64", "linux/arm64")] == [
        Resolved(DIGEST, digest_of(INDEX)),
        Resolved(OTHER_DIGEST, digest_of(INDEX)),
    ]


def test_a_single_manifest_stands_for_itself() -> None:
    """There is no index then."""
    assert read_manifest(DEBIAN, MANIFEST, "linux/amd64") == Resolved(digest_of(MANIFEST))


@pytest.mark.parametrize(
    ("manifest", "base", "message"),
    [
        (b"<html>", DEBIAN, "the registry's answer is not a manifest"),
        (b"[]", DEBIAN, "the registry's answer is not a manifest"),
        (b'"abc"', DEBIAN, "the registry's answer is not a manifest"),
        (b"[" * 100_000, DEBIAN, "the registry's answer is not a manifest"),
        (b'{"manifests": 5}', DEBIAN, "the registry's answer is not a manifest"),
        (b'{"manifests": {"a": 1}}', DEBIAN, "the registry's answer is not a manifest"),
        (b'{"manifests": [null, "x", 1]}', DEBIAN, "debian:trixie is not offered for linux/amd64"),
        (b'{"manifests": []}', DEBIAN, "debian:trixie is not offered for linux/amd64"),
        (
            b'{"manifests": [{"digest": "x", "platform": {"os": "linux", "architecture": "amd64"}}]}',
            DEBIAN,
            "debian:trixie is not offered for linux/amd64",
        ),
        (MANIFEST, parse_base_image(f"debian@{DIGEST}"), "the registry answered with another image"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(manifest: bytes, base: BaseImage, message: str) -> None:
    """Nothing is pinned then."""
    with pytest.raises(Unavailable, match=message):
        read_manifest(base, manifest, "linux/amd64")


def test_a_registrys_base_is_looked_up_once_and_fetched_by_digest(tmp_path: Path) -> None:
    """The second time its record answers."""
    runner = FakeRunner(Finished(code=0, stdout=INDEX), NO, said("pulled"), YES)
    shop = make_shop(tmp_path, runner)
    source = f"docker.io/library/debian@{DIGEST}"

    first = need_base(shop, spec("debian:trixie"), NOTHING)
    second = need_base(shop, spec("debian:trixie"), NOTHING)

    assert first == second == PinnedBase("debian:trixie", source, DIGEST, digest_of(INDEX), first.time)
    assert runner.argvs == [
        (
            f"{tmp_path}/bin/skopeo",
            "--debug",
            "--command-timeout",
            "20s",
            "inspect",
            "--raw",
            "docker://docker.io/library/debian:trixie",
        ),
        ("/usr/bin/podman", "image", "exists", source),
        ("/usr/bin/podman", "pull", "--quiet", source),
        ("/usr/bin/podman", "image", "exists", source),
    ]


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (
            'time="2026-11-29T13:00:00Z" level=fatal msg="Error parsing image name: manifest unknown: \\"x\\""\n',
            'Error parsing image name: manifest unknown: "x"',
        ),
        ('time="x" level=warning msg="a"\ntime="x" level=fatal msg="toomanyrequests"\n', "toomanyrequests"),
        ("something else\nthe last line\n", "the last line"),
        (
            'level=debug msg="Too many requests to x: sleeping for 2 s"\nlevel=fatal msg="context deadline exceeded"\n',
            "too many requests (429)",
        ),
        ("", "skopeo exited 1"),
    ],
)
def test_a_registry_without_an_answer_is_named_in_one_line(tmp_path: Path, stderr: str, reason: str) -> None:
    """With the reason that skopeo gives, and a way that needs no registry."""
    shop = make_shop(tmp_path, FakeRunner(Finished(code=1, stderr=stderr.encode()), NO))

    with pytest.raises(Unavailable) as caught:
        need_base(shop, spec("debian:trixie"), NOTHING)

    assert caught.value.message == f"debian:trixie could not be looked up: {reason}"
    assert "--base-image bootstrap:trixie" in caught.value.hint
    assert read_base_pin(shop.directories.cache, DEBIAN) is None


def test_an_image_that_cannot_be_fetched_keeps_no_record(tmp_path: Path) -> None:
    """podman's last lines say why."""
    runner = FakeRunner(Finished(code=0, stdout=MANIFEST), NO, said("blob: unexpected EOF", code=125))

    with pytest.raises(Unavailable, match="could not be fetched: podman exited 125") as caught:
        need_base(make_shop(tmp_path, runner), spec("debian:trixie"), NOTHING)

    assert caught.value.hint == "blob: unexpected EOF"


def test_a_store_in_trouble_is_not_a_missing_image(tmp_path: Path) -> None:
    """Exit 125 of `image exists` is never read as "no"."""
    runner = FakeRunner(Finished(code=0, stdout=MANIFEST), Finished(code=125, stderr=b"no space left"))

    with pytest.raises(CommandError, match=r"image exists .* exited 125") as caught:
        need_base(make_shop(tmp_path, runner), spec("debian:trixie"), NOTHING)

    assert caught.value.hint == "no space left"


def test_a_local_image_is_pinned_as_it_is_now(tmp_path: Path) -> None:
    """Looking costs nothing, so an image that was built anew is seen."""
    answers = [said(json.dumps({"digest": digest, "layers": []})) for digest in (DIGEST, OTHER_DIGEST)]
    shop = make_shop(tmp_path, FakeRunner(YES, answers[0], YES, answers[1]))

    found = [need_base(shop, spec("localhost/mine:1"), NOTHING) for _ in range(2)]

    assert [pin.source for pin in found] == [f"localhost/mine@{DIGEST}", f"localhost/mine@{OTHER_DIGEST}"]
    assert read_base_pin(shop.directories.cache, LOCAL) == found[1]


def test_a_local_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Nothing is pulled in its place."""
    with pytest.raises(Unavailable, match="localhost/mine:1 is not in podman's image store"):
        need_base(make_shop(tmp_path, FakeRunner(NO)), spec("localhost/mine:1"), NOTHING)


def test_a_bootstrapped_base_in_the_store_is_used_again(tmp_path: Path) -> None:
    """If its one layer is the recorded one."""
    inspected = said(json.dumps({"digest": OTHER_DIGEST, "layers": [DIGEST]}))
    shop = make_shop(tmp_path, FakeRunner(YES, inspected))
    write_base_pin(shop.directories.cache, parse_base_image("bootstrap:trixie"), BOOTSTRAPPED)

    assert need_base(shop, spec("bootstrap:trixie"), NOTHING) == BOOTSTRAPPED


class Mmdebstrap(FakeRunner):
    """Writes the archive that it was asked for, then answers like the others."""

    sources = ""

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """See `Runner.stream`."""
        target = next(word for word in command.argv if word.endswith(".tar"))
        with open(target, "wb") as file:
            file.write(b"a base")
        if command.argv[-1].endswith("sources.list"):
            with open(command.argv[-1], encoding="utf-8") as file:
                self.sources = file.read()
        return super().stream(command, on_line, on_tick)


def test_a_base_is_made_of_the_distributions_packages(tmp_path: Path) -> None:
    """From the host's mirror where the host is a Debian, and named by the hash of its bytes."""
    runner = Mmdebstrap(said("I: done"), said(""))
    shop = make_shop(tmp_path, runner)
    mirror = AptSource("http://mirror.example/debian", ("@suite@", "@suite@-updates"), ("main",))

    made = need_base(shop, spec("bootstrap:trixie"), NOTHING._replace(distribution="debian", sources=(mirror,)))

    digits = hashlib.sha256(b"a base").hexdigest()
    source = f"localhost/aisb-base:trixie-{digits[:12]}"
    assert made == PinnedBase("bootstrap:trixie", source, f"sha256:{digits}", "", made.time)
    assert runner.sources == (
        "deb http://mirror.example/debian trixie main\ndeb http://mirror.example/debian trixie-updates main\n"
    )
    assert runner.argvs[1] == (
        "/usr/bin/podman",
        "import",
        "--quiet",
        "--message",
        "the packages of trixie",
        "--change",
        "LABEL aisb.role=base",
        "--change",
        "LABEL aisb.base-ref=bootstrap:trixie",
        runner.argvs[1][-2],
        source,
    )


def test_another_distributions_mirror_makes_no_debian(tmp_path: Path) -> None:
    """mmdebstrap's own default serves then."""
    runner = Mmdebstrap(said("I: done"), said(""))
    mirror = AptSource("http://mirror.example/ubuntu", ("@suite@",), ("main", "universe"))

    need_base(
        make_shop(tmp_path, runner),
        spec("bootstrap:trixie"),
        NOTHING._replace(distribution="ubuntu", sources=(mirror,)),
    )

    assert runner.sources == ""


def test_keys_that_the_host_does_not_know_are_named(tmp_path: Path) -> None:
    """A Debian 12 that was never updated has no keys of Debian 13."""
    runner = Mmdebstrap(said("W: GPG error: NO_PUBKEY 762F67A0B2C39DE4\nE: apt-get update failed", code=25))
    heard = Heard()

    with pytest.raises(Unavailable, match=r"the base bootstrap:trixie could not be made") as caught:
        need_base(make_shop(tmp_path, runner, report=heard), spec("bootstrap:trixie"), NOTHING)

    assert caught.value.hint.splitlines()[-1] == (
        "this machine does not know the keys of trixie: apt-get install debian-archive-keyring"
    )
    assert heard.lines == ["base trixie from the distribution's packages ..."]


def test_mmdebstrap_writes_down_nothing_of_the_host() -> None:
    """The whole argv: settings and mirror come from files, and hooks take their traces out again."""
    view = BootstrapView(
        program="/usr/bin/mmdebstrap",
        suite="trixie",
        target="/tmp/x/base.tar",
        keyring="/usr/share/keyrings/debian-archive-keyring.gpg",
        sources="/tmp/x/sources.list",
        settings="/tmp/x/apt.conf",
    )

    assert bootstrap_argv(view) == (
        "/usr/bin/mmdebstrap",
        "--mode=unshare",
        "--variant=minbase",
        "--format=tar",
        "--skip=output/dev",
        "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg",
        "--aptopt=/tmp/x/apt.conf",
        f"--customize-hook={FORGET_HOST}",
        f"--customize-hook={FORGET_MIRROR}",
        "trixie",
        "/tmp/x/base.tar",
        "/tmp/x/sources.list",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bootstrap:trixie", "mmdebstrap was not found: it makes the base bootstrap:trixie"),
        ("debian:trixie", "skopeo was not found: it asks the registry what debian:trixie is"),
    ],
)
def test_a_program_that_is_missing_is_named(tmp_path: Path, text: str, message: str) -> None:
    """With the one command that installs it."""
    with pytest.raises(Unavailable) as caught:
        need_base(make_shop(tmp_path, FakeRunner(NO), programs=()), spec(text), NOTHING)

    assert (caught.value.message, caught.value.hint) == (message, f"install it: apt-get install {message.split()[0]}")
