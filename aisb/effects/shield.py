"""The protected paths of a project as they are now: what is mounted over itself inside, and what is watched."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from aisb.domain.masks import is_exact, is_key, is_masked
from aisb.domain.printing import printable, shell_word
from aisb.domain.project import is_mountable
from aisb.domain.protected import (
    DIRECTORY,
    FILE,
    OF_A_PROJECT,
    Cover,
    Protected,
    of_other_repository,
    once,
    parents_of,
    parse_place,
    relative_to,
    without,
)
from aisb.effects.repositories import Repositories
from aisb.effects.survey import NOTHING_SEEN, Survey, stamp_of, survey, survey_of_git
from aisb.effects.tree import DIRECTORY as _DIRECTORY
from aisb.effects.tree import Tree, file_system_of, is_closed, is_directory, is_file
from aisb.errors import Unprotected
from aisb.render.argv import GIT_CONFIG, PROJECT_TARGET, nothing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aisb.domain.layers import Setting
    from aisb.effects.placeholders import Claim

# What was found, by its kind, and whether a path is there: with what earlier runs had found.
Earlier: TypeAlias = "Callable[[dict[str, list[str]], Callable[[str], bool]], dict[str, list[str]]]"

_MOST_FILES = 300
# There both names are one entry to the kernel, and what is mounted over it is over both.
_FOLDED_BY_THE_KERNEL = frozenset({"ext4", "f2fs", "vfat", "msdos", "exfat"})


class Watched(NamedTuple):
    """
    A protected path and what was there: `stamp` changes with it, "" where there was nothing.

    `content` are the bytes of a file, None of anything else.
    """

    path: str
    kind: str
    stamp: str
    content: bytes | None


class Shield(NamedTuple):
    """
    What protects a project: covers, the outer ones first, masked paths, and what to compare with afterwards: `surveys`
    are of each directory that can be written, by its path, and `survey` is of the first.

    `bare` is what was to be masked and cannot be, because of its name; `in_vain` what was asked for on the command line
    not to be protected, and is not by any rule; `unmatched` the flags that were given for what is not there.
    """

    covers: tuple[Cover, ...] = ()
    masks: tuple[Cover, ...] = ()
    watched: tuple[Watched, ...] = ()
    survey: Survey | None = None
    surveys: tuple[tuple[str, Survey], ...] = ()
    bare: tuple[str, ...] = ()
    in_vain: tuple[str, ...] = ()
    unmatched: tuple[tuple[str, str], ...] = ()


class Wishes(NamedTuple):
    """What was asked for: paths to protect besides, and not to, and which files are to read as empty."""

    protect: tuple[Setting, ...] = ()
    unprotect: tuple[Setting, ...] = ()
    masks: tuple[str, ...] = ()
    # Those of them that the command line names.
    named_masks: tuple[str, ...] = ()
    default_masks: bool = True
    home: str = ""
    git_files: tuple[str, ...] = ()
    # What links in the user's home lead to, of what is obeyed there.
    led_to: tuple[str, ...] = ()
    # Of a git directory: where its work tree is, and whether its configuration is to be shown as another.
    work_tree: str = ""
    has_config: bool = False


def look(tree: Tree, target: str, wishes: Wishes, claim: Claim | None, earlier: Earlier | None = None) -> Shield:
    """
    The shield of a project that is mounted at `target`. Missing directories are made in the name of `claim`.

    Without one nothing is made: the shield is that of a run which would make them all; `earlier` tells what runs before
    had found.
    """
    earlier = claim.seen_before if claim else earlier
    seen = NOTHING_SEEN if wishes.work_tree else _with_earlier(tree, survey(tree), earlier)
    protected = wanted(tree, wishes, seen)
    _refuse_links(tree, target, protected)
    _refuse_closed(tree, (above for item in protected for above in parents_of(item.path)))
    missing = missing_directories(tree, protected)
    if claim is not None:
        claim.make(tree, missing)
    wished = dict.fromkeys(_masked(tree, wishes, seen))
    masked = list(filter(is_mountable, wished))
    shown = [item for item in protected if item.path not in masked]
    _refuse_other_names(tree, shown)
    covers = tuple(_covers(tree, target, shown, missing if claim is None else []))
    if wishes.has_config:
        own = f"{target}/config"
        covers = tuple(cover._replace(shown=GIT_CONFIG) if cover.target == own else cover for cover in covers)
    # Of a repository whose work tree is the project nothing else is to be found than what is git's.
    found = survey_of_git(tree) if wishes.work_tree else _with_left_open(tree, wishes, seen)
    return Shield(
        covers=covers,
        masks=tuple(_masks(tree, target, masked, {cover.target: cover.read_only for cover in covers})),
        watched=tuple(watched(tree, item) for item in protected),
        survey=found,
        surveys=((tree.path, found),),
        bare=tuple(path for path in wished if path not in masked),
        in_vain=tuple(_in_vain(tree, wishes, seen)),
        unmatched=tuple(_unmatched(tree, wishes, seen)),
    )


def _unmatched(tree: Tree, wishes: Wishes, seen: Survey) -> Iterator[tuple[str, str]]:
    """Each flag, with its value, that means nothing that is there; what a file says is for many projects."""
    for item in wishes.protect:
        place = parse_place(item.value, item.named("protect"))
        if item.origin == "--protect" and place.kind != DIRECTORY and tree.status(place.path) is None:
            yield "--protect", item.value
    for pattern in wishes.named_masks:
        if not any(tree.status(path) for path in _meant_by(tree, (pattern,), seen)):
            yield "--mask", pattern


def _in_vain(tree: Tree, wishes: Wishes, seen: Survey) -> Iterator[str]:
    """The paths that somebody named by the flag and that take nothing out; what a file says is for many projects."""
    named = [item for item in wishes.unprotect if item.origin == "--unprotect"]
    found = _of_project(tree, wishes, seen) if named else []
    found = [*found, *_led_to(tree, found)]
    for item in named:
        place = parse_place(item.value, item.origin)
        if without(found, [place]) == found:
            yield place.path


def _with_earlier(tree: Tree, seen: Survey, earlier: Earlier | None) -> Survey:
    """What was found now, and what of earlier runs' findings is there still."""
    found = {"repositories": seen.repositories, "secrets": seen.secrets, "keys": seen.keys}
    if earlier is None:
        return seen
    together = earlier(
        {key: list(paths) for key, paths in found.items()},
        lambda path: tree.status(path) is not None or any(is_closed(tree.status(way)) for way in parents_of(path)),
    )
    # What is behind a directory that was closed meanwhile is neither gone nor to be seen.
    _refuse_closed(tree, (way for paths in together.values() for path in paths for way in parents_of(path)))
    there = {key: tuple(path for path in paths if tree.status(path)) for key, paths in together.items()}
    return seen._replace(
        repositories=tuple(dict.fromkeys((*seen.repositories, *there["repositories"]))),
        secrets=tuple(dict.fromkeys((*seen.secrets, *there["secrets"]))),
        keys=tuple(dict.fromkeys((*seen.keys, *there["keys"]))),
    )


