"""What a run that goes on is: as aisb remembers it, and as podman has it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from aisb.effects.process import Command, run_json
from aisb.effects.records import about_of, published_of
from aisb.effects.state import read_if_there
from aisb.render.argv import container_name

if TYPE_CHECKING:
    from aisb.effects.process import Runner
    from aisb.effects.session import Session

_SECONDS = 30
# 0 stands for none. Of processors billionths.
_LIMITS = {"memory": "Memory", "nanoCpus": "NanoCpus", "pids": "PidsLimit"}


def state_of(session: Session, podman: str, runner: Runner) -> dict[str, Any]:
    """Raises CommandError where podman does not know its container, as of a run that is about to begin or to end."""
    name = container_name(session.run)
    (found,) = run_json(runner, Command(argv=(podman, "container", "inspect", name), timeout_seconds=_SECONDS))
    mode = (read_if_there(f"{session.files}/mode") or b"").decode("ascii", "replace").strip()
    policy = json.loads(read_if_there(f"{session.files}/policy.json") or b"null")
    gate = os.path.dirname(os.path.dirname(session.path))
    limits = found.get("HostConfig") or {}
    return {
        **about_of(session),
        "container": name,
        "image": found.get("ImageName", ""),
        "state": (found.get("State") or {}).get("Status", ""),
        "pid": (found.get("State") or {}).get("Pid", 0),
        "net": mode,
        "gate": os.path.basename(gate) if os.path.basename(os.path.dirname(gate)) == "g" else None,
        "policy": policy,
        "publish": published_of(session),
        "cwd": (found.get("Config") or {}).get("WorkingDir", ""),
        "mounts": [_mount(item) for item in found.get("Mounts") or ()],
        "limits": {key: limits.get(theirs) or 0 for key, theirs in _LIMITS.items()},
    }


def _mount(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": item.get("Name") or item.get("Source", ""),
        "target": item.get("Destination", ""),
        "readOnly": not item.get("RW", True),
    }
