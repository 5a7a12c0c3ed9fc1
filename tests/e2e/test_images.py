"""The two images, built for real: what is in them, what is not, and builds that go wrong."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from aisb.domain.harnesses import PI_PACKAGE, PI_VERSION
from aisb.domain.images import GATE_PACKAGES, NODE_VERSION, NPM_VERSION, SANDBOX_PACKAGES
from tests.e2e.conftest import NAMES as HOSTS
from tests.e2e.lab import HERE, LABORATORY, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.lab import Lab

NAMES = "set -- $(aisb build -q) && [ $# = 2 ] && sandbox=$1 gate=$2 && "
INSIDE = "podman run --rm --network none --userns keep-id:uid=1000,gid=1000 --user 1000:1000 --entrypoint /bin/bash"
# What an image does not say: a cache of its own, with the archives of the one that is kept.
OWN_CACHE = (
    "old=${XDG_CACHE_HOME:-$HOME/.cache}; export XDG_CACHE_HOME=$HOME/own; mkdir -p $HOME/own/ai-sandbox && "
    "cp -r $old/ai-sandbox/downloads $HOME/own/ai-sandbox/ && "
)
BUSYBOX = "localhost/aisb-test-busybox:1"


def online(lab: Lab, command: str, timeout: float = 280) -> Result:
    """Run a command where packages can be fetched: builds need the real archive."""
    if lab.name == HERE:
        return lab.run(command, timeout=timeout)
    cache = "export XDG_CACHE_HOME=/home/aisb-lab/cache; "
    argv = (f"{LABORATORY}/host", lab.name, "--", "sh", "-c", cache + command)
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    return Result(done.returncode, done.stdout, done.stderr, 0.0)


def inside(lab: Lab, script: str) -> list[str]:
    """What a script says in a sandbox image, as the command's user."""
    result = lab.run(f"{NAMES} {INSIDE} $sandbox -c '{script}'")
    assert (result.code, result.errors) == (0, "")
    return result.text.splitlines()


def test_the_agent_and_its_tools_are_there(lab: Lab) -> None:
    """Node, npm and pi in the versions that are pinned, and every tool that an agent expects, by its usual name."""
    tools = "rg fd git curl wget jq cc c++ make python3 ssh nft ip setpriv tini ps less xz node npm npx pi"

    lines = inside(lab, f"node --version; npm --version; pi --version; for tool in {tools}; do command -v $tool; done")

    assert lines[:3] == [f"v{NODE_VERSION}", NPM_VERSION, PI_VERSION]
    assert [line.rpartition("/")[2] for line in lines[3:]] == tools.split()


def test_a_compiler_makes_programs_that_run(lab: Lab) -> None:
    """Native modules of npm and pip need one."""
    script = 'printf "#include <string>\\nint main() { return std::string().size(); }" >a.cc && c++ a.cc && ./a.out'

    assert inside(lab, f"cd /tmp && {script} && echo ran") == ["ran"]


PACKAGE = """
mkdir package && cd package && printf '#!/bin/sh\necho ran\n' >run && chmod +x run
echo '{"name": "greeter", "version": "1.0.0", "bin": {"greet": "run"}}' >package.json
npm install --global --silent . >/dev/null && command -v greet && greet
"""


def test_npm_installs_programs_into_the_home(lab: Lab) -> None:
    """An agent is not root, and installs programs globally all the same."""
    result = lab.run(f"aisb -q --net none -- sh -c {shlex.quote(PACKAGE)}")

    assert (result.code, result.text, result.errors) == (0, "/home/sandbox/.local/bin/greet\nran\n", "")


