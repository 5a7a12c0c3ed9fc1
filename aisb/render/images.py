"""
The two Containerfiles, podman's argv for a build, and the images' names. Pure: same inputs, same bytes.

A build is told everything by its context and its labels; nothing of the host is an argument of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.images import (
    GATE,
    GATE_PACKAGES,
    NPM_VERSION,
    SANDBOX,
    SANDBOX_PACKAGES,
    ContextFile,
    ImageInputs,
    ImageNames,
    NodePin,
    PinnedBase,
    image_name,
    list_inputs,
)
from aisb.domain.manifest import PATH as MANIFEST
from aisb.render.argv import HOME_TARGET
from aisb.render.environment import render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.harnesses import Harness


SETUP = "build/setup"
CONTAINERFILE = "Containerfile"


class SandboxImageView(NamedTuple):
    """What Containerfile.j2 sees."""

    base: PinnedBase
    node: NodePin
    setup: str
    install: tuple[str, ...]
    fragment: str
    packages: tuple[str, ...]
    npm_version: str
    agent: Harness
    agent_package: str
    agent_version: str


class GateImageView(NamedTuple):
    """What gate.Containerfile.j2 sees."""

    base: PinnedBase
    setup: str
    packages: tuple[str, ...] = GATE_PACKAGES


class BuildView(NamedTuple):
    """What differs between one build and the next."""

    podman: str
    context: str
    iid_file: str
    labels: tuple[tuple[str, str], ...]
    secrets: tuple[tuple[str, str], ...]
    no_cache: bool = False
    annotations: tuple[tuple[str, str], ...] = ()


def containerfile(role: str, inputs: ImageInputs) -> str:
    """The Containerfile of one image."""
    if role == GATE:
        return render("gate.Containerfile.j2", GateImageView(inputs.base, _setup_digest(inputs.gate_files)))
    view = SandboxImageView(
        base=inputs.base,
        node=inputs.node,
        setup=_setup_digest(inputs.sandbox_files),
        install=inputs.install,
        fragment=inputs.fragment,
        packages=SANDBOX_PACKAGES,
        npm_version=NPM_VERSION,
        agent=inputs.harness,
        agent_package=inputs.agent_package,
        agent_version=inputs.agent_version,
    )
    return render("Containerfile.j2", view)


def _setup_digest(files: Iterable[ContextFile]) -> str:
    data = next(file.data for file in files if file.path == SETUP)
    return hashlib.sha256(data).hexdigest()[:12]


def image_inputs(role: str, inputs: ImageInputs) -> dict[str, object]:
    """The list that one image's tag is the hash of."""
    return list_inputs(role, inputs, containerfile(role, inputs))


def image_names(inputs: ImageInputs) -> ImageNames:
    """The names of the two images that follow from these inputs."""
    return ImageNames(*(image_name(role, image_inputs(role, inputs)) for role in (SANDBOX, GATE)))


def build_argv(view: BuildView) -> tuple[str, ...]:
    """
    podman's argv for one build.

    The image gets no name: it has one only after it has been tried. `--pull=never`, because the base is there
    already and nothing else may come in its place.
    """
    return (
        view.podman, "build",
        "--pull=never",
        "--force-rm",
        *(("--no-cache",) if view.no_cache else ()),
        # Where SELinux rules, a step could not read the context that it has mounted.
        "--security-opt", "label=disable",
        "--format", "oci",
        "--file", f"{view.context}/{CONTAINERFILE}",
        "--iidfile", view.iid_file,
        *(f"--label={name}={value}" for name, value in view.labels),
        *(f"--annotation={name}={value}" for name, value in view.annotations),
        *(f"--secret=id={name},src={path}" for name, path in view.secrets),
        view.context,
    )  # fmt: skip


def throw_away_run(podman: str) -> tuple[str, ...]:
    """How podman's argv begins for a container that looks at something and is gone."""
    return (
        podman, "run", "--rm",
        "--pull=never",
        "--network", "none",
        "--no-hosts",
        "--http-proxy=false",
        "--log-driver", "none",
    )  # fmt: skip


def registries_argv(podman: str, image: str) -> tuple[str, ...]:
    """podman's argv for a throw-away run that asks the image's own tools where they fetch packages from."""
    return (
        *throw_away_run(podman),
        "--user", "0",
        "--entrypoint", "/usr/bin/python3",
        image,
        "-I", "-S", "/usr/libexec/aisb/gate/registries.py",
    )  # fmt: skip


def manifest_argv(podman: str, image: str) -> tuple[str, ...]:
    """podman's argv for a throw-away run that prints the list of what an image holds."""
    return (
        *throw_away_run(podman),
        "--user", "0",
        "--entrypoint", "/bin/cat",
        image,
        MANIFEST,
    )  # fmt: skip


def label_argv(view: BuildView) -> tuple[str, ...]:
    """podman's argv for the last step of a build: the same image and a label. Its context is a Containerfile."""
    return (
        view.podman, "build",
        "--pull=never",
        "--format", "oci",
        "--iidfile", view.iid_file,
        *(f"--label={name}={value}" for name, value in view.labels),
        # These belong to a manifest, and are not handed on as labels are.
        *(f"--annotation={name}={value}" for name, value in view.annotations),
        view.context,
    )  # fmt: skip


def trial_argv(podman: str, role: str, image: str) -> tuple[str, ...]:
    """
    podman's argv for the throw-away run that ends a build.

    For a sandbox it has the runs' mapping of ids: podman copies an image once for each mapping, which takes
    seconds, and the first real run shall not wait for it.
    """
    mapping = ("--userns", "keep-id:uid=1000,gid=1000") if role == SANDBOX else ()
    return (
        *throw_away_run(podman),
        *mapping,
        "--user", "0",
        "--entrypoint", "/bin/true",
        image,
    )  # fmt: skip


def first_mount_argv(podman: str, volume: str, image: str) -> tuple[str, ...]:
    """podman's argv for a throw-away run in which podman puts what an image has in its home into a new volume."""
    *before, last = trial_argv(podman, SANDBOX, image)
    return (*before, "--volume", f"{volume}:{HOME_TARGET}", last)
