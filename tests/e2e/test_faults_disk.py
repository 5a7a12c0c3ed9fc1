"""A disk without room: the reason is said, nothing half-written is used, and with room again all is as before. (C51)"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.lab import Lab

# Two small file systems: one for state, cache and project, one in the place of aisb's own runtime directory.
SMALL = """
for place in /tmp/aisb-small "/run/user/$(id -u aisb-lab)/aisb"; do
    mkdir -p "$place"
    mount -t tmpfs -o "size=8m,mode=0700,uid=$(id -u aisb-lab),gid=$(id -g aisb-lab)" none "$place"
done
"""
NO_MORE = 'umount /tmp/aisb-small "/run/user/$(id -u aisb-lab)/aisb"; rmdir /tmp/aisb-small'
FILL = 'fill() { head -c 100m /dev/zero >"$1/filling" 2>/dev/null; }; runtime=$XDG_RUNTIME_DIR/aisb; small=/tmp/aisb-small\n'


@contextmanager
def small(lab: Lab) -> Iterator[None]:
    """The host with two file systems of 8 MB."""
    lab.as_root(SMALL)
    try:
        yield
    finally:
        lab.as_root(NO_MORE)


EACH = """
mkdir -p $small/state $small/project $small/cache/ai-sandbox
ln -s "$XDG_CACHE_HOME"/ai-sandbox/* $small/cache/ai-sandbox; rm $small/cache/ai-sandbox/plans
try() {
    echo "-- $1"; shift
    "$@" 2>~/words; echo "$?"; sed 's/^/  /' ~/words
}
run() { aisb -q --net none --env TOKEN -- sh -c 'echo "ran $TOKEN"'; }
export TOKEN=t0ken
cd $small/project
fill $runtime; try runtime run; rm $runtime/filling; try again run
for place in STATE CACHE; do
    fill $small
    (export "XDG_${place}_HOME=$small/$(echo $place | tr A-Z a-z)"; try $place run; rm $small/filling; try again run)
done
export XDG_STATE_HOME=$small/state
try meanwhile aisb -q --allow allowed.test,cdn.test:8443 -- sh -c '
    curl -sS https://evil.test/; head -c 100m /dev/zero >filling 2>/dev/null; echo "full $?"; echo x >.envrc; exit 3'
try full run
rm filling; try again run; ls -A
podman ps -aq --filter label=aisb.role=sandbox
# Nobody finds this one again, once its directory is gone from there.
for gate in $(ls $runtime/g); do podman rm --force --time 0 "aisb-gate-$gate" >/dev/null; done
find $runtime $small -name '.new*' -o -path '*/r/*'
"""


RAN, NO_ROOM = (
    "ran t0ken\n0\n",
    "aisb: a file could not be written: No space left on device\n  aisb:   make room, and run it again: df -h ",
)


def test_a_full_disk_is_said_and_costs_nothing_that_lasts(lab: Lab) -> None:
    """
    In aisb's runtime directory, its state or its cache nothing runs, and the next run does once there is room: no name
    is taken, and nothing half-written is read. Filled while a command runs, it costs the record. (C51, A58)
    """
    with small(lab):
        result = lab.run(FILL + EACH)

    _, *parts = result.text.split("-- ")
    told = [tuple(part.split("\n", 1)) for part in parts]
    places = ["/run/user/UID/aisb", *(f"/tmp/aisb-small/{name}/ai-sandbox" for name in ("state", "cache"))]
    refused = [f"69\n  {NO_ROOM}{place}\n" for place in places]
    name, meanwhile = told[6]
    assert [(key, re.sub(r"/run/user/\d+", "/run/user/UID", text)) for key, text in told[:6]] == [
        ("runtime", refused[0]), ("again", RAN), ("STATE", refused[1]), ("again", RAN), ("CACHE", refused[2]), ("again", RAN),
    ]  # fmt: skip
    assert (name, meanwhile.splitlines()[:2]) == ("meanwhile", ["full 1", "3"])
    assert re.search(r"warning: the record of run [0-9a-f]{8} is lost: .*No space left on device", meanwhile)
    # A run without a gate has a record to lose as well.
    (_, full), again = told[7:]
    assert full.startswith(f"{RAN}  aisb: warning: the record of run ")
    assert again == ("again", RAN + ".envrc\n")


# A store of podman's own on a small file system, with the images of the other one.
STORE = """
mkdir /tmp/aisb-store
mount -t tmpfs -o "size=64m,mode=0700,uid=$(id -u aisb-lab),gid=$(id -g aisb-lab)" none /tmp/aisb-store
"""
NO_STORE = "umount /tmp/aisb-store; rmdir /tmp/aisb-store"
FULL_STORE = """
conf=~/.config/containers/storage.conf; other=$(sed -n 's/^graphroot = //p' $conf)
printf '[storage]\ndriver = "overlay"\ngraphroot = "/tmp/aisb-store/graph"\nrunroot = "/tmp/aisb-store/run"\n' >$conf
printf '[storage.options]\nadditionalimagestores = [%s]\n' "$other" >>$conf
try() { aisb -q --net none -- echo ran; echo $?; aisb -q --allow cdn.test:9443 -- echo ran; echo $?; }
try
for gate in $(podman ps -aq); do podman rm --force --time 0 $gate >/dev/null; done
head -c 100m /dev/zero >/tmp/aisb-store/filling 2>/dev/null
try
rm /tmp/aisb-store/filling
podman ps -aq; podman volume ls -q | grep -v ^aisb-home-
try
for gate in $(podman ps -aq); do podman rm --force --time 0 $gate >/dev/null; done
podman unshare sh -c 'umount /tmp/aisb-store/graph/overlay; rm -r /tmp/aisb-store/graph /tmp/aisb-store/run'
"""


def test_a_store_of_podmans_that_is_full_is_said_in_podmans_words(lab: Lab) -> None:
    """Neither sandbox nor gate is made, nothing is left of them, and both are there once there is room. (C51)"""
    lab.as_root(STORE)
    try:
        result = lab.run(FULL_STORE)
    finally:
        lab.as_root(NO_STORE)

    assert result.text.split() == ["ran", "0", "ran", "0", "69", "69", "ran", "0", "ran", "0"], result.errors
    told = [line for line in result.errors.splitlines() if "Error: creating container storage: " in line]
    assert [line.endswith("no space left on device") for line in told] == [True, True], result.errors
    assert "aisb: podman could not start the sandbox (it exited 125)" in result.errors
