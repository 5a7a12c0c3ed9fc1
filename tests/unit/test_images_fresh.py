"""How long a base's digest is believed, and what is done afterwards: with the time as a value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aisb.domain.base_image import parse_base_image
from aisb.domain.freshness import Freshness, age, is_due, is_stale, parse_freshness, stale_words, stamp
from aisb.domain.images import SANDBOX, ImageSpec, PinnedBase, labels
from aisb.effects.base import need_base
from aisb.effects.build import BuildRequest
from aisb.effects.image_inputs import known_inputs
from aisb.effects.lending import Lent
from aisb.effects.pins import read_base_pin, read_pins, write_base_pin, write_node_pin
from aisb.effects.process import Finished
from aisb.effects.refresh import refresh_base
from aisb.errors import CommandError, UsageError
from aisb.render.images import image_inputs, image_names
from tests.fakes import FakeRunner, said
from tests.image_values import DIGEST, NODE_FROM_NPM, OTHER_DIGEST, REGISTRY, make_inputs
from tests.image_world import NOW, Heard, make_shop

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.effects.process import Command
    from aisb.effects.workshop import Workshop

DAY = 86400
DEBIAN = parse_base_image("debian:trixie")
SPEC = ImageSpec(DEBIAN, "linux/amd64")
NOTHING = Lent("", (), "", "", "")
YES, NO = said(""), said("", code=1)
OLD = REGISTRY._replace(time=stamp(NOW - 8 * DAY))


def index_of(digest: str) -> Finished:
    """What a registry says of an index that holds the platform's manifest."""
    entry = {"digest": digest, "platform": {"os": "linux", "architecture": "amd64"}}
    return said(json.dumps({"manifests": [entry]}))


class World(FakeRunner):
    """As the others, but whatever this machine's own apt has to say is left out."""

    def run(self, command: Command) -> Finished:
        """See `Runner.run`."""
        return said("") if command.argv[0].endswith("apt-config") else super().run(command)


@pytest.mark.parametrize(
    ("environ", "freshness"),
    [
        ({}, Freshness(7, automatic=True)),
        ({"AISB_BASE_TTL_DAYS": "", "AISB_BASE_AUTO_UPDATE": ""}, Freshness(7, automatic=True)),
        ({"AISB_BASE_TTL_DAYS": "0"}, Freshness(0, automatic=True)),
        ({"AISB_BASE_TTL_DAYS": "-1"}, Freshness(-1, automatic=True)),
        ({"AISB_BASE_TTL_DAYS": "30", "AISB_BASE_AUTO_UPDATE": "no"}, Freshness(30, automatic=False)),
        ({"AISB_BASE_AUTO_UPDATE": "0"}, Freshness(7, automatic=False)),
    ],
)
def test_the_variables_say_how_long_a_digest_is_believed(environ: dict[str, str], freshness: Freshness) -> None:
    """A week, unless something else is said."""
    assert parse_freshness(environ) == freshness


@pytest.mark.parametrize(
    "environ",
    [
        {"AISB_BASE_TTL_DAYS": "-2"},
        {"AISB_BASE_TTL_DAYS": "07"},
        {"AISB_BASE_TTL_DAYS": "7d"},
        {"AISB_BASE_TTL_DAYS": "7\n"},
        {"AISB_BASE_TTL_DAYS": "\uff17"},
        {"AISB_BASE_TTL_DAYS": "100000"},
        {"AISB_BASE_AUTO_UPDATE": "maybe"},
    ],
)
def test_what_is_no_time_is_refused(environ: dict[str, str]) -> None:
    """A slip shall not switch the refreshing off."""
    with pytest.raises(UsageError, match=next(iter(environ))):
        parse_freshness(environ)


