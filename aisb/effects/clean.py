"""Look for what aisb left behind in podman's store and on disk, and take it away."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.domain.clean import (
    CONTAINER,
    DIRECTORY,
    GATE,
    IMAGE,
    VOLUME,
    Home,
    Image,
    Removal,
    homes_to_remove,
    images_to_remove,
)
from aisb.domain.images import GATE as GATE_ROLE
from aisb.domain.images import SANDBOX
from aisb.effects.gates import remove_gate, remove_orphan, unused_gates
from aisb.effects.plan import forget_image
from aisb.effects.process import Command, run_json, run_ok
from aisb.effects.session import every_orphan, living, session_at
from aisb.effects.state import read_if_there
from aisb.render.clean import removal_argv
from aisb.render.gate import gate_name

if TYPE_CHECKING:
    from aisb.effects.process import Runner
    from aisb.effects.state import Directories

_LOOK_SECONDS = 60.0
# podman deletes every layer of an image.
_REMOVE_SECONDS = 600.0
_ROLE, _RUN = "aisb.role", "aisb.run"


class Wish(NamedTuple):
    """What is to go: `everything` that is not in use, and homes whose names match `homes`, "" for none."""

    everything: bool = False
    homes: str = ""


class Store(NamedTuple):
    """podman's store, and where aisb keeps things."""

    podman: str
    runner: Runner
    directories: Directories

    def listed(self, *words: str) -> list[dict[str, Any]]:
        """What podman lists as JSON. Raises Unavailable for an answer that cannot be read."""
        argv = (self.podman, *words, "--format", "json")
        found = run_json(self.runner, Command(argv=argv, timeout_seconds=_LOOK_SECONDS))
        return [item for item in found or [] if isinstance(item, dict)]


def find_removals(store: Store, wish: Wish) -> list[Removal]:
    """
    What is to be taken away: containers of runs that are over, what else these left, gates that no run uses, then
    images, then homes.
    """
    containers = store.listed("ps", "--all")
    left = [
        *_left_behind(store, containers),
        *(
            Removal(DIRECTORY, session.path, f"of run {session.run}, which is over")
            for session in every_orphan(store.directories.runtime)
        ),
    ]
    gates = unused_gates(store.directories.runtime) if wish.everything else []
    going = {removal.name for removal in left} | set(_gates_among(containers, gates))
    used = {str(item.get("ImageID", "")) for item in containers if _name_of(item) not in going}
    images = images_to_remove(_images(store), used, everything=wish.everything)
    homes = homes_to_remove(_homes(store), wish.homes, bytes_below) if wish.homes else []
    return [*left, *(Removal(GATE, name, "no run uses it") for name in gates), *images, *homes]


def _gates_among(containers: list[dict[str, Any]], gates: list[str]) -> list[str]:
    """The containers of these gates: their names begin so, and a gate of one run has that run's id behind it."""
    starts = tuple(map(gate_name, gates))
    return [name for item in containers if (name := _name_of(item)).startswith(starts)]


def remove(store: Store, removal: Removal) -> str:
    """Take one thing away; "" or why podman would not."""
    if removal.kind == GATE:
        return remove_gate(store.podman, store.directories, removal.name, store.runner)
    if removal.kind == DIRECTORY:
        return remove_orphan(session_at(*os.path.split(removal.name)), store.directories.state)
    if removal.kind == IMAGE:
        forget_image(store.directories.cache, removal.name)
    if removal.kind == VOLUME:
        # First: a run that begins now makes it again, with its label.
        _forget_home(store, removal.name)
    said = store.runner.run(Command(argv=removal_argv(store.podman, removal), timeout_seconds=_REMOVE_SECONDS))
    lines = said.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if said.code == 0 else lines[-1] if lines else f"podman exited {said.code}"


def free_bytes(store: Store) -> int:
    """What is free where podman's store lies."""
    command = Command((store.podman, "info", "--format", "{{.Store.GraphRoot}}"), timeout_seconds=_LOOK_SECONDS)
    found = os.statvfs(run_ok(store.runner, command).stdout.decode("utf-8", "surrogateescape").strip())
    return found.f_bavail * found.f_frsize


def _left_behind(store: Store, containers: list[dict[str, Any]]) -> list[Removal]:
    alive = {session.run for session in living(store.directories.runtime)}
    labelled = [(_name_of(item), item.get("Labels") or {}) for item in containers]
    return [
        Removal(CONTAINER, name, f"of run {labels[_RUN]}, which is over")
        for name, labels in labelled
        if labels.get(_ROLE) == SANDBOX and labels.get(_RUN) and labels[_RUN] not in alive and name
    ]


def _name_of(container: dict[str, Any]) -> str:
    return str((container.get("Names") or [""])[0])


def _images(store: Store) -> list[Image]:
    found = [
        item for role in (SANDBOX, GATE_ROLE) for item in store.listed("images", "--filter", f"label={_ROLE}={role}")
    ]
    return [
        Image(
            name=str(name),
            id=str(item["Id"]),
            role=str(item["Labels"][_ROLE]),
            labels=item["Labels"],
            created=int(item.get("Created") or 0),
            size=int(item.get("Size") or 0),
        )
        for item in found
        for name in item.get("Names") or ()
    ]


def _homes(store: Store) -> list[Home]:
    # Of two filters podman lists what passes one of them.
    found = store.listed("volume", "ls", "--filter", "dangling=true")
    ours = [item for item in found if (item.get("Labels") or {}).get(_ROLE) == "home"]
    return [
        Home(str(item["Name"]), _project_of(store, str(item["Name"])), str(item.get("Mountpoint") or ""))
        for item in ours
    ]


def bytes_below(place: str) -> int:
    """What the files below take up on the disk, each once; less what the caller may not look at. 0 for no place."""
    seen: set[tuple[int, int]] = set()
    total = 0
    waiting = [place] if place else []
    while waiting:
        # An agent may have made directories that its user cannot read, and more can be gone by now.
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    total += 512 * status.st_blocks
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return total


def _project_of(store: Store, name: str) -> str:
    return (read_if_there(_home_stamp(store, name)) or b"").decode("utf-8", "surrogateescape")


def _forget_home(store: Store, name: str) -> None:
    if os.path.exists(_home_stamp(store, name)):
        os.unlink(_home_stamp(store, name))


def _home_stamp(store: Store, name: str) -> str:
    return f"{store.directories.state}/homes/{os.path.basename(name)}"
