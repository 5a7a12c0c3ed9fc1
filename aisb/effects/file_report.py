"""What became of a project's files that the host may run: compared with what was there before the run."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from aisb.domain.file_changes import Changed, FileReport, NewRepository
from aisb.domain.git_config import parse_git_config, runs_something
from aisb.domain.protected import DIRECTORY, parents_of
from aisb.effects.shield import same, watched_at
from aisb.effects.state import make_private, write_whole
from aisb.effects.survey import stamps_of, survey, survey_of_git
from aisb.effects.tree import FILE, LINK, Tree, is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.effects.shield import Shield, Watched
    from aisb.effects.survey import Survey
    from aisb.effects.watch import Watch

_MOST_KEPT = 20
_LARGEST_KEPT = 256_000


def report_of(project: str, shield: Shield, watch: Watch | None, copies: str) -> FileReport:
    """
    Compare. `copies` is the directory for copies of what was changed; it is made where there are some.

    `watch` is None where it went with the aisb that watched: what it saw meanwhile is not known any more.
    """
    pairs = [(before, watched_at(before.path, before.kind)) for before in shield.watched]
    changed = tuple(_changed(before, now, copies) for before, now in pairs if not same(before, now))
    vain = sorted(watch.attempts - {found.path for found in changed}) if watch else ()
    attempts = tuple(_in(project, path) for path in vain)
    watched = {before.path for before in shield.watched}
    looks = tuple(_look_again(root, before, watched) for root, before in shield.surveys)
    return FileReport(
        protected=changed,
        runnable=tuple((_in(project, path), what) for found in looks for path, what in found.runnable),
        repositories=tuple(
            found._replace(path=_in(project, found.path)) for look in looks for found in look.repositories
        ),
        attempts=attempts,
        events=tuple(watch.events) if watch else (),
        crowded=tuple(
            root for root, look in zip((root for root, _ in shield.surveys), looks, strict=True) if look.is_crowded
        ),
    )


class _Look(NamedTuple):
    """What is new in one directory, by whole paths."""

    runnable: tuple[tuple[str, str], ...] = ()
    repositories: tuple[NewRepository, ...] = ()
    is_crowded: bool = False


def _look_again(root: str, before: Survey, watched: set[str]) -> _Look:
    """Nothing where the directory cannot be looked at any more."""
    try:
        with Tree(root) as tree:
            now = survey_of_git(tree) if before.is_git else survey(tree)
            new = [path for path in now.repositories if path not in before.repositories]
            repositories = tuple(_new_repository(tree, path) for path in new)
            # Of what was looked at, though no survey would, too: paths that somebody asked not to protect.
            runnable = now.runnable | stamps_of(tree, before.runnable.keys() - now.runnable.keys())
    except OSError:
        return _Look()
    differences = ((f"{root}/{path}", what) for path, what in _differences(before.runnable, runnable))
    return _Look(
        tuple((path, what) for path, what in differences if watched.isdisjoint((path, *parents_of(path)))),
        tuple(
            found._replace(path=f"{root}/{found.path}".rstrip("/"))
            for found in repositories
            if found.settings or found.hooks
        ),
        before.is_whole and not now.is_whole,
    )


def _in(project: str, path: str) -> str:
    """From the project on what is in it, and whole what is not."""
    return "" if path == project else path.removeprefix(f"{project}/") if project else path


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
    # Of a path that is no text, too; and of two that end alike each has its own.
    name = os.fsencode(before.path)
    path = f"{make_private(copies)}/{sha256(name).hexdigest()[:16]}-{quote(name, safe='')[-160:]}"
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
