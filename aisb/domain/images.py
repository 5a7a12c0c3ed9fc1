"""
What the two images are made from, and the tag that follows from it.

The tag is a hash over an explicit list: every text and file that goes in, the base's digest, versions, platform
and generation. Never a time, a path or a user: the same inputs give the same tag on every machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.harnesses import HARNESSES, PI, Harness
from aisb.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage

SANDBOX = "sandbox"
GATE = "gate"
REPOSITORY = {SANDBOX: "localhost/aisb-sandbox", GATE: "localhost/aisb-gate"}
BASE_REPOSITORY = "localhost/aisb-base"

NODE_VERSION = "22.23.3"
NPM_VERSION = "11.21.2"

# The date of the last `update`; until there was one, this.
FIRST_GENERATION = "0"

# Where Node's archive comes from.
TARBALL = "tarball"
NPM = "npm"

# Machine name, as the kernel says it -> platform, as registries say it, and what Node calls it.
PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
NODE_PLATFORMS = {"linux/amd64": "linux-x64", "linux/arm64": "linux-arm64"}

SANDBOX_PACKAGES = (
    "build-essential",
    "ca-certificates",
    "curl",
    "fd-find",
    "git",
    "iproute2",
    "jq",
    "less",
    "nftables",
    "openssh-client",
    "procps",
    "python3",
    "ripgrep",
    "tini",
    "util-linux",
    "wget",
    "xz-utils",
)
GATE_PACKAGES = ("ca-certificates", "nftables", "openssl", "python3", "squid-openssl", "util-linux")


class Program(NamedTuple):
    """
    A file of the project that goes into an image: where it lies, where it goes, and its mode.

    `source` begins with `gate/` (the programs of the containers) or `aisb/` (modules of this package); `target` is
    below /usr/libexec/aisb.
    """

    source: str
    target: str
    mode: int = 0o644


def _gate(*names: str) -> tuple[Program, ...]:
    return tuple(Program(f"gate/{name}.py", f"gate/{name}.py") for name in names)


def _domain(*names: str) -> tuple[Program, ...]:
    return tuple(Program(f"aisb/domain/{name}.py", f"aisb/domain/{name}.py") for name in names)


SANDBOX_PROGRAMS = (
    Program("aisb/__init__.py", "aisb/__init__.py"),
    *_domain("__init__", "frames"),
    *_gate(
        "__init__",
        "dial",
        "dns",
        "java",
        "keeper",
        "launcher",
        "loop",
        "names",
        "outbox",
        "pins",
        "probe",
        "pump",
        "registries",
        "relay",
        "resolver",
        "seeding",
        "tool_exec",
        "tool_files",
        "tool_stream",
        "tools",
        "verdicts",
    ),
)
GATE_PROGRAMS = (
    Program("aisb/__init__.py", "aisb/__init__.py"),
    *_domain(
        "__init__",
        "addresses",
        "egress",
        "hosts",
        "http_request",
        "http_rules",
        "injection",
        "live",
        "names",
        "paths",
        "proposals",
        "rules",
        "verdict",
    ),
    *_gate(
        "__init__",
        "audit",
        "bridge",
        "calling",
        "changes",
        "client",
        "control",
        "ends",
        "files",
        "heads",
        "helper",
        "host_call",
        "identity",
        "judging",
        "ledger",
        "lifetime",
        "limits",
        "lines",
        "listening",
        "log_listener",
        "loop",
        "origins",
        "ports",
        "proof",
        "pump",
        "readiness",
        "refusal",
        "runs",
        "secret_box",
        "squid",
        "squid_log",
        "turns",
    ),
)
PROGRAMS = {SANDBOX: SANDBOX_PROGRAMS, GATE: GATE_PROGRAMS}


class ImageSpec(NamedTuple):
    """
    What was asked for: the base, packages beyond the usual, where Node shall come from ("" for either), and the agent.
    """

    base: BaseImage
    platform: str
    install: tuple[str, ...] = ()
    node_origin: str = ""
    harness: str = PI


class PinnedBase(NamedTuple):
    """
    A base image with the digest that it stood for.

    `source` is what FROM names; `digest` the platform's manifest, or for a bootstrapped base the hash of its one
    layer; `index_digest` the multi-architecture index that it was found in, if there was one.
    """

    reference: str
    source: str
    digest: str
    index_digest: str = ""
    time: str = ""
    generation: str = FIRST_GENERATION


class NodePin(NamedTuple):
    """Node's archive, and npm's where that is a second one: names and sha256 of what was downloaded and checked."""

    version: str
    origin: str
    archives: tuple[tuple[str, str], ...]


class ContextFile(NamedTuple):
    """One file of a build context."""

    path: str
    mode: int
    data: bytes


class ImageInputs(NamedTuple):
    """All that decides the two images."""

    base: PinnedBase
    node: NodePin
    platform: str
    install: tuple[str, ...]
    sandbox_files: tuple[ContextFile, ...]
    gate_files: tuple[ContextFile, ...]
    harness: Harness = HARNESSES[PI]

    @property
    def agent_package(self) -> str:
        """npm's package of the agent, for this platform."""
        return self.harness.package_for(NODE_PLATFORMS[self.platform])

    def files(self, role: str) -> tuple[ContextFile, ...]:
        """The files of one image's context."""
        return self.sandbox_files if role == SANDBOX else self.gate_files


