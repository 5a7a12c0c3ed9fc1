"""Builds in trouble: a registry that fails, an archive that is not what it should be, a build that is killed. (C53)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.images import NODE_VERSION
from tests.e2e.sandbox import outside
from tests.e2e.test_images import OWN_CACHE, online

if TYPE_CHECKING:
    from tests.e2e.lab import Lab, Result

ARCHIVE = f"node-v{NODE_VERSION}-linux-x64.tar.xz"


def with_server(lab: Lab, script: str, **env: str) -> Result:
    """Run a script beside a web server on the host, whose address stands for `{address}` in it."""
    return lab.run("python3 -", stdin=outside("mirror").encode(), env={"SCRIPT": script} | env)


def test_a_registry_in_trouble_is_named_and_nothing_is_kept(lab: Lab) -> None:
    """69, its own answer in one line, and no record that a later build would believe."""
    script = """
    mkdir -p ~/.config/containers
    printf '[[registry]]\\nlocation = "{address}"\\ninsecure = true\\n' >~/.config/containers/registries.conf
    export XDG_CACHE_HOME=$HOME/own
    aisb build --base-image {address}/base:1; echo $?; ls own/ai-sandbox/base
    """

    result = with_server(lab, script, STATUS="503")

    assert result.text == "69\n"
    (line,) = [line for line in result.errors.splitlines() if "could not be looked up" in line]
    assert "503" in line


def test_an_archive_with_a_wrong_checksum_stops_the_build(lab: Lab) -> None:
    """69, both checksums, nothing in the cache, and no other source is tried in its place."""
    script = f"""
    {OWN_CACHE} cp -r $old/ai-sandbox/base $HOME/own/ai-sandbox/ && rm $HOME/own/ai-sandbox/downloads/*
    mkdir -p served/v{NODE_VERSION} && cd served/v{NODE_VERSION} && echo changed >{ARCHIVE} || exit 3
    echo "{"0" * 64}  {ARCHIVE}" >SHASUMS256.txt; cd ../..
    AISB_NODE_MIRROR=http://{{address}} aisb build --no-cache; echo $?
    ls -A $HOME/own/ai-sandbox/downloads
    """

    result = with_server(lab, script)

    assert result.text == "69\n"
    assert f"aisb: {ARCHIVE} from http://127.0.0.1:" in result.errors
    assert f", but SHASUMS256.txt says {'0' * 64}\n" in result.errors


KILLED = """
d=$(mktemp -d) && cd $d && aisb build -q >/dev/null || exit 1
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
podman rmi -f $sandbox >/dev/null; rm -r $d
"""


def test_a_killed_build_leaves_no_half_image_and_stops_no_other(lab: Lab) -> None:
    """What ran in it ends by itself; the next build of the same image is a whole one."""
    # The hosts share one table of processes.
    package = "figlet" if lab.name == "debian13" else "toilet"
    result = online(lab, f"PACKAGE={package}\n{KILLED}")

    assert result.text.splitlines() == ["killed: 137", "nothing new", "install ok installed"], result.errors
