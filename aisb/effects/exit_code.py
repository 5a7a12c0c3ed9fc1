"""
The exit code of a command whose podman has lost it.

podman may find its container gone, because its own clean-up was faster, before it has read how the container ended: it
ends with 127 then, as for a command that is not there (containers/podman#25479). Its record of events still knows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisb.effects.process import Command
from aisb.errors import AisbError
from aisb.render.argv import container_name

if TYPE_CHECKING:
    from aisb.effects.process import Runner

_SECONDS = 10.0


def recorded_exit_code(podman: str, run: str, seconds: float, runner: Runner) -> int | None:
    """What podman has written down of the run's end, `seconds` after its start at most; None where nothing is there."""
    argv = (
        podman, "events",
        "--stream=false",
        "--since", f"{int(seconds) + 60}s",
        "--filter", f"container={container_name(run)}",
        "--filter", "event=died",
        "--format", "json",
    )  # fmt: skip
    try:
        said = runner.run(Command(argv=argv, timeout_seconds=_SECONDS))
    except AisbError:
        return None
    return _code_of(said.stdout) if said.code == 0 else None


def _code_of(lines: bytes) -> int | None:
    for line in reversed(lines.splitlines()):
        try:
            event: Any = json.loads(line)
        except ValueError:
            return None
        if not isinstance(event, dict) or event.get("Status") != "died":
            return None
        # podman 4 leaves a 0 out.
        code = event.get("ContainerExitCode", 0)
        return code if isinstance(code, int) and 0 <= code <= 255 else None
    return None
