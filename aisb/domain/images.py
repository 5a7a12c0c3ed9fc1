"""
What the two images are made from, and the tag that follows from it.

The tag is a hash over an explicit list: every text and file that goes in, the base's digest, versions, platform
and generation. Never a time, a path or a user: the same inputs give the same tag on every machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.domain.harnesses import HARNESSES, PI, Harness
from aisb.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage

SANDBOX = "sandbox"
GATE = "gate"
REPOSITORY = {SANDBOX: "localhost/aisb-sandbox", GATE: "localhost/aisb-gate"}
BASE_REPOSITORY = "localhost/aisb-base"

# Node's lines that can be asked for, each with the version that this release of aisb was tried with.
NODE_VERSIONS = {"22": "22.23.3", "24": "24.22.3"}
NODE_LINE = "22"
NODE_VERSION = NODE_VERSIONS[NODE_LINE]
NPM_VERSION = "11.21.2"

# The date of the last `update`; until there was one, this.
FIRST_GENERATION = "0"

# In the place of a digest that no registry has confirmed.
UNPINNED = "UNPINNED"

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
        "loopback",
        "names",
        "offers",
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
    What was asked for: the base, packages beyond the usual, where Node shall come from ("" for either) and its line,
    the user's own part of the Containerfile, and the agent.
    """

    base: BaseImage
    platform: str
    install: tuple[str, ...] = ()
    node_origin: str = ""
    node_line: str = NODE_LINE
    fragment: str = ""
    harness: str = PI


class PinnedBase(NamedTuple):
    """
    A base image with the digest that it stood for.

    `source` is what FROM names; `digest` the platform's manifest, or for a bootstrapped base the hash of its one
    layer; `index_digest` the multi-architecture index that it was found in, if there was one. `time` is when the
    registry last said so, `tried` when it was last asked and did not answer; `unpinned` where none ever did, `held`
    where somebody went back to it. `node` and `agent` are the versions that the last update found, "" before one.
    """

    reference: str
    source: str
    digest: str
    index_digest: str = ""
    time: str = ""
    generation: str = FIRST_GENERATION
    tried: str = ""
    unpinned: bool = False
    held: bool = False
    node: str = ""
    agent: str = ""


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
    fragment: str = ""
    harness: Harness = HARNESSES[PI]

    @property
    def agent_package(self) -> str:
        """npm's package of the agent, for this platform."""
        return self.harness.package_for(NODE_PLATFORMS[self.platform])

    @property
    def agent_version(self) -> str:
        """The version of it that belongs to this base's generation."""
        return agent_version(self.base, self.harness)

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


def parse_node_line(text: str, origin: str = "--node") -> str:
    """A line of Node's, the usual one for an empty text. Raises UsageError with where the text was written."""
    if text and text not in NODE_VERSIONS:
        raise UsageError(f"{origin} {text!r} is no line of Node", hint=f"write: {' or '.join(NODE_VERSIONS)}")
    return text or NODE_LINE


def node_version(line: str, base: PinnedBase | None) -> str:
    """Node's version: what the last update found of that line, or this release's own where that is newer."""
    return _newest(NODE_VERSIONS[line], base.node if base else "")


def agent_version(base: PinnedBase, harness: Harness) -> str:
    """The agent's version, likewise; of another agent than pi no newer one is looked for, and aisb's own counts."""
    return _newest(harness.version, base.agent) if harness.name == PI else harness.version


def _newest(own: str, found: str) -> str:
    """The newer of two versions; one of another major version is not asked for any more."""
    if not found or found.partition(".")[0] != own.partition(".")[0]:
        return own
    return max(own, found, key=version_key)


def version_key(version: str) -> tuple[int, ...]:
    """What versions of the form 1.2.3 are compared by."""
    return tuple(int(part) for part in version.split("."))


def next_generation(known: str, today: str) -> str:
    """The generation that an update starts: its date, and a number where that day has had one."""
    date, _, number = known.partition(".")
    return f"{today}.{int(number or 1) + 1}" if date == today else today