def wanted(tree: Tree, wishes: Wishes, seen: Survey) -> list[Protected]:
    """Every protected path of the project, whether there is something or not."""
    repositories = Repositories(tree, wishes.home)
    if wishes.work_tree:
        found = once(repositories.of_git_directory("", wishes.work_tree))
        _need_all_looked_into(tree, repositories, [])
        return found
    less = _unprotected(wishes)
    kept = without(_of_project(tree, wishes, seen, repositories), less)
    _need_all_looked_into(tree, repositories, less)
    return once([*kept, *without(_led_to(tree, kept), less)])


def _of_project(tree: Tree, wishes: Wishes, seen: Survey, repositories: Repositories | None = None) -> list[Protected]:
    repositories = repositories or Repositories(tree, wishes.home)
    return [
        *OF_A_PROJECT,
        *(item for path in seen.paths for item in of_other_repository(path) if is_directory(tree.status(path))),
        *repositories.of(seen.repositories),
        *repositories.of_user(wishes.git_files, tree.path),
        *repositories.of_enclosing(),
        *(_as_it_is(tree, Protected(place, FILE)) for path in wishes.led_to if (place := relative_to(path, tree.path))),
        *(_as_it_is(tree, parse_place(item.value, item.named("protect"))) for item in wishes.protect),
    ]


def _need_all_looked_into(tree: Tree, repositories: Repositories, less: list[Protected]) -> None:
    """Raise Unprotected where there are more than are looked into: which ones are left out, an agent could choose."""
    _refuse_closed(tree, (place for place in repositories.closed if without([Protected(place, DIRECTORY)], less)))
    for place in repositories.left_out:
        if without([Protected(place, DIRECTORY)], less):
            raise Unprotected(
                f"{printable(os.path.join(tree.path, place))}: there is more of git in {tree.path} than is looked into,"
                " so that nothing protects what git obeys in the rest",
                hint=f"remove what is not needed there, or add: --unprotect {shell_word(place or '.git')}",
            )


