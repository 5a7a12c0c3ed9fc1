"""
Files that somebody else may have put there, read so that no link, pipe or device decides what is read.

A project is its agent's to write. What aisb reads in it is opened name by name from the project's own directory,
and no link is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.printing import shell_word
from aisb.domain.source_files import SourceFile, source_file
from aisb.domain.trust import PROJECT_DIRECTORY, PROJECT_FILES, PROPOSED_FILE
from aisb.errors import Unavailable, Untrusted, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_FILE = 1_000_000
# Without O_NONBLOCK a pipe would wait for its writer.
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LINKS = 40
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# What belongs at a place.
_DIRECTORY = "directory"
_FILE = "regular file"
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
}
# What opening says of a link that it does not follow, of what is no directory, and of a socket.
_WRONG_KIND = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


class ProjectDirectory(NamedTuple):
    """
    A project's `.ai-sandbox` as it was read: its device and inode, "" where there is none, and the files that count.
    """

    identity: str = ""
    files: tuple[SourceFile, ...] = ()


def read_project_directory(project: str) -> ProjectDirectory:
    """
    What counts in the project's `.ai-sandbox`, each file read once. Raises UsageError that names what cannot be read.

    `project` is a real path, "" where there is none.
    """
    if not project:
        return ProjectDirectory()
    with ExitStack() as stack:
        top = open_directory(stack, None, project, project)
        if not is_there(PROJECT_DIRECTORY, top, f"{project}/{PROJECT_DIRECTORY}"):
            return ProjectDirectory()
        directory = open_directory(stack, top, PROJECT_DIRECTORY, PROJECT_DIRECTORY, os.O_RDONLY)
        _check_owner(os.fstat(directory), PROJECT_DIRECTORY)
        names = os.listdir(directory)
        _refuse_misspelt(names)
        read = [path for path in PROJECT_FILES if os.path.basename(path) in names]
        files = tuple(_read_there(directory, os.path.basename(path), path) for path in read)
        status = os.fstat(directory)
        return ProjectDirectory(f"{status.st_dev} {status.st_ino}\n", files)


def read_in_project(project: str, relative: str, *, private: bool = False) -> SourceFile:
    """
    A file of the project, by its path from there on. Raises UsageError that names what cannot be read.

    A `private` one is refused where others may read it.
    """
    with ExitStack() as stack:
        here, last = _walk_to(stack, project, relative)
        return _read_there(here, last, relative, private=private)


def open_for_writing(project: str, relative: str) -> int:
    """
    A descriptor of a regular file of the project, made where there is none, with what it held; no link is followed.

    Raises UsageError that names what cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with ExitStack() as stack:
        here, last = _walk_to(stack, project, relative)
        try:
            descriptor = os.open(last, flags, 0o666, dir_fd=here)
        except OSError as error:
            raise _unwritable(relative, error.strerror or "it cannot be opened") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unwritable(relative, "it is no regular file")
    return descriptor


def _walk_to(stack: ExitStack, project: str, relative: str) -> tuple[int, str]:
    """The directory of a file of the project, reached step by step and by no link, and the file's own name."""
    *directories, last = relative.split("/")
    here = open_directory(stack, None, project, project)
    for depth, name in enumerate(directories, start=1):
        here = open_directory(stack, here, name, "/".join(directories[:depth]))
    return here, last


def _unwritable(shown: str, why: str) -> UsageError:
    return UsageError(f"{shown} cannot be written: {why}", hint="name another file, or one outside of the project")


def read_outside(path: str, shown: str, *, private: bool = False) -> SourceFile:
    """
    A file where no agent writes: links are followed. Raises UsageError that names what cannot be read.

    A `private` one is refused where others may read it.
    """
    return _read(_open(path, _OPEN, None, shown), shown, own=private, private=private)


def places_on_the_way(path: str) -> Iterator[str]:
    """
    Every place that the kernel passes on its way along `path`, each link resolved where it stands.

    Whoever can write to one of them decides where the path ends.
    """
    whole = path if path.startswith("/") else os.path.join(_current_directory(), path)
    pending = [part for part in reversed(whole.split("/")) if part not in ("", ".")]
    here, links = "/", 0
    while pending:
        part = pending.pop()
        place = os.path.dirname(here) if part == ".." else os.path.join(here, part)
        yield place
        if part == ".." or not os.path.islink(place):
            here = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UsageError(f"{path}: there are too many links on the way", hint="name the file itself")
        target = os.readlink(place)
        here = "/" if target.startswith("/") else here
        pending += [part for part in reversed(target.split("/")) if part not in ("", ".")]


def _current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current directory no longer exists", hint="change to one that does") from None


def is_reached_through(path: str, tree: str) -> bool:
    """Whether the way along `path` leads into the directory `tree`, even where it leaves it again."""
    return tree != "" and any(place.startswith(tree + "/") for place in places_on_the_way(path))


def need_outside_of_homes(path: str, volumes: str, origin: str) -> None:
    """Raises Untrusted for the path of a flag that leads through podman's volumes: an agent decides where it ends."""
    if is_reached_through(path, volumes):
        raise Untrusted(f"{origin} {path} lies in {volumes}, where agents write their homes", hint="keep it elsewhere")