def node_package(platform: str) -> str:
    """npm's package that holds Node's binary for this platform."""
    return f"node-{NODE_PLATFORMS[platform]}"


def list_inputs(role: str, inputs: ImageInputs, containerfile: str) -> dict[str, object]:
    """Everything that decides one image, as the label `aisb.inputs` keeps it: the answer to "why was this built?"."""
    common: dict[str, object] = {
        "base": f"{UNPINNED} {inputs.base.digest}" if inputs.base.unpinned else inputs.base.digest,
        "containerfile": _sha256(containerfile.encode()),
        "files": [[file.path, f"{file.mode:04o}", _sha256(file.data)] for file in inputs.files(role)],
        "generation": inputs.base.generation,
        "platform": inputs.platform,
        "role": role,
    }
    if role == GATE:
        return common
    own = {"fragment": _sha256(inputs.fragment.encode())} if inputs.fragment else {}
    return (
        common
        | own
        | {
            "agent": f"{inputs.agent_package}@{inputs.agent_version}",
            "archives": [list(archive) for archive in inputs.node.archives],
            "install": list(inputs.install),
            "node": inputs.node.version,
            "npm": NPM_VERSION,
        }
    )


def inputs_label(listed: dict[str, object]) -> str:
    """The canonical text of the inputs: same inputs, same bytes."""
    return json.dumps(listed, sort_keys=True, separators=(",", ":"))


def image_name(role: str, listed: dict[str, object]) -> str:
    """The image's name; its tag is the first 16 hex digits of the hash over the inputs."""
    return f"{REPOSITORY[role]}:{_sha256(inputs_label(listed).encode())[:16]}"


def labels(role: str, inputs: ImageInputs, listed: dict[str, object]) -> tuple[tuple[str, str], ...]:
    """What an image says about itself, sorted."""
    common = {
        "aisb.base-digest": UNPINNED if inputs.base.unpinned else inputs.base.digest,
        "aisb.base-ref": inputs.base.reference,
        "aisb.generation": inputs.base.generation,
        "aisb.inputs": inputs_label(listed),
        "aisb.pins": pins_label(inputs),
        "aisb.role": role,
    }
    agent = {
        "aisb.harness": inputs.harness.name,
        "aisb.harness-version": inputs.agent_version,
        "aisb.node": inputs.node.version,
    }
    if inputs.harness.name == PI:
        agent |= {"aisb.pi-package": inputs.harness.package, "aisb.pi-version": inputs.agent_version}
    return tuple(sorted((common | (agent if role == SANDBOX else {})).items()))


def oci_annotations(role: str, inputs: ImageInputs) -> tuple[tuple[str, str], ...]:
    """The same in the words of the OCI image specification, for tools that know nothing of aisb."""
    return (
        ("org.opencontainers.image.base.digest", UNPINNED if inputs.base.unpinned else inputs.base.digest),
        ("org.opencontainers.image.base.name", inputs.base.reference),
        ("org.opencontainers.image.title", f"aisb {role}"),
        ("org.opencontainers.image.version", inputs.base.generation),
    )


def pins_label(inputs: ImageInputs) -> str:
    """The records that an image was made from: on another machine they are its only ones."""
    base = inputs.base._replace(tried="", held=False)
    return json.dumps({"base": base._asdict(), "node": inputs.node._asdict()}, sort_keys=True, separators=(",", ":"))


def is_own(name: str, role: str) -> bool:
    """Whether an image of that role is aisb's: what somebody has built on one has its labels too, and another name."""
    return name.rpartition(":")[0] == REPOSITORY.get(role)


def parse_label(text: str) -> Any:  # noqa: ANN401  # whatever JSON holds
    """What a label holds, None for what is no JSON: whoever made the image has written it."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def read_label(text: str) -> dict[str, Any]:
    """The object in a label, empty for anything else."""
    found = parse_label(text)
    return found if isinstance(found, dict) else {}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