def _unprotected(wishes: Wishes) -> list[Protected]:
    return [parse_place(item.value, item.named("unprotect")) for item in wishes.unprotect]


def _with_left_open(tree: Tree, wishes: Wishes, seen: Survey) -> Survey:
    """The same with what somebody asked not to protect: it is not prevented, and what becomes of it is told."""
    less = _unprotected(wishes)
    if not less:
        return seen
    found = _of_project(tree, wishes, seen)
    kept = without(found, less)
    left = {item.path: stamp_of(tree, item.path) for item in found if item not in kept}
    return seen._replace(runnable=seen.runnable | left)


def _led_to(tree: Tree, found: Iterable[Protected]) -> Iterator[Protected]:
    """What is behind the links on the way to a path: git and other tools of the host follow them."""
    for item in found:
        place = tree.leads_to(item.path)
        if place != item.path and place:
            yield Protected(place, item.kind)


def _refuse_links(tree: Tree, target: str, protected: Iterable[Protected]) -> None:
    """
    Raise Unprotected where a repository is a symbolic link: nothing can be mounted over it, and so what git on the host
    obeys could be exchanged inside.
    """
    for item in protected:
        if item.path.rpartition("/")[2] == ".git" and tree.link(item.path):
            way = (
                f"add: --unprotect {shell_word(item.path)}"
                if target in (PROJECT_TARGET, tree.path)
                else "mount it read-only"
            )
            raise Unprotected(
                f"{tree.path}/{printable(item.path)} is a symbolic link, so that nothing protects what git obeys",
                hint=f"put the repository itself in its place, or {way}",
            )


def _refuse_other_names(tree: Tree, protected: Iterable[Protected]) -> None:
    """
    Raise Unprotected where `.GIT` is `.git` to the file system, and the kernel does not know: a mount is over one name,
    and what is inside writes by the other.
    """
    for top in dict.fromkeys(item.path.partition("/")[0] for item in protected):
        other = top.swapcase()
        status = tree.status(top)
        is_same = other != top and is_directory(status) and identity(status) == identity(tree.status(other))
        if is_same and file_system_of(tree.path) not in _FOLDED_BY_THE_KERNEL:
            raise Unprotected(
                f"{tree.path} is on a file system to which {printable(other)} is {printable(top)}: what is protected by"
                " one name could be written by the other",
                hint="keep the project on a file system of Linux's own",
            )


def _refuse_closed(tree: Tree, paths: Iterable[str]) -> None:
    """
    Raise Unprotected for a directory of the user's own that nobody may look into: what is in it cannot be covered, and
    what is inside opens it again.
    """
    for path in dict.fromkeys(paths):
        status = tree.status(path)
        if is_closed(status):
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise Unprotected(
                f"{tree.path}/{printable(path)} is closed to you (its mode is {mode}), so that nothing protects what is"
                " in it",
                hint=f"open it: chmod u+rx {shell_word(f'{tree.path}/{path}')}",
            )


def _as_it_is(tree: Tree, item: Protected) -> Protected:
    return Protected(item.path, DIRECTORY) if is_directory(tree.status(item.path)) else item


def missing_directories(tree: Tree, protected: Iterable[Protected]) -> list[str]:
    """The directories to make, those around them first; none where something else is in the way."""
    found: dict[str, None] = {}
    for item in protected:
        if item.kind == DIRECTORY:
            chain = [path for path in (*parents_of(item.path), item.path) if tree.status(path) is None]
            found |= dict.fromkeys(chain if _can_be_made(tree, item.path) else [])
    return list(found)


def _can_be_made(tree: Tree, path: str) -> bool:
    """Whether all that is there of the path are directories."""
    statuses = (tree.status(part) for part in (*parents_of(path), path))
    return all(status is None or is_directory(status) for status in statuses)


def _covers(tree: Tree, target: str, protected: list[Protected], made: list[str]) -> Iterator[Cover]:
    """What is to be mounted: each path that is there, and the directories between it and the project."""
    fit = [item for item in protected if is_mountable(item.path)]
    here = [item for item in fit if _is_there(tree, item) or item.path in made]
    own = {item.path: item for item in here}
    around = dict.fromkeys(path for item in here for path in parents_of(item.path))
    for path in sorted({*own, *around}, key=lambda path: path.split("/")):
        kind = own[path].kind if path in own else DIRECTORY
        yield _cover(tree, target, path, kind, read_only=path in own)