def place_in_project(path: str, project: str, origin: str) -> str:
    """
    Where in the project the path of a flag ends, from there on; "" for one that does not lead into it.

    Raises Untrusted for one that leads through the project to somewhere else: the agent decides where.
    """
    if not is_reached_through(path, project):
        return ""
    real = os.path.realpath(path)
    if not real.startswith(project + "/"):
        raise Untrusted(
            f"{origin} {path} leads through the project to {real}, and the agent can change where it leads",
            hint=f"name the file itself: {origin} {shell_word(real)}",
        )
    return real.removeprefix(project + "/")


def is_there(name: str, directory: int, shown: str) -> bool:
    """Whether something of that name is in the directory. Raises UsageError that names what cannot be looked at."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        hint = f"you need to get in: chmod u+rwx {shell_word(os.path.dirname(shown))}"
        raise UsageError(f"{shown} cannot be looked at: {error.strerror}", hint=hint) from error
    return True


def not_written(path: str, what: str, error: OSError) -> Unavailable:
    """What to say where something in this directory could not be made or written."""
    where = shell_word(os.path.dirname(path))
    hint = f"look at the directory: ls -ld {where}; it has to be yours to write, with room left"
    return Unavailable(f"{path} could not be {what}: {error.strerror}", hint)


def open_directory(stack: ExitStack, parent: int | None, name: str, shown: str, how: int = os.O_PATH) -> int:
    """A descriptor of that directory, closed with the stack; without more it is good for opening what is in it."""
    descriptor = _open(name, how | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, parent, shown)
    stack.callback(os.close, descriptor)
    return descriptor


def make_own_directory(stack: ExitStack, project: str) -> int:
    """A descriptor of the project's `.ai-sandbox`, which is made where there is none; no link is followed."""
    top = open_directory(stack, None, project, project)
    shown = f"{project}/{PROJECT_DIRECTORY}"
    if not is_there(PROJECT_DIRECTORY, top, shown):
        try:
            os.mkdir(PROJECT_DIRECTORY, 0o755, dir_fd=top)
        except OSError as error:
            raise not_written(shown, "made", error) from error
    return open_directory(stack, top, PROJECT_DIRECTORY, PROJECT_DIRECTORY)


def replace_in_project(project: str, shown: str, data: bytes) -> None:
    """
    Put a file of the project's `.ai-sandbox` in the place of the old one, whole, and follow no link on the way.

    Raises Unavailable where it cannot be written.
    """
    name = os.path.basename(shown)
    temporary = f".{name}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as stack:
        directory = make_own_directory(stack, project)
        try:
            with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=directory), "wb") as file:
                file.write(data)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise not_written(f"{project}/{shown}", "written", error) from error


def _read_there(directory: int, name: str, shown: str, *, private: bool = False) -> SourceFile:
    return _read(_open(name, _OPEN | os.O_NOFOLLOW, directory, shown), shown, own=True, private=private)


def _read(descriptor: int, shown: str, *, own: bool = False, private: bool = False) -> SourceFile:
    """The regular file behind the descriptor, which is closed; one of the caller's own if `own`."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(shown, _kind(status))
        if own:
            _check_owner(status, shown)
        if private and status.st_mode & _OTHERS:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise UsageError(
                f"{shown} can be read by others (its mode is {mode})", hint=f"chmod 600 {shell_word(shown)}"
            )
        with open(descriptor, "rb", closefd=False) as file:
            return source_file(shown, _capped(file.read(LARGEST_FILE + 1), shown))
    except OSError as error:
        # It could be opened: a disk that fails, a file that its server has lost, a file of /proc.
        raise _refused(shown, error.strerror or "it cannot be read") from error
    finally:
        os.close(descriptor)


def _open(name: str, flags: int, parent: int | None, shown: str) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        if error.errno in _WRONG_KIND:
            why = _kind(os.stat(name, dir_fd=parent, follow_symlinks=False))
        if error.errno == errno.ENOENT:
            raise UsageError(f"{shown} cannot be read: {why}", hint="check its name") from error
        raise _refused(shown, why, _DIRECTORY if flags & os.O_DIRECTORY else _FILE) from error


def _kind(status: os.stat_result) -> str:
    return f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'of no known kind')}"


def _check_owner(status: os.stat_result, shown: str) -> None:
    if status.st_uid != os.getuid():
        kind = _DIRECTORY if stat.S_ISDIR(status.st_mode) else _FILE
        raise _refused(shown, f"it belongs to somebody else (uid {status.st_uid})", kind)


def _capped(data: bytes, shown: str) -> bytes:
    if len(data) > LARGEST_FILE:
        raise _refused(shown, f"it is larger than {LARGEST_FILE} bytes")
    return data


def _refused(shown: str, why: str, kind: str = _FILE) -> UsageError:
    return UsageError(f"{shown} cannot be read: {why}", hint=f"it must be a {kind} of your own, or not be there")


def _refuse_misspelt(names: list[str]) -> None:
    """Raises UsageError for a file that was meant to count and does not."""
    known = [os.path.basename(path) for path in (*PROJECT_FILES, PROPOSED_FILE)]
    others = [name for name in sorted(names) if name not in known]
    if not others:
        return
    from difflib import get_close_matches

    for name in others:
        near = get_close_matches(name.lower(), known[:-1], n=1, cutoff=0.75)
        if near:
            raise UsageError(
                f"{PROJECT_DIRECTORY}/{name} is not a file that aisb reads",
                hint=f"name it: {PROJECT_DIRECTORY}/{near[0]}",
            )