def test_places_belong_to_whom_they_should(lab: Lab) -> None:
    """The home and the runtime directory are the user's alone; the rest is root's."""
    places = "/home/sandbox /run/user/1000 /run/user /project /run/aisb /usr/libexec/aisb /usr/libexec/aisb/entrypoint"

    assert inside(lab, f'stat -c "%n %a %u:%g" {places}; [ -e /run/secrets ] || echo none') == [
        "/home/sandbox 700 1000:1000",
        "/run/user/1000 700 1000:1000",
        "/run/user 755 0:0",
        "/project 755 0:0",
        "/run/aisb 755 0:0",
        "/usr/libexec/aisb 755 0:0",
        "/usr/libexec/aisb/entrypoint 755 0:0",
        "none",
    ]


def test_nothing_is_setuid_and_every_program_is_compiled(lab: Lab) -> None:
    """No new privileges is always on; and a program starts without compiling or asking whether it should."""
    command = f"""{NAMES}
        for image in $sandbox $gate; do
            podman run --rm --network none --user 0 --entrypoint /bin/sh $image -c '
                find / -xdev -type f -perm /6000
                find /usr/libexec/aisb ! -user 0 -o ! -group 0 -o -perm /022
                find /usr/libexec/aisb -name "*.py" | wc -l
                find /usr/libexec/aisb -name "*.pyc" | wc -l
                python3 -I -S -c "
import glob
for path in glob.glob(\\"/usr/libexec/aisb/**/*.pyc\\", recursive=True):
    flags = open(path, \\"rb\\").read(8)[4:]
    assert flags == bytes([1, 0, 0, 0]), path
"'
        done"""

    lines = lab.run(command).text.splitlines()

    assert len(lines) == 4
    assert (lines[0], lines[2]) == (lines[1], lines[3])


def test_the_images_are_as_small_as_promised(lab: Lab) -> None:
    """Above their base: 700 MB with Node and pi, 60 MB for a gate."""
    result = lab.run(
        f"{NAMES} base=$(podman image inspect $sandbox --format '{{{{index .Labels \"aisb.base-digest\"}}}}')\n"
        "for image in $(podman images -q localhost/aisb-base); do\n"
        "  podman image inspect $image --format '{{index .RootFS.Layers 0}} {{.Size}}'; done | grep -m 1 $base\n"
        "podman image inspect $sandbox $gate --format '{{.Size}}'"
    )

    base, sandbox, gate = (int(line.split()[-1]) for line in result.text.splitlines())
    assert sandbox - base < 700_000_000
    assert gate - base < 60_000_000


def test_an_image_says_what_it_is(lab: Lab) -> None:
    """Labels for what was asked for, a manifest for what came of it."""
    result = lab.run(
        f"{NAMES} podman image inspect $sandbox --format '{{{{json .Labels}}}}'; "
        "for image in $sandbox $gate; do podman run --rm --network none --entrypoint /bin/cat $image "
        "/etc/aisb/manifest.txt; echo; done"
    )

    first, _, rest = result.text.partition("\n")
    found = json.loads(first)
    sandbox, gate = ({line.split()[1]: line for line in text.splitlines()} for text in rest.split("\n\n")[:2])
    assert {
        key: found[f"aisb.{key}"] for key in ("role", "base-ref", "node", "harness", "pi-package", "pi-version")
    } == {
        "role": "sandbox",
        "base-ref": "bootstrap:trixie",
        "node": NODE_VERSION,
        "harness": "pi",
        "pi-package": PI_PACKAGE,
        "pi-version": PI_VERSION,
    }
    assert set(SANDBOX_PACKAGES) - set(sandbox) == set()
    assert set(GATE_PACKAGES) - set(gate) == set()
    assert [sandbox[name] for name in (PI_PACKAGE, "npm", "node")] == [
        f"npm {PI_PACKAGE} {PI_VERSION}",
        f"npm npm {NPM_VERSION}",
        f"node node {NODE_VERSION}",
    ]


