"""Where Python looks for modules: never where an agent can write."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_REMEDY = "unset PYTHONPATH, or install aisb by ./install.sh, whose command does not heed it"


def need_own_imports(environ: Mapping[str, str], path: Iterable[str], project: str, *, isolated: bool) -> None:
    """
    Raises Unavailable where Python would import from the current directory or from the project.

    What lies there was run at the start of Python already, as the user and outside of any sandbox: all that is left
    is to say so. `path` is sys.path; `isolated` whether Python was started by -I, which heeds neither.
    """
    if isolated:
        return
    for place in environ.get("PYTHONPATH", "").split(os.pathsep) if environ.get("PYTHONPATH") else ():
        if not place.startswith("/"):
            what = f"has {place!r}, which is no absolute path" if place else "has an empty element"
            raise Unavailable(f"PYTHONPATH {what}: the current directory's code runs outside of the sandbox", _REMEDY)
    for place in path:
        if not place.startswith("/") or (project and _is_within(os.path.realpath(place), project)):
            raise Unavailable(
                f"Python imports from {place or '.'}: the project's code runs outside of the sandbox", _REMEDY
            )


def need_own_imports_here(project: str) -> None:
    """The same of this process."""
    need_own_imports(os.environ, sys.path, project, isolated=bool(sys.flags.isolated))


def _is_within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree + "/")