@pytest.mark.parametrize(
    ("pin", "freshness", "stale", "due"),
    [
        pytest.param(REGISTRY._replace(time=stamp(NOW - 7 * DAY)), Freshness(), False, False, id="the last moment"),
        pytest.param(REGISTRY._replace(time=stamp(NOW - 7 * DAY - 1)), Freshness(), True, True, id="a second later"),
        pytest.param(OLD, Freshness(-1), False, False, id="for ever"),
        pytest.param(OLD._replace(held=True), Freshness(), False, False, id="gone back to"),
        pytest.param(OLD, Freshness(30), False, False, id="a longer time"),
        pytest.param(REGISTRY._replace(time=stamp(NOW - 1)), Freshness(0), True, True, id="no time at all"),
        pytest.param(OLD, Freshness(automatic=False), True, False, id="not by itself"),
        pytest.param(REGISTRY._replace(time=stamp(NOW + DAY)), Freshness(), True, True, id="from the future"),
        pytest.param(REGISTRY._replace(time=""), Freshness(), True, True, id="without a time"),
        pytest.param(REGISTRY._replace(time=stamp(NOW), unpinned=True), Freshness(), True, True, id="never confirmed"),
        pytest.param(OLD._replace(tried=stamp(NOW - 60)), Freshness(), True, False, id="asked a minute ago"),
        pytest.param(OLD._replace(tried=stamp(NOW - 3600)), Freshness(), True, True, id="asked an hour ago"),
        pytest.param(OLD._replace(tried=stamp(NOW + 60)), Freshness(), True, True, id="asked in the future"),
    ],
)
def test_a_digest_is_believed_for_its_time(pin: PinnedBase, freshness: Freshness, *, stale: bool, due: bool) -> None:
    """Then the registry is asked again; where it did not answer, not at every start."""
    assert (is_stale(pin, freshness, NOW), is_due(pin, freshness, NOW)) == (stale, due)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "less than an hour ago"),
        (3600, "an hour ago"),
        (47 * 3600, "47 hours ago"),
        (12 * DAY, "12 days ago"),
    ],
)
def test_an_age_is_said_in_words(seconds: int, words: str) -> None:
    """To the nearest unit that means something."""
    assert age(REGISTRY._replace(time=stamp(NOW - seconds)), NOW) == words


@pytest.mark.parametrize("time", ["", "2026-13-45T99:99:99Z"])
def test_a_time_that_is_none_has_no_age(time: str) -> None:
    """A record may come from a label, which anybody can have written."""
    assert age(REGISTRY._replace(time=time), NOW) == "an unknown time ago"


def test_what_was_never_confirmed_is_called_unpinned() -> None:
    """In what is said, on the label, and in the inputs, so that a confirmed one is another image."""
    pin = REGISTRY._replace(time="", unpinned=True)
    inputs = make_inputs(base=pin)
    listed = image_inputs(SANDBOX, inputs)

    assert stale_words(pin, NOW).startswith("debian:trixie is UNPINNED: ")
    assert dict(labels(SANDBOX, inputs, listed))["aisb.base-digest"] == "UNPINNED"
    assert listed["base"] == f"UNPINNED {DIGEST}"


def test_the_time_of_a_record_decides_no_image(tmp_path: Path) -> None:
    """A plan that was kept answers after a look that found nothing new."""
    cache = str(tmp_path)
    write_base_pin(cache, DEBIAN, OLD)
    before = read_pins(cache, "debian:trixie")
    write_base_pin(cache, DEBIAN, OLD._replace(time=stamp(NOW), tried=stamp(NOW)))
    later = read_pins(cache, "debian:trixie")
    write_base_pin(cache, DEBIAN, OLD._replace(generation="2026-11-30"))

    assert (before == later, read_pins(cache, "debian:trixie") == later) == (True, False)


def refreshed(shop: Workshop, pin: PinnedBase = OLD) -> PinnedBase | None:
    """What is on record after a start that found `pin` there."""
    write_base_pin(shop.directories.cache, DEBIAN, pin)
    write_node_pin(shop.directories.cache, "linux/amd64", NODE_FROM_NPM)
    refresh_base(shop, BuildRequest(SPEC))
    return read_base_pin(shop.directories.cache, DEBIAN)


def test_a_tag_that_has_not_moved_is_believed_from_now_on(tmp_path: Path) -> None:
    """A manifest read, of three seconds at most, and nothing else."""
    runner = World(index_of(DIGEST))
    heard = Heard()

    found = refreshed(make_shop(tmp_path, runner, report=heard))

    assert found is not None
    assert found == OLD._replace(time=stamp(NOW), index_digest=found.index_digest)
    assert heard.lines == ["looking up debian:trixie ..."]
    assert runner.argvs == [
        (
            f"{tmp_path}/bin/skopeo",
            "--debug",
            "--command-timeout",
            "3s",
            "inspect",
            "--raw",
            "docker://docker.io/library/debian:trixie",
        )
    ]