def _is_there(tree: Tree, item: Protected) -> bool:
    status = tree.status(item.path)
    return is_directory(status) if item.kind == DIRECTORY else is_file(status)


def _cover(tree: Tree, target: str, path: str, kind: str, *, read_only: bool) -> Cover:
    return Cover(f"{tree.path}/{path}", f"{target}/{path}", kind, read_only, identity(tree.status(path)))


def identity(status: os.stat_result | None) -> str:
    """Device and inode, "" of nothing."""
    return f"{status.st_dev} {status.st_ino}" if status else ""


def _masks(tree: Tree, target: str, paths: list[str], covered: dict[str, bool]) -> Iterator[Cover]:
    """What is to read as empty, after the directories around it, which no rename inside may move away."""
    found = {path: tree.status(path) for path in paths}
    there = [path for path, status in found.items() if is_file(status) or is_directory(status)]
    for path in _around(target, there, covered):
        yield _cover(tree, target, path, DIRECTORY, read_only=False)
    for path in there:
        kind = DIRECTORY if is_directory(found[path]) else FILE
        yield _cover(tree, target, path, kind, read_only=True)._replace(shown=nothing_of(kind))


def _around(target: str, paths: list[str], covered: dict[str, bool]) -> list[str]:
    """
    The directories on the way that are not covered yet.

    Nothing below a read-only directory is among them: over itself it would be writable again.
    """
    found: dict[str, None] = {}
    for path in paths:
        ways = parents_of(path)
        if not any(covered.get(f"{target}/{way}") for way in ways):
            found |= dict.fromkeys(way for way in ways if f"{target}/{way}" not in covered)
    return sorted(found, key=lambda path: path.split("/"))


def _masked(tree: Tree, wishes: Wishes, seen: Survey) -> Iterator[str]:
    if wishes.default_masks:
        yield from _files_behind(tree, seen.secrets)
        # All of them: of a crowd nobody knows which ones an agent made to hide another.
        yield from (path for path in _files_behind(tree, seen.keys) if is_key(tree.beginning(path)))
    yield from _meant_by(tree, wishes.masks, seen)


def _meant_by(tree: Tree, patterns: tuple[str, ...], seen: Survey) -> Iterator[str]:
    yield from _behind(tree, filter(is_exact, patterns))
    if patterns:
        yield from _behind(tree, (path for path in seen.paths if is_masked(path, patterns)))


def _behind(tree: Tree, paths: Iterable[str]) -> Iterator[str]:
    """These paths, and for one that is a link what that leads to in the tree."""
    return filter(None, map(tree.leads_to, paths))


def _files_behind(tree: Tree, paths: Iterable[str]) -> Iterator[str]:
    """The same as far as they are regular files: nobody who makes a link `.env` has a whole directory masked."""
    return (place for place in _behind(tree, paths) if is_file(tree.status(place)))


def watched(tree: Tree, item: Protected) -> Watched:
    """What is there now."""
    path = f"{tree.path}/{item.path}"
    status = tree.status(item.path)
    if is_directory(status):
        return Watched(path, item.kind, f"{identity(status)} {_listing(tree, item.path, 3)}", None)
    content = tree.read(item.path) if is_file(status) else None
    # Of a large file the bytes are not kept: written through another name of it, it stays the same inode.
    stamp = stamp_of(tree, item.path) if content is None and is_file(status) else identity(status)
    return Watched(path, item.kind, stamp, content)


def watched_at(path: str, kind: str) -> Watched:
    """What is there now, by its whole path."""
    above, _, name = path.rpartition("/")
    try:
        with Tree(above) as tree:
            return watched(tree, Protected(name, kind))
    except OSError:
        return Watched(path, kind, "", None)


def same(before: Watched, now: Watched) -> bool:
    """Whether what is there has the same effect. A file that was replaced by one with the same bytes has."""
    if before.content is not None:
        return before.content == now.content
    return before.stamp == now.stamp


def _listing(tree: Tree, directory: str, depth: int) -> str:
    """What changes when something in the directory does, by another name of a file too: that sets no time of change."""
    lines = []
    for entry in tree.entries(directory)[:_MOST_FILES]:
        path = f"{directory}/{entry.name}"
        status = tree.status(path)
        below = _listing(tree, path, depth - 1) if entry.kind == _DIRECTORY and depth > 1 else ""
        if status:
            lines.append((entry.name, status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns, below))
    return str(lines)
