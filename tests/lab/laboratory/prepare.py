"""
aisb on a host: the tree copied to the account, a virtual environment, the images.

Each step is skipped when what it is made from has not changed, and does nothing while there is no aisb to install.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from laboratory import handover, job, machine, world
from laboratory.account import environment, write_home
from laboratory.settings import HOME, TREE, LabError
from laboratory.world import World

IMAGE_BUILD = ("aisb", "build")
"""Run in the machine's network with the environment of `account.environment` (AISB_BASE_IMAGE among it)."""

IMAGE_INPUTS = ("pyproject.toml", "aisb", "gate", "templates")
BUILD_SECONDS = 1800

_SKIPPED = {
    ".git", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache",
    "node_modules", "dist", "build",
}  # fmt: skip

Listing = dict[str, list[int]]
"""Relative path -> mtime in ns, size and mode."""


def list_tree(root: str) -> Listing:
    found: Listing = {}
    pending = [""]
    while pending:
        directory = pending.pop()
        with os.scandir(os.path.join(root, directory)) as entries:
            for entry in entries:
                if entry.name in _SKIPPED or entry.name.endswith(".egg-info"):
                    continue
                path = os.path.join(directory, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    found[path] = [status.st_mtime_ns, status.st_size, status.st_mode]
    return found


def prepare(running: World, *, strict: bool = False) -> None:
    """
    Bring the host up to the tree as it is now. A failed build is said on stderr, or raised when `strict`.
    """
    host = running.host
    wanted = list_tree(str(TREE))
    stamp = host.cache / "tree.json"
    if _read(stamp) != wanted or strict:
        with world.locked(host.cache / "tree.lock"):
            _copy(wanted, _read(stamp) or {}, host.home / "tree")
            _install(running, wanted, strict=strict)
            _build_images(running, wanted, strict=strict)
            stamp.write_text(json.dumps(wanted))


def _read(stamp: Path) -> Listing | None:
    try:
        listing: Listing = json.loads(stamp.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return listing


def _copy(wanted: Listing, present: Listing, target: Path) -> None:
    for path in present.keys() - wanted.keys():
        (target / path).unlink(missing_ok=True)
    for path in sorted(wanted):
        if present.get(path) == wanted[path] and (target / path).exists():
            continue
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        fresh = copy.with_name(f".{copy.name}.new")
        shutil.copy2(TREE / path, fresh, follow_symlinks=False)
        if not fresh.is_symlink():
            fresh.chmod(fresh.stat().st_mode | 0o444)
        fresh.rename(copy)


def _install(running: World, listing: Listing, *, strict: bool) -> None:
    """
    A virtual environment with the tree installed in place: the tree's own code is always current.
    """
    project = TREE / "pyproject.toml"
    if not project.exists():
        return
    # The build wants files that the project file names, such as the readme.
    beside = sorted(path for path in listing if "/" not in path)
    digest = hashlib.sha256(project.read_bytes() + "\n".join(beside).encode()).hexdigest()
    script = (
        f"rm -rf {HOME}/venv && python3 -m venv {HOME}/venv && {HOME}/venv/bin/pip install -q -e {HOME}/tree"
    )
    _step(running, "installing aisb", ("sh", "-c", script), digest, seconds=600, strict=strict)


def _build_images(running: World, listing: Listing, *, strict: bool) -> None:
    if not (running.host.home / "venv/bin/aisb").exists():
        return
    inputs = {path: value for path, value in listing.items() if path.split("/")[0] in IMAGE_INPUTS}
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    _step(running, "building images", IMAGE_BUILD, digest, seconds=BUILD_SECONDS, strict=strict)


def _step(
    running: World, title: str, argv: tuple[str, ...], digest: str, *, seconds: float, strict: bool
) -> None:
    """
    Run `argv` as the account in the machine's network, once for each digest; a failed one again when `strict`.
    """
    host = running.host
    stamp = host.cache / f"{title.replace(' ', '-')}.stamp"
    last = stamp.read_text().split() if stamp.exists() else []
    if last[:1] == [digest] and (last[1] == "done" or not strict):
        return
    log = host.cache / f"{title.replace(' ', '-')}.log"
    machine.say(f"{title} on {host.name} (log: {log})")
    started = time.monotonic()
    os.makedirs(host.home / "login", exist_ok=True)
    write_home(str(host.home / "login"), settings=True)
    with log.open("w") as file:
        code = job.run(
            running,
            argv,
            name="prepare",
            net="machine",
            environment=environment(f"{HOME}/login") | handover.variables(),
            directory=f"{HOME}/login",
            seconds=seconds,
            output=file.fileno(),
        )
    stamp.write_text(f"{digest} {'done' if code == 0 else 'failed'}")
    took = f"{time.monotonic() - started:.0f} s"
    if code != 0:
        how = f"exited {code}" if code is not None else "did not end"
        message = f"{title} {how} after {took}:\n{log.read_text(errors='replace')[-2000:]}"
        if strict:
            raise LabError(message)
        machine.say(message)
    else:
        machine.say(f"{title} took {took}")
