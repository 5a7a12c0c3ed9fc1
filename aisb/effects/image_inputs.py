"""Everything that decides the two images, read from the project's own files and this machine's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.assets import asset_path, package_path
from aisb.domain.harnesses import HARNESSES
from aisb.domain.images import GATE, PROGRAMS, SANDBOX, ContextFile, ImageInputs, Program
from aisb.effects.pins import read_base_pin, read_node_pin
from aisb.render.gate_files import gate_entrypoint
from aisb.render.images import SETUP
from aisb.render.sandbox import entrypoint as sandbox_entrypoint

if TYPE_CHECKING:
    from aisb.domain.images import ImageSpec, NodePin, PinnedBase


def read_inputs(spec: ImageSpec, base: PinnedBase, node: NodePin) -> ImageInputs:
    """Everything that decides the two images, the project's own files as they are now."""
    return ImageInputs(
        base=base,
        node=node,
        platform=spec.platform,
        install=spec.install,
        sandbox_files=_files(PROGRAMS[SANDBOX], sandbox_entrypoint()),
        gate_files=_files(PROGRAMS[GATE], gate_entrypoint()),
        fragment=spec.fragment,
        harness=HARNESSES[spec.harness],
    )


def known_inputs(cache: str, spec: ImageSpec, chosen: PinnedBase | None = None) -> ImageInputs | None:
    """
    The inputs as far as this machine has them on record: no network, no podman.

    None where the base, unless one was `chosen`, or Node was never looked up, so that a build has to come first.
    """
    base = chosen or read_base_pin(cache, spec.base)
    node = read_node_pin(cache, spec, base)
    return read_inputs(spec, base, node) if base and node else None


def _files(programs: tuple[Program, ...], entrypoint: str) -> tuple[ContextFile, ...]:
    return (
        ContextFile(SETUP, 0o755, _read(asset_path("templates", "setup.sh"))),
        ContextFile("programs/entrypoint", 0o755, entrypoint.encode()),
        *(ContextFile(f"programs/{program.target}", program.mode, _read(_source(program))) for program in programs),
    )


def _source(program: Program) -> str:
    folder, _, rest = program.source.partition("/")
    return package_path(rest) if folder == "aisb" else asset_path(folder, rest)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