def test_a_tag_that_has_moved_is_announced_and_built_on(tmp_path: Path) -> None:
    """Here both images are there already; the record changes after them, and keeps its generation."""
    runner = World(index_of(OTHER_DIGEST), YES, YES)
    heard = Heard()
    shop = make_shop(tmp_path, runner, report=heard)

    found = refreshed(shop, OLD._replace(generation="2026-11-01"))

    assert found is not None
    inputs = known_inputs(shop.directories.cache, SPEC)
    assert inputs is not None
    assert (found.digest, found.generation, found.time) == (OTHER_DIGEST, "2026-11-01", stamp(NOW))
    assert heard.lines[1:] == [
        f"debian:trixie has moved from {DIGEST[:19]} to {OTHER_DIGEST[:19]}: building on that first"
    ]
    assert [argv[-1] for argv in runner.argvs[1:]] == list(image_names(inputs))


def test_a_blob_that_breaks_off_leaves_the_record(tmp_path: Path) -> None:
    """The tag has moved, but what it stands for cannot be had: the run goes on with what is there."""
    runner = World(index_of(OTHER_DIGEST), NO, NO, said("unexpected EOF", code=125))
    heard = Heard()

    found = refreshed(make_shop(tmp_path, runner, report=heard))

    assert found == OLD._replace(tried=stamp(NOW))
    assert heard.lines[-2:] == [
        f"note: docker.io/library/debian@{OTHER_DIGEST} could not be fetched: podman exited 125",
        "note: debian:trixie was last looked up 8 days ago; what it stood for then is used",
    ]


class Slow(World):
    """A registry that does not answer in time."""

    def run(self, command: Command) -> Finished:
        """See `Runner.run`."""
        if command.argv[0].endswith("skopeo"):
            raise CommandError(f"took longer than {command.timeout_seconds:g} s")
        return super().run(command)


@pytest.mark.parametrize(
    ("runner", "reason"),
    [
        pytest.param(Slow(), "no answer in 3 s", id="slow"),
        pytest.param(World(Finished(1, b"", b"connection refused")), "connection refused", id="offline"),
    ],
)
def test_offline_the_record_is_kept_and_its_age_is_said(tmp_path: Path, runner: World, reason: str) -> None:
    """A stale pin beats a mutable tag; and the next start does not wait again."""
    heard = Heard()
    shop = make_shop(tmp_path, runner, report=heard)

    found = refreshed(shop)
    refresh_base(shop, BuildRequest(SPEC))

    assert found == OLD._replace(tried=stamp(NOW))
    assert heard.lines == [
        "looking up debian:trixie ...",
        f"note: debian:trixie could not be looked up: {reason}",
        "note: debian:trixie was last looked up 8 days ago; what it stood for then is used",
    ]


def test_without_an_answer_the_image_of_that_name_is_built_on_unpinned(tmp_path: Path) -> None:
    """As it lies in podman's store, by its digest there; said, and on record as what it is."""
    source = f"docker.io/library/debian@{DIGEST}"
    runner = FakeRunner(Finished(1, b"", b"refused"), YES, YES, said(f'{{"digest": "{DIGEST}", "layers": []}}'), YES)
    heard = Heard()
    shop = make_shop(tmp_path, runner, report=heard)

    found = need_base(shop, SPEC, NOTHING)

    assert found == PinnedBase("debian:trixie", source, DIGEST, unpinned=True)
    assert read_base_pin(shop.directories.cache, DEBIAN) == found
    assert heard.lines[-1].endswith("; building on the image of that name in podman's store, UNPINNED")


def test_an_answer_makes_it_pinned(tmp_path: Path) -> None:
    """And the images are built once more, for their labels say what they are."""
    runner = World(index_of(DIGEST), YES, YES)

    found = refreshed(make_shop(tmp_path, runner), OLD._replace(time="", unpinned=True))

    assert found is not None
    assert (found.unpinned, found.digest, len(runner.argvs)) == (False, DIGEST, 3)
