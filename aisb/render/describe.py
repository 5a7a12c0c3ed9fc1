"""What `--dry-run` prints: the commands of a run, ready to paste, and the files that they need."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from aisb.domain.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.publish import Published


def dry_run_lines(
    *,
    files: Iterable[str],
    gate: tuple[str, ...],
    sandbox: tuple[str, ...],
    variables: Iterable[str],
    has_login: bool = False,
    publish: Iterable[Published] = (),
    read: Iterable[str] = (),
    settings: Iterable[str] = (),
) -> list[str]:
    """
    Shell lines and comments. Values of variables are never among them.

    `read` are the files that say something of the run, `settings` what is in force, each with where it was written.
    """
    return [
        *(f"# read: {printable(name)}" for name in read),
        *(f"# in force: {printable(text)}" for text in settings),
        "# ... and what adds up (entries, variables, mounts), each with where it was written: --print-policy",
        *(f"# rendered: {name}" for name in files),
        *(f"# beside it: a process that leads 127.0.0.1:{item.host} to port {item.port} inside" for item in publish),
        *(["# descriptor 4: user and password for the proxy"] if gate and has_login else []),
        *(
            [f"{_shown(gate)} 3>&1{' 4<login' if has_login else ''}", "# ... and wait until it says: ready"]
            if gate
            else []
        ),
        f"# descriptor 3: the variables {' '.join(sorted(variables))}; descriptor 4: the phases",
        f"{_shown(sandbox)} 3<variables 4>phases",
    ]


def _shown(argv: tuple[str, ...]) -> str:
    return shlex.join(argv)