def test_nothing_of_the_host_stays_in_an_image(lab: Lab) -> None:
    """No certificate, path or setting that was lent, in no layer, label or history; no cache and no package list."""
    if lab.name == HERE:
        pytest.skip("here nothing is lent that could be told from the image's own")
    command = f"""{NAMES}
        mark=$(sed -n 3p $LAB_CA)
        [ ${{#mark}} -gt 40 ] || exit 3
        for image in $sandbox $gate; do
            podman image save -q --uncompressed --format oci-dir -o saved $image >/dev/null
            for blob in saved/blobs/sha256/* saved/*; do
                [ -f $blob ] || continue
                {{ zcat $blob 2>/dev/null || cat $blob; }} >plain
                grep -a -c -F -e "$mark" -e $HOME -e /home/aisb-lab plain
                tar tf plain 2>/dev/null | grep -E -e '^(run/secrets/.|root/[.]npm|root/[.]cache|run/aisb-)' \\
                    -e 'node_modules/[.]package-lock' -e '^var/(lib/apt/lists|cache/apt)/.*_'
            done
            podman history --no-trunc $image | grep -c -e /run/user -e $HOME
            rm -rf saved plain
        done | sort | uniq -c"""

    assert [line.split()[1:] for line in lab.run(command, timeout=200).text.splitlines()] == [["0"]]


def test_what_is_there_is_not_built_again(lab: Lab) -> None:
    """Without a network and without a word: a build would say what it does."""
    result = lab.run("aisb build")

    assert (result.code, len(result.text.splitlines()), result.errors) == (0, 2, "")


def test_a_base_whose_ids_are_taken_is_fine(lab: Lab) -> None:
    """ubuntu:24.04 has a user 1000 of its own; others use 999, or have a second user in group 1000."""
    taken = (
        "useradd -m -u 1000 ubuntu && useradd -m -u 1001 -g 1000 other && useradd -u 1500 sandbox && "
        "groupadd -g 999 systemd-journal && useradd -u 999 -g 999 systemd-network"
    )
    command = f"""{NAMES}
        setup=$(dirname $(command -v aisb))/python
        setup=$($setup -c 'from aisb.assets import asset_path; print(asset_path("templates", "setup.sh"))')
        base=$(podman images --format '{{{{.Repository}}}}:{{{{.Tag}}}}' localhost/aisb-base | grep -m 1 :trixie-)
        podman run --rm --network none --user 0 -v $setup:/setup:ro --entrypoint /bin/sh $base -c '
            {{ {taken}; }} >/dev/null 2>&1
            printf "ID=ubuntu\\nVERSION_ID=24.04\\nVERSION_CODENAME=noble\\n" >/etc/os-release
            sh /setup - users && getent passwd sandbox && getent group sandbox && id other
            stat -c "%n %a %u:%g" /home/sandbox /run/user/1000; ls /home; ls /etc/*- 2>/dev/null'"""

    assert lab.run(command).text.splitlines() == [
        "aisb-step: the user",
        "sandbox:x:1000:1000::/home/sandbox:/bin/bash",
        "sandbox:x:1000:",
        "uid=1001(other) gid=1000(sandbox) groups=1000(sandbox)",
        "/home/sandbox 700 1000:1000",
        "/run/user/1000 700 1000:1000",
        "other",
        "sandbox",
    ]


@pytest.fixture
def busybox(lab: Lab) -> Iterator[str]:
    """An image that has a shell and no apt."""
    made = lab.run(f"mkdir -p i/bin && cp /bin/busybox i/bin/sh && tar -C i -c . | podman import -q - {BUSYBOX}")
    assert made.code == 0, made.errors
    yield BUSYBOX
    lab.run(f"podman rmi -f {BUSYBOX}")


def test_an_unsuitable_base_fails_the_build_by_name(lab: Lab, busybox: str) -> None:
    """The missing tool is named, the log is shown and kept, and no half image has a name."""
    result = lab.run(
        "look() { podman images -q localhost/aisb-sandbox; podman ps -aq --external; }; look >before\n"
        f"{OWN_CACHE} aisb build --base-image {busybox}; echo $?; look | diff before -"
    )

    assert result.text == "69\n"
    assert (
        "aisb: the sandbox image could not be built: "
        "the base image has no apt-get: it has to be Debian, Ubuntu or a relative\n"
    ) in result.errors
    (log,) = [line for line in result.errors.splitlines() if "the whole log: " in line]
    assert "/.local/state/ai-sandbox/builds/" in log


