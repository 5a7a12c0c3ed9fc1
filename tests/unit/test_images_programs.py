"""The programs of the images: each one that is needed is listed, and nothing else."""

from __future__ import annotations

import ast
import os

import pytest

from aisb.assets import asset_path, package_path
from aisb.domain.images import GATE, PROGRAMS, SANDBOX, Program
from aisb.effects.deep import MODULES

# What starts by itself; everything else is there because one of these imports it.
STARTED = {
    SANDBOX: {"gate/launcher.py", "gate/pins.py", "gate/registries.py", "gate/relay.py"},
    GATE: {"gate/bridge.py", "gate/helper.py"},
}


def path_of(source: str) -> str:
    folder, _, rest = source.partition("/")
    return package_path(rest) if folder == "aisb" else asset_path(source)


def imported_by(source: str) -> set[str]:
    """The files of the project that a file imports, the packages on the way included."""
    with open(path_of(source), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {file for module in modules for file in files_of(module)}


def files_of(module: str) -> set[str]:
    parts = module.split(".")
    if parts[0] not in ("gate", "aisb"):
        return set()
    packages = {f"{'/'.join(parts[:end])}/__init__.py" for end in range(1, len(parts) + 1)}
    return {file for file in (*packages, f"{'/'.join(parts)}.py") if os.path.exists(path_of(file))}


def needed(started: set[str]) -> set[str]:
    """Everything that these programs import, and what that imports."""
    found: set[str] = set()
    waiting = set(started) | {f"{os.path.dirname(file)}/__init__.py" for file in started}
    while waiting:
        source = waiting.pop()
        found.add(source)
        waiting |= imported_by(source) - found
    return found


@pytest.mark.parametrize("role", [SANDBOX, GATE])
def test_an_image_gets_the_modules_that_its_programs_import(role: str) -> None:
    """A module that is missing would show only in a run; one too many is more to audit."""
    assert sorted(program.source for program in PROGRAMS[role]) == sorted(needed(STARTED[role]))


@pytest.mark.parametrize("role", [SANDBOX, GATE])
def test_a_program_lies_in_the_image_as_it_does_in_the_tree(role: str) -> None:
    """The same module names hold here, in tests and in the image; nothing is executable by itself."""
    assert PROGRAMS[role] == tuple(Program(program.source, program.source, 0o644) for program in PROGRAMS[role])


def test_every_program_of_the_containers_is_in_an_image() -> None:
    """A file in gate/ that is in neither image is dead or forgotten."""
    listed = {program.source for role in (SANDBOX, GATE) for program in PROGRAMS[role]}
    there = {f"gate/{name}" for name in os.listdir(asset_path("gate")) if name.endswith(".py")}

    # These run on the host, beside aisb or for it; those that try a sandbox out travel there as data.
    on_the_host = {"gate/guests.py", "gate/host_ports.py", "gate/look_up.py"}
    assert there - listed == on_the_host | {f"gate/{name}.py" for name in MODULES if name.startswith("attempts")}
