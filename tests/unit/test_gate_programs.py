"""What goes into the gate's image is what its programs import, and nothing else."""

from __future__ import annotations

import ast
import os

from aisb.assets import asset_path, package_path
from aisb.domain.images import GATE_PROGRAMS

PROGRAMS = ("gate.bridge", "gate.helper")


def path_of(module: str) -> str | None:
    """The file of a module of this project, None for one of the standard library."""
    top, _, rest = module.partition(".")
    folder = {"gate": asset_path("gate"), "aisb": package_path()}.get(top)
    if folder is None:
        return None
    path = os.path.join(folder, *rest.split(".")) if rest else folder
    return f"{path}/__init__.py" if os.path.isdir(path) else f"{path}.py"


def imported_by(path: str) -> set[str]:
    """Names of the modules that a file imports while it runs."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for_types = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    ]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_the_gates_image_holds_the_modules_that_its_programs_import() -> None:
    needed: dict[str, str] = {}
    waiting = list(PROGRAMS)
    while waiting:
        module = waiting.pop()
        path = path_of(module)
        if path is None or module in needed or not os.path.isfile(path):
            continue
        needed[module] = path
        waiting += imported_by(path)
        waiting += [module.rpartition(".")[0]] if "." in module else []

    targets = {
        f"{module.replace('.', '/')}/__init__.py" if path.endswith("/__init__.py") else f"{module.replace('.', '/')}.py"
        for module, path in needed.items()
    }
    assert targets == {program.target for program in GATE_PROGRAMS}