def test_a_base_that_nobody_looked_up_needs_a_network(lab: Lab) -> None:
    """One line with the reason, and the base that needs no registry."""
    result = lab.run("XDG_CACHE_HOME=$HOME/own aisb build --base-image registry.invalid/base:1", timeout=60)

    assert (result.code, result.text) == (69, "")
    assert "registry.invalid/base:1 could not be looked up: " in result.errors
    assert "--base-image bootstrap:trixie" in result.errors


@pytest.mark.parametrize(
    "arguments",
    [
        "--install 'jq; x'",
        "--install '-o=APT::Sandbox::User=root'",
        "--install '../x'",
        "--base-image 'debian:trixie\nRUN true'",
        "--base-image ../x:1",
        "--base-image x@sha256:short",
        "--node-source elsewhere",
    ],
)
def test_hostile_text_is_refused_before_anything_is_done(lab: Lab, arguments: str) -> None:
    """By its pattern, with the exit code of a usage error."""
    result = lab.run(f"XDG_CACHE_HOME=$HOME/own aisb build {arguments}; echo $?; ls $HOME/own/ai-sandbox 2>/dev/null")

    assert "2" in result.text.split()
    assert "contexts" not in result.text


# Twenty seconds of packages: one host will do.
@pytest.mark.parametrize("lab", HOSTS[:1], indirect=True)
def test_a_base_of_the_distributions_own_packages_is_made_again_byte_for_byte(lab: Lab) -> None:
    """By whoever knows nothing of the first: so nothing that stands on it has to be built."""
    result = online(
        lab,
        "d=$(mktemp -d) && cd $d && export XDG_STATE_HOME=$d/state && aisb build -q >one && ls state/ai-sandbox/builds\n"
        "mkdir -p own/ai-sandbox && cp -r $XDG_CACHE_HOME/ai-sandbox/downloads own/ai-sandbox/ && export XDG_CACHE_HOME=$d/own\n"
        "aisb build --refresh-base >two 2>said; cmp one two && ls state/ai-sandbox/builds\n"
        "sed -n 's/.*\\(base trixie from\\).*/\\1/p' said | head -n 1; rm -r $d",
    )

    assert result.text.splitlines() == ["base trixie from"], result.errors


def test_an_interrupted_build_leaves_nothing_behind(lab: Lab) -> None:
    """C57: no name, no container, no process that goes on, no context, no secret; whether ^C comes once or twice."""
    # No build can ever have installed it and kept the layer. The hosts share one table of processes.
    package = f"no-such-package-{lab.name}"
    step = f"packages asked for by --install: {package}"
    result = online(
        lab,
        "d=$(mktemp -d) && cd $d && aisb build -q >/dev/null || exit 1; export XDG_STATE_HOME=$d/state\n"
        "look() { podman images -q --filter dangling=false; podman ps -aq --external; "
        "ls -A $XDG_CACHE_HOME/ai-sandbox/contexts; }\n"
        'within() { for _ in $(seq 1200); do grep -qs "$@" && return; sleep 0.05; done; echo no "$@"; }\n'
        # A shell without job control starts what is in its background with ^C ignored.
        f"look >before; env --default-signal=INT aisb build --install {package} 2>said & aisb=$!\n"
        f"within -r '{step}' state; kill -INT $aisb; within 'podman ends the step' said; kill -INT $aisb\n"
        f"wait $aisb; echo $?; pgrep -u $(id -u) -f '[e]xtra {package}'; look | diff before -\n"
        "ls -A $XDG_RUNTIME_DIR/aisb/build; rm -r $d",
    )

    assert result.text.split() == ["130"], result.errors
