"""`aisb clean`: what goes, what stays, and by which command."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from aisb.domain.clean import (
    CONTAINER,
    DIRECTORY,
    GATE,
    IMAGE,
    VOLUME,
    Home,
    Image,
    Removal,
    homes_to_remove,
    images_to_remove,
    parse_glob,
)
from aisb.domain.run_record import KILLED, Keep
from aisb.effects.clean import Store, Wish, bytes_below, find_removals, remove
from aisb.effects.process import Finished
from aisb.effects.records import AUDIT
from aisb.effects.run_record import ABOUT, new_fields, read_fields, record_text
from aisb.effects.session import open_session
from aisb.effects.state import Directories
from aisb.errors import UsageError
from aisb.render.clean import clean_lines, removal_argv
from tests.fakes import FakeRunner

if TYPE_CHECKING:
    from pathlib import Path


def image(
    tag: str, created: int, role: str = "sandbox", repository: str = "localhost/aisb-", **inputs: object
) -> Image:
    given = {"agent": "pi@1.0", "install": [], "node": "22.1.0", **inputs}
    labels = {"aisb.base-ref": str(given.pop("base", "ubuntu")), "aisb.inputs": json.dumps(given)}
    return Image(f"{repository}{role}:{tag}", f"id-{tag}", role, labels, created, 1000)


def names(removals: list[Removal]) -> list[str]:
    return [removal.name.rpartition(":")[2] for removal in removals]


def test_of_each_kind_the_newest_two_stay() -> None:
    """A newer agent, Node or generation makes an image newer; another base, agent, line or package another image."""
    images = [
        image("old", 1, agent="pi@0.9", generation="0"),
        image("last", 2, node="22.0.0"),
        image("now", 3, generation="2026-11-30"),
        image("jq", 1, install=["jq"]),
        image("claude", 1, agent="claude@1.0"),
        image("24", 1, node="24.0.0"),
        image("debian", 1, base="debian"),
        image("customized", 1, fragment="abc"),
        image("gate", 1, "gate"),
    ]

    assert names(images_to_remove(images, (), everything=False)) == ["old"]
    assert names(images_to_remove(images, (), everything=True)) == [
        "now", "last", "old", "jq", "claude", "24", "debian", "customized", "gate",
    ]  # fmt: skip


def test_what_a_container_has_stays() -> None:
    images = [image("old", 1), image("last", 2), image("now", 3)]

    assert names(images_to_remove(images, ("id-old",), everything=False)) == []
    assert names(images_to_remove(images, ("id-old",), everything=True)) == ["now", "last"]


@pytest.mark.parametrize("repository", ["localhost/mine-", "docker.io/library/aisb-", "localhost/aisb-gate/"])
def test_an_image_that_somebody_built_on_ours_is_theirs(repository: str) -> None:
    """It has our labels."""
    assert images_to_remove([image("theirs", 1, repository=repository)], (), everything=True) == []


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "7"])
def test_an_image_whose_inputs_cannot_be_read_is_one_of_its_own_kind(text: str) -> None:
    odd = image("odd", 0)._replace(labels={"aisb.inputs": text})

    assert names(images_to_remove([odd, image("a", 1), image("b", 2)], (), everything=False)) == []
    assert names(images_to_remove([odd], (), everything=True)) == ["odd"]


HOMES = [Home("aisb-home-web-0123ab", "/home/me/web"), Home("aisb-home", ""), Home("aisb-home-api-4567cd", "/srv/api")]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*", ["aisb-home", "aisb-home-api-4567cd", "aisb-home-web-0123ab"]),
        ("aisb-home-web-*", ["aisb-home-web-0123ab"]),
        ("aisb-home", ["aisb-home"]),
        ("*-[0-4]*", ["aisb-home-api-4567cd", "aisb-home-web-0123ab"]),
        ("postgres*", []),
    ],
)
def test_homes_are_chosen_by_a_pattern_that_cannot_leave_them(glob: str, found: list[str]) -> None:
    """C55."""
    others = [Home("postgres-data", ""), Home("aisb-homes", ""), Home("aisb-home-x\n", ""), Home("not-aisb-home-x", "")]

    assert [removal.name for removal in homes_to_remove([*HOMES, *others], glob)] == found


def test_a_home_is_listed_with_what_it_takes_up(tmp_path: Path) -> None:
    """Each file once, whatever it is called; nothing that a link leads to, and nothing that cannot be read."""
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep/file").write_bytes(b"x" * 100_000)
    os.link(home / "deep/file", home / "again")
    (tmp_path / "elsewhere").write_bytes(b"x" * 1_000_000)
    os.symlink(tmp_path / "elsewhere", home / "link")

    (removal,) = homes_to_remove([Home("aisb-home-x-012345", "/x", str(home))], "*", bytes_below)

    assert 100_000 <= removal.size < 200_000
    assert clean_lines([removal._replace(size=100_352)]) == [
        "would remove volume aisb-home-x-012345 (home of /x, 100.4 kB)"
    ]
    assert [bytes_below(place) for place in ("", str(tmp_path / "gone"))] == [0, 0]


@pytest.mark.parametrize("text", ["a b", "$(id)", "--all", "x\n", "../x", "a/b", "", "a" * 201, "é"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    if text == "--all":
        # Nothing but letters that a name may have: it names no volume of ours.
        assert homes_to_remove(HOMES, parse_glob(text)) == []
        return
    with pytest.raises(UsageError, match="no pattern for a volume's name"):
        parse_glob(text)


def test_each_kind_has_its_command_and_none_takes_what_is_in_use() -> None:
    """Without --force podman keeps an image or a volume that a container has since."""
    removals = [
        Removal(CONTAINER, "aisb-run-1", "of run 1, which is over"),
        Removal(IMAGE, "localhost/aisb-sandbox:1", "sandbox", 808_100_000),
        Removal(IMAGE, "localhost/aisb-gate:1", "gate", 180_000_000),
        Removal(VOLUME, "aisb-home-x", "home of /x\x1b"),
    ]

    assert [" ".join(removal_argv("podman", removal)) for removal in removals] == [
        "podman rm --force --volumes --time 0 aisb-run-1",
        "podman rmi localhost/aisb-sandbox:1",
        "podman rmi localhost/aisb-gate:1",
        "podman volume rm aisb-home-x",
    ]
    assert clean_lines(removals) == [
        "would remove container aisb-run-1 (of run 1, which is over)",
        "would remove image localhost/aisb-sandbox:1 (sandbox, 808.1 MB, and podman's copy of it)",
        "would remove image localhost/aisb-gate:1 (gate, 180.0 MB)",
        r"would remove volume aisb-home-x (home of /x\x1b)",
    ]
    assert clean_lines([]) == ["nothing to remove"]


def said(found: list[dict[str, Any]]) -> Finished:
    return Finished(0, json.dumps(found).encode())


def podman_image(item: Image) -> dict[str, Any]:
    labels = {**item.labels, "aisb.role": item.role}
    return {"Id": item.id, "Names": [item.name], "Labels": labels, "Created": item.created, "Size": item.size}


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(*(str(tmp_path / name) for name in ("run", "cache", "state", "config")))


def test_containers_of_runs_that_are_over_go_first(directories: Directories) -> None:
    """A run that goes on keeps its own; so does whoever else has containers."""
    alive = open_session(f"{directories.runtime}/r", "0000aaaa", {}, "")
    of_runs = [("aisb-run-0000aaaa", "0000aaaa"), ("aisb-run-0000bbbb", "0000bbbb")]
    containers = [
        *(
            {"Names": [name], "ImageID": f"id-{run[-1]}", "Labels": {"aisb.role": "sandbox", "aisb.run": run}}
            for name, run in of_runs
        ),
        {"Names": ["gate"], "ImageID": "id-g", "Labels": {"aisb.role": "gate"}},
        {"Names": ["web"], "ImageID": "other", "Labels": None},
    ]
    runner = FakeRunner(
        said(containers),
        said([podman_image(image(number, 1 + "ab34".index(number))) for number in "ab34"]),
        said([]),
        said(
            [
                {"Name": "aisb-home-x-012345", "Labels": {"aisb.role": "home"}},
                {"Name": "aisb-home-y-012345", "Labels": {}},
                {"Name": "aisb-home-z-012345", "Labels": None},
            ]
        ),
    )

    found = find_removals(Store("podman", runner, directories), Wish(homes="*"))

    assert [(removal.kind, removal.name) for removal in found] == [
        (CONTAINER, "aisb-run-0000bbbb"),
        (IMAGE, "localhost/aisb-sandbox:b"),
        (VOLUME, "aisb-home-x-012345"),
    ]
    assert alive.run == "0000aaaa"
    assert [argv[1:3] for argv in runner.argvs] == [
        ("ps", "--all"),
        ("images", "--filter"),
        ("images", "--filter"),
        ("volume", "ls"),
    ]


def test_what_a_run_has_left_that_is_over_goes(directories: Directories) -> None:
    """Its directory too, also where it never had an owner; what goes on or begins stays."""
    gate = gate_there(directories, "a" * 12)
    killed = open_session(f"{gate}/r", "0000aaaa", {}, "", {ABOUT: record_text(new_fields("0000aaaa", "/p"))})
    with open(f"{killed.path}/owner", "w") as file:
        file.write("1 1 another-boot")
    parent = f"{directories.runtime}/r"
    for name in ("00000001", "0000bbbb"):
        os.makedirs(f"{parent}/{name}")
    os.utime(f"{parent}/00000001", (1000, 1000))
    alive = open_session(parent, "0000cccc", {}, "")
    store = Store("podman", FakeRunner(*3 * [said([])]), directories)

    found = find_removals(store, Wish())

    assert found == [
        Removal(DIRECTORY, f"{parent}/00000001", "of run 00000001, which is over"),
        Removal(DIRECTORY, killed.path, "of run 0000aaaa, which is over"),
    ]
    assert [remove(store, removal) for removal in found] == ["", ""]
    assert (sorted(os.listdir(parent)), os.listdir(f"{gate}/r")) == (["0000bbbb", alive.run], [])
    assert read_fields(f"{directories.state}/runs/0000aaaa")["reason"] == KILLED


def gate_there(directories: Directories, name: str, owner: str = "") -> str:
    """The directory of a gate that has ended."""
    directory = f"{directories.runtime}/g/{name}"
    os.makedirs(f"{directory}/r")
    for file, text in {"key": name + 52 * "0", **({"owner": owner} if owner else {})}.items():
        with open(f"{directory}/{file}", "w") as opened:
            opened.write(text)
    return directory


def test_all_means_gates_too_that_no_run_uses(directories: Directories) -> None:
    """With their images, which only they have; the one of a run that goes on stays."""
    used, idle = gate_there(directories, "a" * 12), gate_there(directories, "b" * 12)
    open_session(f"{used}/r", "0000aaaa", {}, "")
    containers = [
        {"Names": [f"aisb-gate-{name}"], "ImageID": f"id-{name[0]}", "Labels": {"aisb.role": "gate"}}
        for name in ("a" * 12, "b" * 12)
    ]
    images = [podman_image(image(name, 1, "gate", base=name)) for name in "ab"]
    everything = FakeRunner(said(containers), said([]), said(images))

    found = find_removals(Store("podman", everything, directories), Wish(everything=True))
    plain = find_removals(Store("podman", FakeRunner(said(containers), said([]), said(images)), directories), Wish())

    assert [(item.kind, item.name) for item in found] == [(GATE, "b" * 12), (IMAGE, "localhost/aisb-gate:b")]
    assert plain == []
    runner = FakeRunner(Finished(0))
    assert remove(Store("podman", runner, directories), found[0]) == ""
    assert runner.argvs == [("podman", "rm", "--force", "--time", "0", "--ignore", f"aisb-gate-{'b' * 12}")]
    assert (os.path.exists(idle), os.path.exists(used)) == (False, True)


def test_what_a_killed_run_left_in_a_gate_is_put_on_record_before_it_goes(directories: Directories) -> None:
    """With no other record forgotten for it, whatever somebody wants to keep."""
    left = gate_there(directories, "a" * 12)
    session = open_session(f"{left}/r", "0000aaaa", {}, "", {ABOUT: record_text(new_fields("0000aaaa", "/p"))})
    for path, text in (("owner", "1 1 another-boot"), (AUDIT, "{}\n")):
        with open(f"{session.path}/{path}", "w") as file:
            file.write(text)
    for number in range(Keep().runs + 1):
        os.makedirs(f"{directories.state}/runs/{number:08x}")
        os.utime(f"{directories.state}/runs/{number:08x}", (1000, 1000))

    assert remove(Store("podman", FakeRunner(Finished(0)), directories), Removal(GATE, "a" * 12, "")) == ""

    assert not os.path.exists(left)
    assert sorted(os.listdir(f"{directories.state}/runs/0000aaaa")) == [AUDIT, ABOUT]
    assert read_fields(f"{directories.state}/runs/0000aaaa")["reason"] == KILLED
    assert len(os.listdir(f"{directories.state}/runs")) == Keep().runs + 2


def test_a_gate_that_a_run_has_taken_meanwhile_or_is_about_to_use_stays(directories: Directories) -> None:
    taken, left = gate_there(directories, "a" * 12), gate_there(directories, "b" * 12)
    # Its owner is not written yet.
    os.mkdir(f"{left}/r/0000bbbb")
    lock = os.open(f"{taken}/lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)
    store = Store("podman", FakeRunner(), directories)

    stays = [remove(store, Removal(GATE, name * 12, "")) for name in "abc"]

    os.close(lock)
    assert stays == ["a run uses it", "a run is about to use it", ""]
    assert (os.path.exists(taken), os.path.exists(left)) == (True, True)


def test_what_was_remembered_of_it_goes_first_and_what_podman_keeps_is_said(directories: Directories) -> None:
    """A start would else take what it remembers for what is there."""
    stamp, note = f"{directories.state}/homes/aisb-home-x", f"{directories.cache}/built/aisb-sandbox-1"
    for path in (stamp, note):
        os.makedirs(os.path.dirname(path))
        open(path, "w").close()
    runner = FakeRunner(Finished(0), Finished(2, b"", b"noise\nError: volume aisb-home-x is being used\n"), Finished(1))
    store = Store("podman", runner, directories)

    removals = [Removal(IMAGE, "localhost/aisb-sandbox:1", "sandbox"), *[Removal(VOLUME, "aisb-home-x", "a home")] * 2]
    ended = [remove(store, removal) for removal in removals]

    assert ended == ["", "Error: volume aisb-home-x is being used", "podman exited 1"]
    assert [os.path.exists(path) for path in (stamp, note)] == [False, False]
