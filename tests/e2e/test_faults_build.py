"""Builds in trouble: a registry that fails, an archive that is not what it should be. (C53)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.images import NODE_VERSION
from tests.e2e.sandbox import outside
from tests.e2e.test_images import OWN_CACHE

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
