"""The sentences that aisb refuses with, read off its code: what varies in them is `…`."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from aisb import errors

ROOT = Path(__file__).parents[1]
# What a refusal of a usage error says to write stands below it; these need looking up.
CLASSES = ("Unavailable", "CommandError", "Unprotected", "Untrusted", "InternalError", "Unwritable")
USAGE = ("UsageError",)
# What the sandbox's first program refuses with (77).
_LAUNCHER = {"launcher": "Refused", "probe": "Failure", "seeding": "Unseedable"}


class Sentence(NamedTuple):
    """A sentence as it is written in the code, its exit code, and where."""

    text: str
    code: int
    place: str


def sentences(classes: tuple[str, ...] = CLASSES) -> list[Sentence]:
    """Those of aisb's own errors, and of the sandbox's first program where it refuses (77)."""
    found = [
        Sentence(text, getattr(errors, name).exit_code, place)
        for path in sorted((ROOT / "aisb").rglob("*.py"))
        for name, text, place in _raised(path, classes)
    ]
    if classes == CLASSES:
        for program, error in _LAUNCHER.items():
            raised = _raised(ROOT / f"gate/{program}.py", (error,))
            found += [Sentence(text, errors.Unprotected.exit_code, place) for _, text, place in raised]
    return [sentence for sentence in found if re.search("[A-Za-z]", sentence.text)]


def _raised(path: Path, classes: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Class, sentence and place of each error that is made there of a text."""
    tree = ast.parse(path.read_text())
    found = []
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        names = _texts_of(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes and node.args:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found += [(node.func.id, text, place) for text in _of(node.args[0], names)]
    return list(dict.fromkeys(found))


def _texts_of(function: ast.FunctionDef) -> dict[str, list[str]]:
    """The names of the function that hold one text or another."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).extend(_of(node.value, {}))
    return found


def _of(node: ast.expr, names: dict[str, list[str]]) -> list[str]:
    """The texts that an expression may be; none where the code does not say."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [_short("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))]
    if isinstance(node, ast.BinOp):
        left, right = (_of(side, names) or ["…"] for side in (node.left, node.right))
        return [_short(left[0] + right[0])]
    if isinstance(node, ast.IfExp):
        return [*_of(node.body, names), *_of(node.orelse, names)]
    return names.get(node.id, []) if isinstance(node, ast.Name) else []


def _short(text: str) -> str:
    """With one sign for several things that vary beside each other."""
    return re.sub(r"…(?: ?…)*", "…", text)
