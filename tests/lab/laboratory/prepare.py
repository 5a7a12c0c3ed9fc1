"""
aisb on a host: the tree copied to the account, a virtual environment, the images.

Each step is skipped when what it is made from has not changed, and does nothing while there is no aisb to install.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import time
from typing import TYPE_CHECKING

from laboratory import handover, job, machine
from laboratory.account import environment, write_home
from laboratory.locks import locked
from laboratory.settings import ACCOUNT, HOME, TREE

if TYPE_CHECKING:
    from pathlib import Path

    from laboratory.world import World

IMAGE_BUILD = """
aisb build --harness claude
aisb build
podman images --quiet --filter label=aisb.test | sort -u | xargs -r podman rmi --force >&2 || :
for name in aisb-sandbox aisb-gate; do
    podman images --quiet --filter "reference=localhost/$name" | tail -n +5 | xargs -r podman rmi >&2 || :
done
"""
"""
Run by `sh -e` in the machine's network, with the environment of `account.environment` (AISB_BASE_IMAGE among it).
Of each image the newest four are kept: a changing tree would fill the disk. What tests have built and were killed over does
not count as one.
"""

IMAGE_INPUTS = ("pyproject.toml", "aisb", "gate", "templates")
INSTALL_SECONDS = 600.0
BUILD_SECONDS = 1800.0

_SKIPPED = {
    ".git", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
    ".import_linter_cache", "node_modules", "dist", "build",
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


def prepare(running: World, *, again: bool = False) -> bool:
    """
    Bring the host up to the tree as it is now, and say whether aisb and its images are there.

    What failed is said on stderr, and tried again only when what it is made from has changed, or with `again`.
    """
    host = running.host
    wanted = list_tree(str(TREE))
    stamp = host.cache / "tree.json"
    if _read(stamp) == wanted and not again:
        return True
    with locked(host.cache / "tree.lock"):
        _copy(wanted, _read(stamp) or {}, host.home / "tree")
        done = _install(running, wanted, again=again) and _build_images(running, wanted, again=again)
        stamp.write_text(json.dumps(wanted))
    return done


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
    account = pwd.getpwnam(ACCOUNT)
    for folder in {(target / path).parent for path in wanted if path.startswith("aisb/") and path.endswith(".py")}:
        # Root's tree, but the account's compiled code: an installed aisb is not compiled at each start either.
        compiled = folder / "__pycache__"
        compiled.mkdir(exist_ok=True)
        os.chown(compiled, account.pw_uid, account.pw_gid)


def _install(running: World, listing: Listing, *, again: bool) -> bool:
    """
    A virtual environment with the tree installed in place: the tree's own code is always current.
    """
    project = (TREE / "pyproject.toml").read_bytes()
    # The build wants files that the project file names, such as the readme.
    beside = sorted(path for path in listing if "/" not in path)
    digest = hashlib.sha256(project + "\n".join(beside).encode()).hexdigest()
    script = f"rm -rf {HOME}/venv && python3 -m venv {HOME}/venv && {HOME}/venv/bin/pip install -q -e {HOME}/tree"
    return _step(running, "installing aisb", ("sh", "-c", script), digest, seconds=INSTALL_SECONDS, again=again)


def _build_images(running: World, listing: Listing, *, again: bool) -> bool:
    digest = hashlib.sha256()
    for path in sorted(listing):
        if path.split("/")[0] in IMAGE_INPUTS:
            digest.update(f"{path}\0".encode() + (running.host.home / "tree" / path).read_bytes())
    build = ("sh", "-ec", IMAGE_BUILD)
    return _step(running, "building images", build, digest.hexdigest(), seconds=BUILD_SECONDS, again=again)


def _step(running: World, title: str, argv: tuple[str, ...], digest: str, *, seconds: float, again: bool) -> bool:
    """
    Run `argv` as the account in the machine's network, once for each digest; a failed one again if asked to.
    """
    host = running.host
    name = title.replace(" ", "-")
    stamp, log = host.cache / f"{name}.stamp", host.cache / f"{name}.log"
    last = stamp.read_text() if stamp.exists() else ""
    if last == f"{digest} done" or (last == f"{digest} failed" and not again):
        return last.endswith("done")
    machine.say(f"{title} on {host.name} (log: {log})")
    started = time.monotonic()
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
    took = f"after {time.monotonic() - started:.0f} s"
    if code == 0:
        machine.say(f"{title}: done {took}")
    else:
        end = f"exited {code}" if code is not None else "did not end"
        machine.say(f"{title}: {end} {took}; see {log}")
        if again:
            machine.say(log.read_text(errors="replace")[-2000:])
    return code == 0
