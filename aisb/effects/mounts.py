"""What a person wants mounted besides the project, looked at on the host: resolved, and refused where it must be."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.mounts import PROJECT, MountWish, check_apart, check_target, default_target
from aisb.domain.printing import shell_word
from aisb.domain.protected import plain, relative_to
from aisb.effects.group_access import access_notes, need_access
from aisb.effects.safe_files import is_reached_through
from aisb.effects.tree import DIRECTORY, FILE, OTHER, Tree, is_directory, is_file
from aisb.errors import Untrusted, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.domain.protected import Cover
    from aisb.effects.git_directory import GitDirectory

# They hold sockets of agents, today or tomorrow.
_OF_AGENTS = (".ssh", ".gnupg")
# Holding the sockets of engines, of sessions and of other users' programs, or no files at all.
_NEVER = ("/dev", "/proc", "/run", "/sys", "/var/run")
_MOST_ENTRIES = 5000
_MOST_FILES = 200


class Placed(NamedTuple):
    """One mount: `named` is the source as it was written, made whole; `origin` is where."""

    named: str
    source: str
    target: str
    read_only: bool
    identity: str
    is_directory: bool
    notes: tuple[str, ...] = ()
    git: GitDirectory | None = None
    origin: str = ""


class Around(NamedTuple):
    """What mounts are judged by: the project, "" for none, the user's home, and the directories of aisb and podman."""

    project: str
    home: str
    own: tuple[str, ...]
    deciding: tuple[str, ...]
    volumes: str
    # Where the project is inside.
    target: str = PROJECT


def find_places(wishes: Iterable[MountWish], around: Around) -> tuple[Placed, ...]:
    """Every mount that was asked for, the outer ones first. Raises UsageError or Untrusted for what may not be one."""
    places = [place for wish in wishes for place in _places(wish, around)]
    check_apart([place.target for place in places], "--mount")
    _check_points(places, around)
    return tuple(sorted(places, key=lambda place: place.target.split("/")))


def place_of_git(git: GitDirectory, around: Around) -> Placed:
    """The mount of a repository that lies elsewhere. Raises UsageError where it may not be one."""
    wish = MountWish(git.source, git.target, read_only=False, origin=f"{around.project}/.git")
    check_target(git.target, wish.origin)
    _refuse_source(wish, git.source, around)
    status = os.stat(git.source)
    identity = f"{status.st_dev} {status.st_ino}"
    place = Placed(git.source, git.source, git.target, read_only=False, identity=identity, is_directory=True)
    return place._replace(git=git, origin=".git")


def _places(wish: MountWish, around: Around) -> Iterator[Placed]:
    named = _whole(wish)
    real = os.path.realpath(named)
    _refuse_detours(wish, named, real, around)
    target = wish.target or default_target(plain(named), project=around.project, home=around.home)
    if rest := relative_to(target, PROJECT):
        target = f"{around.target}/{rest}"
    check_target(target, wish.origin)
    try:
        status = os.stat(real)
    except OSError as error:
        raise UsageError(f"{wish.origin} {wish.source}: {error.strerror}", hint="name what is there") from error
    _refuse_source(wish, real, around)
    identity = f"{status.st_dev} {status.st_ino}"
    is_directory = stat.S_ISDIR(status.st_mode)
    place = Placed(named, real, target, wish.read_only, identity, is_directory, origin=wish.origin)
    if not place.is_directory or _is_in_project(real, around):
        yield place
        return
    need_access(real, f"{wish.origin} {wish.source}: ")
    notes = () if wish.read_only else tuple(access_notes(real))
    yield from (found._replace(notes=(*found.notes, *notes)) for found in _of_directory(place, wish, around))


def _whole(wish: MountWish) -> str:
    path = os.path.expanduser(wish.source) if wish.source.startswith("~") else wish.source
    if path.startswith("/"):
        return path
    if not wish.origin.startswith("--"):
        raise UsageError(f"{wish.origin}: mount {wish.source!r} is a path from nowhere", hint="write the whole path")
    try:
        return f"{os.getcwd()}/{path}"
    except FileNotFoundError:
        what = f"{wish.origin} {wish.source}: the current directory no longer exists"
        raise UsageError(what, hint="write the whole path") from None


def _refuse_detours(wish: MountWish, named: str, real: str, around: Around) -> None:
    """Raise Untrusted for a path that leads to where an agent said, or writes."""
    if is_reached_through(named, around.project) and not _is_in_project(real, around):
        raise Untrusted(
            f"{wish.origin} {wish.source} leads through the project to {real}, and the agent can change where it leads",
            hint=f"name it itself: {wish.origin} {shell_word(real)}",
        )
    if is_reached_through(named, around.volumes):
        raise Untrusted(
            f"{wish.origin} {wish.source} lies in {around.volumes}, where agents write their homes",
            hint="name another source",
        )


def _is_in_project(real: str, around: Around) -> bool:
    return bool(around.project) and (real == around.project or bool(relative_to(real, around.project)))


