"""What became of a project's files that the host may run: compared with what was there before the run."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from aisb.domain.file_changes import Changed, FileReport, NewRepository
from aisb.domain.git_config import parse_git_config, runs_something
from aisb.domain.protected import DIRECTORY, parents_of
from aisb.effects.shield import same, watched_at
from aisb.effects.state import make_private, write_whole
from aisb.effects.survey import stamp_of, survey
from aisb.effects.tree import FILE, LINK, Tree, is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.effects.shield import Shield, Watched
    from aisb.effects.watch import Watch

_MOST_KEPT = 20
_LARGEST_KEPT = 256_000


def report_of(project: str, shield: Shield, watch: Watch, copies: str) -> FileReport:
    """Compare. `copies` is the directory for copies of what was changed; it is made where there are some."""
    pairs = [(before, watched_at(before.path, before.kind)) for before in shield.watched]
    changed = tuple(_changed(before, now, copies) for before, now in pairs if not same(before, now))
    vain = sorted(watch.attempts - {found.path for found in changed})
    attempts = tuple(path.removeprefix(f"{project}/") for path in vain)
    protected = {before.path.removeprefix(f"{project}/") for before in shield.watched}
    if not project or shield.survey is None:
        return FileReport(changed, attempts=attempts, events=tuple(watch.events))
    try:
        with Tree(project) as tree:
            now = survey(tree)
            new = [path for path in now.repositories if path not in shield.survey.repositories]
            repositories = tuple(_new_repository(tree, path) for path in new)
            runnable = now.runnable | _stamps(tree, shield.survey.runnable.keys() - now.runnable.keys())
    except OSError:
        return FileReport(changed, attempts=attempts, events=tuple(watch.events))
    return FileReport(
        protected=changed,
        runnable=tuple(
            (path, what)
            for path, what in _differences(shield.survey.runnable, runnable)
            if protected.isdisjoint((path, *parents_of(path)))
        ),
        repositories=tuple(found for found in repositories if found.settings or found.hooks),
        attempts=attempts,
        events=tuple(watch.events),
        is_crowded=shield.survey.is_whole and not now.is_whole,
    )


def _stamps(tree: Tree, paths: Iterable[str]) -> dict[str, str]:
    """Of what was looked at, though no survey would: paths that somebody asked not to protect."""
    return {path: stamp for path in paths if (stamp := stamp_of(tree, path))}


def _differences(before: dict[str, str], now: dict[str, str]) -> Iterator[tuple[str, str]]:
    for path in sorted(before.keys() | now.keys()):
        if not before.get(path) and path in now:
            yield path, "new"
        elif path in now and before[path] != now[path]:
            yield path, "changed"


def _changed(before: Watched, now: Watched, copies: str) -> Changed:
    return Changed(
        path=before.path,
        was_there=bool(before.stamp),
        is_there=bool(now.stamp),
        is_directory=before.kind == DIRECTORY,
        kept=_keep(before, copies) if before.content is not None else "",
    )


def _keep(before: Watched, copies: str) -> str:
    """Write down what was there, and forget the oldest of such copies."""
    if before.content is None or len(before.content) > _LARGEST_KEPT:
        return ""
    path = f"{make_private(copies)}/{quote(before.path, safe='')[-200:]}"
    try:
        write_whole(path, before.content)
    except OSError:
        return ""
    _forget_old(os.path.dirname(copies))
    return path


def _forget_old(directory: str) -> None:
    import shutil

    with suppress(OSError):
        kept = sorted(os.scandir(directory), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in kept[:-_MOST_KEPT]:
            shutil.rmtree(entry.path, ignore_errors=True)


def _new_repository(tree: Tree, path: str) -> NewRepository:
    is_bare = path.rpartition("/")[2] != ".git"
    if not is_bare and not is_directory(tree.status(path)):
        # A file or a link that says where the repository is: anywhere.
        target = tree.link(path)
        text = f"a link to {target}" if target else _text_of(tree, path)
        return NewRepository(path, (text,) if text else (), ())
    hooks = [entry.name for entry in tree.entries(f"{path}/hooks") if entry.kind in (FILE, LINK)]
    return NewRepository(path, tuple(_held(tree, path)), tuple(name for name in hooks if not name.endswith(".sample")))


def _text_of(tree: Tree, path: str) -> str:
    if is_file(tree.status(path)) and tree.read(path) is None:
        return "a file that is too large to be looked at, or closed"
    return tree.text(path).strip()


def _held(tree: Tree, path: str) -> Iterator[str]:
    """What in a git directory starts something, and what cannot be looked into but by git itself."""
    for name in ("config", "config.worktree"):
        found = (item for item in parse_git_config(tree.text(f"{path}/{name}")) if runs_something(item))
        yield from (f"{item.name}={item.value}" for item in found)
    for name in ("config", "config.worktree", "hooks"):
        place = f"{path}/{name}"
        if target := tree.link(place):
            yield f"{name} is a link to {target}"
        elif is_file(tree.status(place)) and tree.read(place) is None:
            yield f"{name} is too large to be looked at, or closed"
    if tree.status(f"{path}/commondir"):
        yield f"commondir={tree.text(f'{path}/commondir').strip()}"