class ImageNames(NamedTuple):
    """The two images' full names."""

    sandbox: str
    gate: str


def parse_platform(machine: str) -> str:
    """The platform of a machine name such as `x86_64`. Raises Unavailable for one that is not supported."""
    if machine not in PLATFORMS:
        raise Unavailable(f"images cannot be built for {machine!r}", hint=f"supported: {', '.join(PLATFORMS)}")
    return PLATFORMS[machine]


def parse_node_origin(text: str, origin: str = "--node-source") -> str:
    """`tarball`, `npm`, or empty for whichever is to be had. Raises UsageError with where the text was written."""
    if text not in ("", TARBALL, NPM):
        raise UsageError(f"{origin} {text!r} is no source of Node", hint=f"write: {TARBALL} or {NPM}")
    return text


def node_package(platform: str) -> str:
    """npm's package that holds Node's binary for this platform."""
    return f"node-{NODE_PLATFORMS[platform]}"


def list_inputs(role: str, inputs: ImageInputs, containerfile: str) -> dict[str, object]:
    """Everything that decides one image, as the label `aisb.inputs` keeps it: the answer to "why was this built?"."""
    common: dict[str, object] = {
        "base": inputs.base.digest,
        "containerfile": _sha256(containerfile.encode()),
        "files": [[file.path, f"{file.mode:04o}", _sha256(file.data)] for file in inputs.files(role)],
        "generation": inputs.base.generation,
        "platform": inputs.platform,
        "role": role,
    }
    if role == GATE:
        return common
    return common | {
        "agent": f"{inputs.agent_package}@{inputs.harness.version}",
        "archives": [list(archive) for archive in inputs.node.archives],
        "install": list(inputs.install),
        "node": inputs.node.version,
        "npm": NPM_VERSION,
    }


def inputs_label(listed: dict[str, object]) -> str:
    """The canonical text of the inputs: same inputs, same bytes."""
    return json.dumps(listed, sort_keys=True, separators=(",", ":"))


def image_name(role: str, listed: dict[str, object]) -> str:
    """The image's name; its tag is the first 16 hex digits of the hash over the inputs."""
    return f"{REPOSITORY[role]}:{_sha256(inputs_label(listed).encode())[:16]}"


def labels(role: str, inputs: ImageInputs, listed: dict[str, object]) -> tuple[tuple[str, str], ...]:
    """What an image says about itself, sorted."""
    common = {
        "aisb.base-digest": inputs.base.digest,
        "aisb.base-ref": inputs.base.reference,
        "aisb.generation": inputs.base.generation,
        "aisb.inputs": inputs_label(listed),
        "aisb.role": role,
    }
    agent = {
        "aisb.harness": inputs.harness.name,
        "aisb.harness-version": inputs.harness.version,
        "aisb.node": inputs.node.version,
    }
    if inputs.harness.name == PI:
        agent |= {"aisb.pi-package": inputs.harness.package, "aisb.pi-version": inputs.harness.version}
    return tuple(sorted((common | (agent if role == SANDBOX else {})).items()))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