def _refuse_source(wish: MountWish, real: str, around: Around) -> None:
    """Raise UsageError for a source that holds far more than anybody means, or what decides over sandboxes."""
    hint = "name a directory below it"
    if real == "/" or around.home == real or relative_to(around.home, real):
        raise UsageError(f"{wish.origin} {wish.source}: {real} holds your home directory", hint=hint)
    is_socket = stat.S_ISSOCK(os.stat(real).st_mode)
    if any(real == tree or relative_to(real, tree) for tree in _NEVER) and not is_socket:
        raise UsageError(f"{wish.origin} {wish.source}: {real} has the system's own sockets and devices", hint=hint)
    for directory in around.own if wish.read_only else (*around.own, *around.deciding):
        if real == directory or relative_to(real, directory) or relative_to(directory, real):
            what = "decides what a sandbox may do or what runs outside of it"
            raise UsageError(f"{wish.origin} {wish.source}: {directory} {what}", hint="name another source")


def _of_directory(place: Placed, wish: MountWish, around: Around) -> Iterator[Placed]:
    """The directory itself, or file by file where there is a socket in it, or where there are such as a rule."""
    with Tree(place.source) as tree:
        sockets, is_whole = _sockets(tree)
        is_known = any(place.source == f"{around.home}/{name}" for name in _OF_AGENTS)
        if not sockets and not is_known:
            notes = () if is_whole else (f"{place.named} is large: whether there are sockets in it is not known",)
            yield place._replace(notes=notes)
            return
        if not place.read_only:
            why = f"has the socket {sockets[0]}" if sockets else "is where agents have their sockets"
            raise UsageError(
                f"{wish.origin} {wish.source} {why}: not to be mounted writable", hint="mount it read-only"
            )
        note = f"{place.named} is mounted file by file, without its sockets and links"
        for number, path in enumerate(_files(tree, wish)):
            yield _of_file(place, tree, path)._replace(notes=() if number else (note,))


def _of_file(place: Placed, tree: Tree, path: str) -> Placed:
    status = tree.status(path)
    identity = f"{status.st_dev} {status.st_ino}" if status else ""
    named, source, target = (f"{above}/{path}" for above in (place.named, place.source, place.target))
    return Placed(named, source, target, True, identity, False, origin=place.origin)


def _sockets(tree: Tree) -> tuple[list[str], bool]:
    """The sockets of a directory, and whether all of it was looked at."""
    found, left, pending = [], _MOST_ENTRIES, [""]
    while pending and left > 0:
        directory = pending.pop(0)
        entries = tree.entries(directory)
        left -= len(entries)
        for entry in entries:
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.kind == DIRECTORY:
                pending.append(path)
            elif entry.kind == OTHER and _is_socket(tree.status(path)):
                found.append(path)
    return found, left > 0


def _is_socket(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISSOCK(status.st_mode)


def _files(tree: Tree, wish: MountWish) -> list[str]:
    found, pending = [], [""]
    while pending:
        directory = pending.pop(0)
        for entry in tree.entries(directory):
            path = f"{directory}/{entry.name}" if directory else entry.name
            pending += [path] if entry.kind == DIRECTORY else []
            found += [path] if entry.kind == FILE else []
        if len(found) + len(pending) > _MOST_FILES:
            raise UsageError(
                f"{wish.origin} {wish.source} has a socket and too many files to mount them one by one",
                hint="name the files or directories that are needed",
            )
    return found


def _check_points(places: list[Placed], around: Around) -> None:
    """
    Raise UsageError where a mount in another would need a place that is not there.

    podman would make one, on the host, that belongs to nobody here.
    """
    project = (around.target, around.project)
    roots = [project, *((place.target, place.source) for place in places if place.is_directory)]
    for place in places:
        outer = [(target, source) for target, source in roots if relative_to(place.target, target) and source]
        if not outer:
            continue
        target, source = max(outer, key=lambda pair: len(pair[0]))
        with Tree(source) as tree:
            status = tree.status(relative_to(place.target, target))
        if not (is_directory(status) if place.is_directory else is_file(status)):
            kind = "directory" if place.is_directory else "file"
            shown = f"{source}/{relative_to(place.target, target)}"
            raise UsageError(
                f"--mount: there is no {kind} {shown} to mount {place.named} over", hint="make an empty one first"
            )


def need_own_targets(places: Iterable[Placed], covered: Iterable[str]) -> None:
    """Raise UsageError for a mount on or below what is protected or masked."""
    targets = list(covered)
    for place in places:
        for target in targets:
            if place.target == target or relative_to(place.target, target):
                what = f"--mount: {place.target} would lie on {target}, which is protected or masked"
                raise UsageError(what, hint="name another target")


def need_no_bypass(places: Iterable[Placed], protected: Iterable[Cover], masked: Iterable[Cover]) -> None:
    """Raise UsageError for a mount that would show, or let write, what is protected or masked, by another way."""
    hidden, kept = list(masked), list(protected)
    targets = {cover.target for cover in (*hidden, *kept)}
    for place in places:
        for cover in (*hidden, *([] if place.read_only else kept)):
            if _is_way_to(place, cover, targets):
                what, flag = ("masked", "--no-default-masks") if cover in hidden else ("protected", "--unprotect PATH")
                raise UsageError(
                    f"--mount {place.named}: {cover.source} is {what}, and would not be at {place.target}",
                    hint=f"leave one of the two out, or add: {flag}",
                )


def _is_way_to(place: Placed, cover: Cover, targets: set[str]) -> bool:
    """Whether the place shows what is covered, or a part of it, where no cover lies on it."""
    if cover.source == place.source or relative_to(cover.source, place.source):
        return f"{place.target}{cover.source.removeprefix(place.source)}" not in targets
    return bool(relative_to(place.source, cover.source))
