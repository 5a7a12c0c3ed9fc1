"""Bases that move, generations, records that are missing: against a real registry, with real builds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import HERE
from tests.e2e.sandbox import outside
from tests.e2e.test_images import NAMES, online

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.lab import Lab, Result

REFERENCE = "127.0.0.1:5000/aisb-test-base:1"
BEGIN = f"""
{NAMES} digest=$(podman image inspect $sandbox --format '{{{{index .Labels "aisb.base-digest"}}}}')
base=localhost/aisb-base:trixie-$(echo $digest | cut -c 8-19)
reference={REFERENCE}
place=$(mktemp -d -p $HOME) && cd $place && mkdir -p tools own/ai-sandbox || exit 3
cp -r ${{XDG_CACHE_HOME:-$HOME/.cache}}/ai-sandbox/downloads own/ai-sandbox/ && export XDG_CACHE_HOME=$place/own
export XDG_STATE_HOME=$place/state python=$(dirname $(command -v aisb))/python
label() {{ podman image inspect --format "{{{{index .Labels \\"aisb.$1\\"}}}}" $2; }}
record() {{ cat $place/own/ai-sandbox/base/*base-1-????????.json; }}
field() {{ python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' $1; }}
later() {{ $python $place/tools/later.py "$@"; }}
cat >tools/later.py <<'PROGRAM'
{outside("later")}
PROGRAM
cat >tools/move.py <<'PROGRAM'
{outside("move_tag")}
PROGRAM
"""
# What was built on the reference, and the bases that were fetched for it; not what they are made of.
END = """
for name in 127.0.0.1:5000/aisb-test-base:1 127.0.0.1:5001/aisb-test-base:1 aisb-test-base:1; do
    podman images --filter label=aisb.base-ref=$name --format '{{.Repository}}:{{.Tag}}' |
        xargs -r podman rmi -f >/dev/null
done
podman images --format '{{.Repository}}:{{.Tag}} {{.Repository}}@{{.Digest}}' | tr ' ' '\n' | grep '/aisb-test-base[:@]' |
    grep -v none | xargs -r podman rmi >/dev/null 2>&1
"""


def scene(lab: Lab, script: str, timeout: float = 250, **env: str) -> Result:
    """A script on the host, with the names above, a cache of its own and the laboratory's registry."""
    if lab.name == HERE:
        pytest.skip("here is no registry of the laboratory's")
    lab.registry()
    return lab.run(f"{BEGIN}\n{script}", env=env, timeout=timeout)


@pytest.fixture
def store(lab: Lab) -> Iterator[None]:
    """podman's store without what a test has made in it."""
    yield
    lab.run(END)


BELIEVED = """
podman push -q $base $reference && aisb build -q --base-image $reference >first || exit 3
record | field time >t0
aisb -q --base-image $reference --no-cwd --net none -- true; echo "young: $?"
record | field time | cmp - t0 && echo "the record is as it was"
later 8 --base-image $reference --no-cwd --net none -- true 2>said; echo "old: $?"; grep -c "looking up $reference" said
record | field time >t1; [ "$(cat t1)" ">" "$(cat t0)" ] && echo "believed from then on"
python3 tools/move.py || exit 4
before=$(record | field digest)
later 16 --base-image $reference --no-cwd --net none -- true 2>said; echo "moved: $?"
grep -o "$reference has moved from $(echo $before | cut -c 1-19) to sha256:" said
[ $(record | field digest) != $before ] && echo "another digest"
aisb build -q --base-image $reference >second
cmp -s first second || echo "other images"
for image in $(cat first); do podman image exists $image && echo "the old one is there"; done
[ $(label base-digest $(head -n 1 second)) = $(record | field digest) ] && echo "on that digest"
"""


@pytest.mark.usefixtures("store")
def test_a_tag_is_believed_for_a_week_and_then_looked_up_again(lab: Lab) -> None:
    """With the clock as somebody else's: a young record asks nobody, an old one does, and what has moved is built."""
    result = scene(lab, BELIEVED)

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
podman push -q $base 127.0.0.1:5000/library/aisb-test-base:1 || exit 3
AISB_REGISTRY_MIRROR=127.0.0.1:5000 aisb build -q --base-image aisb-test-base:1 >names; echo $?
record | field source | cut -d @ -f 1
aisb build --base-image aisb-test-base:1 | cmp - names && echo "the same without it"
AISB_REGISTRY_MIRROR=https://127.0.0.1:5000/ aisb build --base-image aisb-test-base:1; echo $?
"""


@pytest.mark.usefixtures("store")
def test_a_mirror_stands_in_for_docker_io(lab: Lab) -> None:
    """What it hands out is built on under the name that it has everywhere."""
    result = scene(lab, MIRRORED)

    assert result.text.splitlines() == ["0", "docker.io/library/aisb-test-base", "the same without it", "2"], (
        result.errors
    )


UNPINNED = """
podman tag $base $reference && skopeo delete docker://$reference 2>/dev/null
aisb build --base-image $reference 2>said >names; echo $?
grep -c "^aisb: $reference could not be looked up: .*UNPINNED$" said
for image in $(cat names); do label base-digest $image; done
record | field unpinned
aisb --base-image $reference --no-cwd --net none -- true 2>&1 | grep -c "note: $reference is UNPINNED: "
podman push -q $base $reference
later 1 --base-image $reference --no-cwd --net none -- true 2>/dev/null; echo $?
record | field unpinned
label base-digest $(aisb build -q --base-image $reference | head -n 1) | grep -c ^sha256:
"""


@pytest.mark.usefixtures("store")
def test_what_no_registry_has_confirmed_is_unpinned(lab: Lab) -> None:
    """Said, labelled, and on record as such, until one says what the tag stands for."""
    result = scene(lab, UNPINNED)

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
aisb build --refresh-base --base-image $reference >out 2>said; refreshed=$?
aisb update --base-image $reference >>out 2>>said; updated=$?
cmp -s out /dev/null && record | cmp -s - kept; same=$?
$python tools/later.py 8 --base-image $reference --no-cwd --net none -- true >out 2>ran; ran=$?
sed -i 's/"tried": ".*"/"tried": ""/' own/ai-sandbox/base/*base-1-????????.json
printf '%s|%s|%s|%s|%s|%s|%s\n' $FAULT $refreshed $updated $same $ran "$(told said)" "$(told ran)"
"""
TROUBLE = """
podman push -q $base $reference || exit 3
mkdir i && echo x >i/x && tar -C i -c . | podman import -q - localhost/aisb-test-moved:1 >/dev/null || exit 3
podman push -q localhost/aisb-test-moved:1 127.0.0.1:5000/aisb-test-base:moved && podman rmi localhost/aisb-test-moved:1 >/dev/null
printf '[[registry]]\\nlocation = "127.0.0.1:5001"\\ninsecure = true\\n' >~/.config/containers/registries.conf.d/5001.conf
export reference=127.0.0.1:5001/aisb-test-base:1
PORT=5001 FAULTS=none SCRIPT='aisb build -q --base-image $reference >/dev/null' python3 broken.py || exit 4
cp own/ai-sandbox/base/*base-1-????????.json kept
PORT=5001 SCRIPT="$PRELUDE$EACH" python3 broken.py
"""
PRELUDE = """
record() { cat own/ai-sandbox/base/*base-1-????????.json; }
told() { grep 'aisb: .*aisb-test-base' $1 | grep -v ' s$\\|on that first$' | head -n 1; }
"""


@pytest.mark.usefixtures("store")
def test_a_registry_in_trouble_keeps_nobody_from_running(lab: Lab) -> None:
    """(C53) A row a fault: 69 and the record as it was where something was to be built; a run goes on, and says why."""
    script = f"cat >broken.py <<'PROGRAM'\n{outside('broken_registry')}\nPROGRAM\n{TROUBLE}"
    result = scene(lab, script, FAULTS=" ".join(FAULTS), EACH=EACH, PRELUDE=PRELUDE)

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
        "cd; echo 'RUN true' >mine; aisb build --why --install cowsay --customize mine | sed 's/:[0-9a-f]\\{16\\}/:TAG/g'\n"
        "podman images -q | sort | cmp - before; echo $sandbox $gate"
    )

    *lines, names = result.text.splitlines()
    sandbox, gate = names.split()
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


def test_a_part_of_a_containerfile_goes_in_and_none_of_a_projects(lab: Lab) -> None:
    """Applied as root before the user's account; every layer before it is the one that is there."""
    result = lab.run(
        "mkdir -p ~/.config/ai-sandbox d/.ai-sandbox\n"
        "printf 'RUN id -u >/etc/mine && \\\\\\n    id -un 1000 >>/etc/mine || true\\nUSER 7\\n' >~/.config/ai-sandbox/Containerfile\n"
        "aisb -q --net none -- cat /etc/mine; echo $?\n"
        "aisb build --why | head -n 1 | grep -c 'is there'; podman rmi -f $(aisb build -q | head -n 1) >/dev/null\n"
        "rm ~/.config/ai-sandbox/Containerfile; echo 'RUN true' >Containerfile\n"
        "aisb -q --net none --customize Containerfile -- true; echo $?\n"
        "echo 'customize: /etc/hostname' >d/.ai-sandbox/config.yaml; aisb -q --project d --net none -- true; echo $?\n"
        "for text in 'FROM x:1' 'ENV A=1' 'RUN true\\'; do echo \"$text\" >~/f; aisb build --customize ~/f; echo $?; done",
        timeout=200,
    )

    assert result.text.split() == ["0", "0", "1", "78", "78", "2", "2", "2"], result.errors


LOADED = """
podman save -q -m -o $HOME/both.tar $sandbox $gate || exit 3
mkdir -p $HOME/empty $HOME/run
printf '[storage]\\ndriver = "overlay"\\ngraphroot = "%s"\\nrunroot = "%s"\\n' $HOME/empty $HOME/run >~/.config/containers/storage.conf
export XDG_CACHE_HOME=$HOME/other AISB_PULL=never
podman images -q | wc -l
aisb -q --net none -- true; echo $?
podman load -q -i $HOME/both.tar >/dev/null; rm $HOME/both.tar
aisb --net none -- sh -c 'echo ran' 2>said; echo $?; grep -c 'is there without a record' said
aisb -q --allow allowed.test -- curl -s -o /dev/null -w '%{http_code}\\n' http://allowed.test/
AISB_PULL= aisb build --pull=never | sort | cmp - names && echo "the same names"
for gate in $(podman ps -aq); do podman rm -f -t 0 $gate >/dev/null; done
podman unshare rm -rf $HOME/empty $HOME/run
"""


def test_images_are_carried_to_a_machine_without_a_network(lab: Lab) -> None:
    """The recipe of docs/images.md on a store without images and a cache without records."""
    result = lab.run(f"{NAMES} printf '%s\\n' $sandbox $gate | sort >names\n{LOADED}", timeout=250)

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


UPDATED = """
podman push -q $base $reference && aisb build -q --base-image $reference >first || exit 3
aisb update --check --json --base-image $reference >looked 2>/dev/null
python3 -c 'import json; print(*(name + " " + found["state"] for name, found in json.load(open("looked")).items()))'
printf 'FROM %s\\nLABEL moved=1\\n' $base | podman build -q -t $reference -f - . >/dev/null && podman push -q $reference || exit 4
podman rmi $reference >/dev/null
aisb update --check --base-image $reference 2>/dev/null >looked; echo $?; grep -o '^base *newer' looked
mkdir d
aisb -q --project d --base-image $reference --net none -- sh -c 'touch began; until [ -e go ]; do sleep 0.1; done; echo went on' >ran &
run=$!; until [ -e d/began ]; do kill -0 $run || exit 5; sleep 0.1; done
aisb update --base-image $reference >updated 2>said; echo $?
touch d/go; wait $run; echo $?; cat ran
grep -c "^generation $(date -u +%F) (was 0)$" updated
aisb build -q --base-image $reference >second; cmp -s first second || echo "other images"
[ $(label base-digest $(head -n 1 second)) = $(skopeo inspect --format '{{.Digest}}' docker://$reference) ] && echo "on the new base"
label generation $(head -n 1 second) | grep -cx $(date -u +%F)
aisb -q --no-cwd --base-image $reference --net none -- true; echo $?
aisb update --rollback --base-image $reference >/dev/null; aisb build -q --base-image $reference | cmp - first && echo "back"
later 30 -q --base-image $reference --no-cwd --net none -- true; aisb build -q --base-image $reference | cmp - first && echo "to stay"
aisb update --rollback --base-image $reference >/dev/null; aisb build -q --base-image $reference | cmp - second && echo "forth"
"""


@pytest.mark.timeout(1500)
def test_an_update_is_built_beside_what_runs_and_can_be_taken_back(lab: Lab) -> None:
    """Where packages can be fetched: the tag moves, the check says so, and a run goes on in the old image meanwhile."""
    if lab.name == HERE:
        pytest.skip("here is no registry of the laboratory's")
    with lab.registry_outside():
        result = online(lab, f"{BEGIN}\n{UPDATED}\n{END}\nrm -rf $place", timeout=1400)

    assert result.text.splitlines() == [
        result.text.partition("\n")[0],
        "10",
        "base      newer",
        "0",
        "0",
        "went on",
        "1",
        "other images",
        "on the new base",
        "1",
        "0",
        "back",
        "to stay",
        "forth",
    ], result.errors
    states = dict(zip(*[iter(result.text.partition("\n")[0].split())] * 2, strict=True))
    assert states["base"] == "current"
    assert set(states) == {"base", "packages", "node", "harness", "squid"}
    assert {states["packages"], states["squid"]} <= {"current", "newer"}
