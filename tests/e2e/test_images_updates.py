"""Bases that move, generations, records that are missing: against a real registry, with real builds of small images."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from aisb.domain.harnesses import PI_PACKAGE, PI_VERSION
from aisb.domain.images import NODE_VERSION
from tests.e2e.conftest import NAMES as HOSTS
from tests.e2e.sandbox import outside
from tests.e2e.small import ASKED_FOR, REFERENCE, World, end_small_worlds, small_world
from tests.e2e.test_images import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.lab import Lab


@pytest.fixture(scope="module", autouse=True)
def _ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    end_small_worlds(str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def world(lab: Lab) -> Iterator[World]:
    """Small images to be built, on this host."""
    with small_world(lab) as made:
        yield made


PINNED = """
aisb build -q >names || exit 3
record | field source; record | field digest
skopeo inspect --format '{{.Digest}}' docker://$reference
for image in $(cat names); do label base-digest $image; done
"""


def test_a_base_of_a_registry_is_pinned_by_digest(world: World) -> None:
    """Looked up by skopeo, fetched and built on by digest."""
    result = world.run(PINNED)

    source, *digests = result.text.split()
    assert (source, digests) == (f"{REFERENCE.rpartition(':')[0]}@{digests[0]}", [digests[0]] * 4), result.errors


ADDED = ASKED_FOR[0]
AT_ONCE = f"""
aisb build -q >plain && rm -rf state || exit 3
aisb build --install {ADDED} >one 2>one.err & aisb build --install {ADDED} >two 2>two.err & wait
cmp one two && grep -l 'waiting for another build of the sandbox image' one.err two.err | wc -l
ls state/ai-sandbox/builds | wc -l; sed -n 's/^aisb-step: //p' state/ai-sandbox/builds/*
podman run --rm --network none --entrypoint /usr/bin/dpkg-query $(head -n 1 one) -W -f '${{Status}}\\n' {ADDED}
podman rmi -f $(head -n 1 one) >/dev/null
"""


def test_two_builds_of_one_image_do_the_work_once(world: World) -> None:
    """The second waits for the first; packages beyond the usual reuse every layer before them."""
    result = world.run(AT_ONCE, timeout=280)

    assert result.text.splitlines() == [
        "1",
        "1",
        f"packages asked for by --install: {ADDED}",
        "the user",
        "checking what is in it",
        "install ok installed",
    ], result.errors


KILLED = """
aisb build -q >plain || exit 3
look() { podman images -q; podman ps -aq --external; }
look >before
aisb build --install $PACKAGE >/dev/null 2>&1 & build=$!
until pgrep -u $(id -u) -f "[e]xtra $PACKAGE" >/dev/null; do kill -0 $build || exit 4; sleep 0.05; done
kill -9 $build; wait $build; echo "killed: $?"
while pgrep -u $(id -u) -f "[e]xtra $PACKAGE" >/dev/null; do sleep 0.05; done
while pgrep -u $(id -u) -f "[b]uild.*$XDG_CACHE_HOME/ai-sandbox/contexts" >/dev/null; do sleep 0.05; done
look | diff before - && echo "nothing new"
sandbox=$(aisb build -q --install $PACKAGE | head -n 1)
podman run --rm --network none --entrypoint /usr/bin/dpkg-query $sandbox -W -f '${Status}\\n' $PACKAGE
podman rmi -f $sandbox >/dev/null
"""


def test_a_killed_build_leaves_no_half_image_and_stops_no_other(world: World) -> None:
    """What ran in it ends by itself; the next build of the same image is a whole one. (C53)"""
    # The hosts share one table of processes.
    package = ASKED_FOR[1 + HOSTS.index(world.lab.name)]

    result = world.run(KILLED, PACKAGE=package, timeout=280)

    assert result.text.splitlines() == ["killed: 137", "nothing new", "install ok installed"], result.errors


BELIEVED = """
aisb build -q >first || exit 3
record | field time >t0
aisb -q --no-cwd --net none -- true; echo "young: $?"
record | field time | cmp - t0 && echo "the record is as it was"
later 8 --no-cwd --net none -- true 2>said; echo "old: $?"; grep -c "looking up $reference" said
record | field time >t1; [ "$(cat t1)" ">" "$(cat t0)" ] && echo "believed from then on"
python3 move.py || exit 4
before=$(record | field digest)
later 16 --no-cwd --net none -- true 2>said; echo "moved: $?"
grep -o "$reference has moved from $(echo $before | cut -c 1-19) to sha256:" said
[ $(record | field digest) != $before ] && echo "another digest"
aisb build -q >second; cmp -s first second || echo "other images"
for image in $(cat first); do podman image exists $image && echo "the old one is there"; done
[ $(label base-digest $(head -n 1 second)) = $(record | field digest) ] && echo "on that digest"
podman rmi -f $(cat second) >/dev/null
"""


# Nothing of this depends on the host's podman: one host will do.
@pytest.mark.parametrize("lab", HOSTS[-1:], indirect=True)
def test_a_tag_is_believed_for_a_week_and_then_looked_up_again(world: World) -> None:
    """With the clock as somebody else's: a young record asks nobody, an old one does, and what has moved is built."""
    result = world.run(BELIEVED)

    assert result.text.splitlines() == [
        "young: 0",
        "the record is as it was",
        "old: 0",
        "1",
        "believed from then on",
        "moved: 0",
        f"{REFERENCE} has moved from sha256:{result.text.partition('from sha256:')[2][:12]} to sha256:",
        "another digest",
        "other images",
        "the old one is there",
        "the old one is there",
        "on that digest",
    ], result.errors


MIRRORED = """
skopeo copy -q docker://$reference docker://127.0.0.1:5000/library/aisb-test-base:1 || exit 3
export AISB_BASE_IMAGE=aisb-test-base:1
AISB_REGISTRY_MIRROR=127.0.0.1:5000 aisb build -q >names; echo $?
record | field source | cut -d @ -f 1
aisb build | cmp - names && echo "the same without it"
AISB_REGISTRY_MIRROR=https://127.0.0.1:5000/ aisb build; echo $?
"""


def test_a_mirror_stands_in_for_docker_io(world: World) -> None:
    """What it hands out is built on under the name that it has everywhere."""
    result = world.run(MIRRORED)

    assert result.text.splitlines() == ["0", "docker.io/library/aisb-test-base", "the same without it", "2"], (
        result.errors
    )


UNPINNED = """
confirmed=$reference reference=${reference%1}$(date +%s)
export AISB_BASE_IMAGE=$reference
podman pull -q $confirmed >/dev/null && podman tag $confirmed $reference || exit 3
aisb build 2>said >names; echo $?
grep -c "^aisb: $reference could not be looked up: .*UNPINNED$" said
for image in $(cat names); do label base-digest $image; done
record | field unpinned
aisb --no-cwd --net none -- true 2>&1 | grep -c "note: $reference is UNPINNED: "
skopeo copy -q docker://$confirmed docker://$reference
later 1 --no-cwd --net none -- true 2>/dev/null; echo $?
record | field unpinned
label base-digest $(aisb build -q | head -n 1) | grep -c ^sha256:
"""


# Nothing of this depends on the host's podman: one host will do.
@pytest.mark.parametrize("lab", HOSTS[-1:], indirect=True)
def test_what_no_registry_has_confirmed_is_unpinned(world: World) -> None:
    """Said, labelled, and on record as such, until one says what the tag stands for."""
    result = world.run(UNPINNED)

    assert result.text.splitlines() == ["0", "1", "UNPINNED", "UNPINNED", "True", "1", "0", "False", "1"], result.errors


# The words are the registry client's, which differ from one to the next.
FAULTS = {
    "401": "authentication required|unauthorized|401",
    "404": "manifest unknown|not found|404",
    "429": "toomanyrequests|too many requests|429",
    "503": "503",
    "elsewhere": "is not offered for linux/",
    "garbage": "is not a manifest",
    "truncated": "could not be fetched",
    "down": "connection refused",
}
EACH = """
aisb build --refresh-base >out 2>said; refreshed=$?
aisb update >>out 2>>said; updated=$?
cmp -s out /dev/null && record | cmp -s - kept; same=$?
: >waits; $python later.py 8 --no-cwd --net none -- true >out 2>ran; ran=$?; rm waits
sed -i 's/"tried": ".*"/"tried": ""/' own/ai-sandbox/base/*-????????.json
printf '%s|%s|%s|%s|%s|%s|%s\n' $FAULT $refreshed $updated $same $ran "$(told said)" "$(told ran)"
"""
TROUBLE = """
mkdir i && echo x >i/x && tar -C i -c . | podman import -q - localhost/aisb-test-moved:1 >/dev/null || exit 3
podman push -q localhost/aisb-test-moved:1 127.0.0.1:5000/aisb-test-base:moved && podman rmi localhost/aisb-test-moved:1 >/dev/null
printf '[[registry]]\\nlocation = "127.0.0.1:5001"\\ninsecure = true\\n' >~/.config/containers/registries.conf.d/5001.conf
export python AISB_BASE_IMAGE=127.0.0.1:5001/aisb-test-base:1
PORT=5001 FAULTS=none SCRIPT='aisb build -q >/dev/null' python3 broken.py || exit 4
record >kept
PORT=5001 SCRIPT="$PRELUDE$EACH" python3 broken.py
"""
PRELUDE = """
record() { cat own/ai-sandbox/base/*-????????.json; }
told() { grep 'aisb: .*aisb-test-base' $1 | grep -v ' s$\\|on that first$' | head -n 1; }
"""


# Nothing of this depends on the host's podman: one host will do.
@pytest.mark.parametrize("lab", HOSTS[-1:], indirect=True)
def test_a_registry_in_trouble_keeps_nobody_from_running(world: World) -> None:
    """(C53) A row a fault: 69 and the record as it was where something was to be built; a run goes on, and says why."""
    script = f"cat >broken.py <<'PROGRAM'\n{outside('broken_registry')}\nPROGRAM\n{TROUBLE}"
    result = world.run(script, FAULTS=" ".join(FAULTS), EACH=EACH, PRELUDE=PRELUDE)

    rows = [line.split("|") for line in result.text.splitlines()]
    assert [row[:5] for row in rows] == [[fault, "69", "69", "0", "0"] for fault in FAULTS], result.errors
    told = [f"{fault}: {text}" for fault, *_, built, ran in rows for text in (built, ran.removeprefix("aisb: note: "))]
    wanted = [rf"{fault}: .*({words}).*" for fault, words in FAULTS.items() for _ in range(2)]
    assert [
        line for line, words in zip(told, wanted, strict=True) if not re.fullmatch(words, line, re.IGNORECASE)
    ] == []


def test_why_says_what_differs_and_builds_nothing(lab: Lab) -> None:
    """From wherever it is asked: the tag knows no directory."""
    result = lab.run(
        f"{NAMES} podman images -q | sort >before\n"
        "aisb build --why; cd / && aisb build --why | sed 's/:[0-9a-f]\\{16\\}/:TAG/'\n"
        "cd; echo 'RUN true' >mine; aisb build --why --install cowsay --customize mine | sed 's/:[0-9a-f]\\{16\\}/:TAG/g'"
        # Other tests may have given the same image a name of theirs.
        " | sed 's,localhost/aisb-test-[a-z-]*:,localhost/aisb-sandbox:,'\n"
        "podman images -q | sort | cmp - project/before; echo $? $sandbox $gate"
    )

    *lines, names = result.text.splitlines()
    same, sandbox, gate = names.split()
    assert same == "0", result.errors
    there = "is there, and nothing is to be built"
    assert lines == [
        f"sandbox: {sandbox} {there}",
        f"gate: {gate} {there}",
        f"sandbox: localhost/aisb-sandbox:TAG {there}",
        f"gate: localhost/aisb-gate:TAG {there}",
        "sandbox: localhost/aisb-sandbox:TAG is not there; localhost/aisb-sandbox:TAG differs:",
        "  your own part of the Containerfile is another",
        "  install: + cowsay",
        f"gate: localhost/aisb-gate:TAG {there}",
    ], result.errors


FRAGMENT = r"""
aisb build -q >plain && rm -rf state || exit 3
mkdir -p ~/.config/ai-sandbox d/.ai-sandbox && cd d
printf 'RUN id -u >/etc/mine && \\\n    id -un 1000 >>/etc/mine || true\nUSER 7\n' >~/.config/ai-sandbox/Containerfile
aisb -q --net none -- cat /etc/mine; echo $?
cat ../state/ai-sandbox/builds/* | grep -c '^aisb-step: agent '
cmp ../state/ai-sandbox/builds/*-aisb-sandbox-* ../state/ai-sandbox/runs/*/build-sandbox.log; echo $?
rm ~/.config/ai-sandbox/Containerfile; echo 'RUN true' >Containerfile
aisb -q --net none --customize Containerfile -- true; echo $?
echo 'customize: /etc/hostname' >.ai-sandbox/config.yaml; aisb -q --net none -- true; echo $?
for text in 'FROM x:1' 'ENV A=1' 'RUN true\'; do echo "$text" >~/f; aisb build --customize ~/f; echo $?; done
"""


def test_a_part_of_a_containerfile_goes_in_and_none_of_a_projects(world: World) -> None:
    """
    Applied as root, where a user 1000 of the base is there still; every layer before it is the one that is there. The log of the
    build is in the record of the run that it was for.
    """
    result = world.run(FRAGMENT)

    assert result.text.split() == ["0", "ubuntu", "0", "0", "0", "78", "78", "2", "2", "2"], result.errors


LOADED = """
aisb build -q >names || exit 3
podman save -q -m -o both.tar $(cat names) || exit 3
mkdir -p $HOME/empty $HOME/run
printf '[storage]\\ndriver = "overlay"\\ngraphroot = "%s"\\nrunroot = "%s"\\n' $HOME/empty $HOME/run >~/.config/containers/storage.conf
export XDG_CACHE_HOME=$HOME/other AISB_PULL=never
podman images -q | wc -l
aisb -q --no-cwd --net none -- true; echo $?
podman load -q -i both.tar >/dev/null
aisb --no-cwd --net none -- sh -c 'echo ran' 2>said; echo $?; grep -c 'is there without a record' said
aisb -q --no-cwd --allow allowed.test -- python3 -c 'import urllib.request as r; print(r.urlopen("http://allowed.test/").status)'
AISB_PULL= aisb build --pull=never | cmp - names && echo "the same names"
for gate in $(podman ps -aq); do podman rm -f -t 0 $gate >/dev/null; done
podman unshare rm -rf $HOME/empty $HOME/run
"""


def test_images_are_carried_to_a_machine_without_a_network(world: World) -> None:
    """The recipe of docs/images.md on a store without images and a cache without records."""
    result = world.run(LOADED)

    assert result.text.splitlines() == ["0", "69", "ran", "0", "1", "200", "the same names"], result.errors


def test_inspect_shows_what_the_images_are(lab: Lab) -> None:
    """Both as one object; with every package where that is asked for."""
    result = lab.run("aisb inspect --packages; aisb build -q")
    document, position = json.JSONDecoder().raw_decode(result.text)

    assert [document[role]["name"] for role in ("sandbox", "gate")] == result.text[position:].split()
    assert document["sandbox"]["labels"]["aisb.role"] == "sandbox"
    assert document["gate"]["inputs"]["role"] == "gate"
    assert document["record"]["reference"] == "bootstrap:trixie"
    kinds = {package["kind"] for package in document["sandbox"]["packages"]}
    assert (kinds, "squid-openssl" in {package["name"] for package in document["gate"]["packages"]}) == (
        {"deb", "node", "npm"},
        True,
    )


ONE_IMAGE = """
aisb inspect $(aisb build -q | tail -n 1)
tar cf - /etc/hostname 2>/dev/null | podman import --quiet - localhost/theirs:1 >/dev/null 2>&1
for image in localhost/theirs:1 localhost/none:1 --all/x:1 'a/b:1;id'; do aisb inspect -- "$image" 2>&1; echo $?; done
podman rmi localhost/theirs:1 >/dev/null
"""


def test_inspect_shows_one_image_of_ours_and_no_other(lab: Lab) -> None:
    """By its name, which gets to podman as no flag."""
    result = lab.run(ONE_IMAGE)
    document, position = json.JSONDecoder().raw_decode(result.text)

    assert (document["image"]["inputs"]["role"], "packages" in document["image"]) == ("gate", False)
    lines = result.text[position:].split("\n")
    refused = [line for line in lines if line.startswith("aisb: ") and line.endswith(" is no image of aisb's")]
    assert (len(refused), [line for line in lines if line.isdigit()]) == (4, 4 * ["2"]), result.text


CURRENT = """
aisb build -q >first || exit 3
aisb update --check --json 2>/dev/null; echo $?
"""
UPDATED = """
hide() { sed -E 's/[0-9]{4}(-[0-9]{2}){2}/DATE/; s/[0-9a-f]{16,}/HEX/; s/[0-9a-f]{12} /HEX /'; }
aisb update --check 2>/dev/null >looked; echo $?; hide <looked
mkdir d && cd d
aisb -q --net none -- sh -c 'touch began; until [ -e go ]; do sleep 0.1; done; pi --version' >../ran &
run=$!; until [ -e began ]; do kill -0 $run || exit 5; sleep 0.1; done
cd ..; aisb update >updated 2>said; echo $?
touch d/go; wait $run; echo $? $(cat ran)
hide <updated
aisb build -q >second; for image in $(head -n 1 first) $(head -n 1 second); do label base-digest $image; done | uniq | wc -l
label generation $(head -n 1 second) | hide
aisb -q --no-cwd --net none -- pi --version
aisb update --rollback >/dev/null; aisb build -q | cmp - first && echo "back"
later 30 -q --no-cwd --net none -- true; aisb build -q | cmp - first && echo "to stay"
aisb update --rollback >/dev/null; aisb build -q | cmp - second && echo "forth"
podman rmi -f $(cat second) >/dev/null
"""


@pytest.mark.timeout(600)
def test_an_update_is_built_beside_what_runs_and_can_be_taken_back(world: World) -> None:
    """What is newer arrives though the base has not moved, and a run goes on in the old image meanwhile."""
    result = world.run(CURRENT)
    assert result.code == 0, result.errors
    found, position = json.JSONDecoder().raw_decode(result.text)
    assert {name: item["state"] for name, item in found["found"].items()} == dict.fromkeys(
        ("base", "packages", "node", "harness", "squid"), "current"
    ), result.errors
    assert result.text[position:].strip() == "0"

    world.offers("jq", "squid-openssl", agent="1.99.0")
    result = world.run(UPDATED, goes_on=True)

    assert result.text.splitlines() == [
        "10",
        "base      current  sha256:HEX",
        "packages  newer    generation 0: jq 9:1 -> 9:2",
        f"node      current  {NODE_VERSION}",
        f"harness   newer    {PI_VERSION} -> 1.99.0",
        "squid     newer    9:1 -> 9:2",
        "0",
        f"0 {PI_VERSION}",
        "generation DATE (was 0)",
        f"base {REFERENCE} sha256:HEX (unchanged)",
        "sandbox localhost/aisb-sandbox:HEX",
        "  jq 9:1 -> 9:2",
        f"  npm:{PI_PACKAGE} {PI_VERSION} -> 1.99.0",
        "gate localhost/aisb-gate:HEX",
        "  squid-openssl 9:1 -> 9:2",
        "to go back: aisb update --rollback",
        "1",
        "DATE",
        "1.99.0",
        "back",
        "to stay",
        "forth",
    ], result.errors
