"""A directory that an agent may write, looked at from its own descriptor: no link on any way is followed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self, TypeGuard

from aisb.domain.protected import parents_of, plain, relative_to
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from types import TracebackType

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LARGEST = 1_000_000
_BEGINNING = 4096
# An agent makes millions, and each would take memory here.
MOST_NAMES = 50_000
# As many as the kernel follows.
_MOST_LINKS = 40
_MOST_OPEN = 200
# To read a directory and what is in it.
_LOOK = 0o500
# Of nothing that is looked at: it may be there.
_OWN_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# What an entry is: a directory, a regular file, a link, or something else, a socket for one.
DIRECTORY, FILE, LINK, OTHER = "directory", "file", "link", "other"


class Entry(NamedTuple):
    """A name in a directory, and what it is of."""

    name: str
    kind: str


class Tree:
    """
    A directory and what is below it. Paths are relative to it, "" is itself. `within` is what its own path begins in.

    What cannot be looked at is as good as not there: whoever is kept out of it here is the agent's own user.
    """

    def __init__(self, path: str, within: int | None = None) -> None:
        self.path = path
        self._top = _top(path, within)
        # Those that were of use last, the latest at the end: an agent makes more directories than a process may open.
        self._directories: dict[str, int] = {}
        self._real: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every directory."""
        for path in list(self._directories):
            self.forget(path)
        if self._top >= 0:
            os.close(self._top)
            self._top = -1

    def directory(self, path: str) -> int | None:
        """A descriptor of that directory, which stays the tree's, until the next one is asked for; None without one."""
        place = path
        while place and place not in self._directories:
            place = place.rpartition("/")[0]
        here: int | None = self._directories[place] if place else self._top
        for name in path[len(place) :].split("/"):
            if name and here is not None:
                place = f"{place}/{name}" if place else name
                here = _open(name, _STEP, here)
                if here is not None:
                    self._keep(place, here)
        if place in self._directories:
            self._directories[place] = self._directories.pop(place)
        return here

    def _keep(self, path: str, descriptor: int) -> None:
        self._directories[path] = descriptor
        while len(self._directories) > _MOST_OPEN:
            self.forget(next(iter(self._directories)))

    def forget(self, path: str) -> None:
        """Look for this directory anew the next time."""
        descriptor = self._directories.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def status(self, path: str) -> os.stat_result | None:
        """What is there, a link as itself; None where nothing is."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        if parent is None:
            return None
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return None

    def read(self, path: str, largest: int = LARGEST) -> bytes | None:
        """The regular file of that name, None where there is none or it is not a file of reasonable size."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        descriptor = _open(name, _READ, parent) if parent is not None else None
        if descriptor is None:
            return None
        with open(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            # Others may have the right to look at it, and we not to read it.
            with contextlib.suppress(OSError):
                data = file.read(largest + 1) or b""
                return data if len(data) <= largest else None
        return None

    def beginning(self, path: str) -> bytes:
        """What the regular file of that name begins with, however large it is; nothing of anything else."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        descriptor = _open(name, _READ, parent) if parent is not None else None
        if descriptor is None:
            return b""
        with open(descriptor, "rb", buffering=0) as file, contextlib.suppress(OSError):
            return (file.read(_BEGINNING) or b"") if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        return b""

    def text(self, path: str) -> str:
        """The same as text, "" where there is none."""
        return (self.read(path) or b"").decode("utf-8", "surrogateescape")

    def link(self, path: str) -> str:
        """What the symbolic link of that name says, "" where there is none."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        try:
            return os.readlink(name, dir_fd=parent) if parent is not None else ""
        except OSError:
            return ""

    def leads_to(self, path: str) -> str:
        """Where a path is when the links on its way are followed; "" where that is outside, or they are too many."""
        done, left, links = "", path.split("/"), 0
        while left:
            here = f"{done}/{left[0]}" if done else left[0]
            target = self.link(here)
            if not target:
                done, left = here, left[1:]
                continue
            links += 1
            place = self.place_of(plain(target if target[0] == "/" else f"{self.path}/{done}/{target}"))
            if not place or links > _MOST_LINKS:
                return ""
            done, left = "", [*place.split("/"), *left[1:]]
        return done

    def place_of(self, path: str) -> str:
        """What a whole path names, from the tree on; also by links that lead there (`~/src` may be one). "" outside."""
        if place := relative_to(path, self.path):
            return place
        for above in (*parents_of(path), path):
            if above not in self._real:
                self._real[above] = os.path.realpath(above or "/")
            inner = relative_to(self._real[above], self.path)
            if inner or self._real[above] == self.path:
                return os.path.join(inner, relative_to(path, above)).rstrip("/")
        return ""

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, by name; of one that has more, any MOST_NAMES of them."""
        parent = self.directory(path)
        descriptor = _open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, parent) if parent is not None else None
        if descriptor is None:
            return []
        try:
            with os.scandir(descriptor) as found:
                return sorted(Entry(item.name, _kind(item)) for item in islice(found, MOST_NAMES))
        except OSError as error:
            # It takes another descriptor, of the same.
            _refuse_own_fault(path, error)
            raise
        finally:
            os.close(descriptor)

    def make(self, path: str) -> bool:
        """Make a directory in one that is there; False where that cannot be."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        if parent is None:
            return False
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
        except OSError:
            return False
        self.forget(path)
        return True

    def make_file(self, path: str) -> None:
        """Make an empty file in a directory that is there; nothing where that cannot be."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        if parent is not None:
            with contextlib.suppress(OSError):
                os.close(os.open(name, _NEW, 0o644, dir_fd=parent))

    def remove(self, path: str) -> bool:
        """Remove a directory that is empty; False where it is not, or not there."""
        above, _, name = path.rpartition("/")
        parent = self.directory(above)
        self.forget(path)
        try:
            if parent is not None:
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
        return parent is not None


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return DIRECTORY
    return FILE if entry.is_file(follow_symlinks=False) else OTHER


def _top(path: str, within: int | None) -> int:
    try:
        return os.open(path, _STEP, dir_fd=within)
    except OSError as error:
        _refuse_own_fault(path, error)
        raise


def _open(name: str, flags: int, parent: int | None) -> int | None:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        _refuse_own_fault(name, error)
        return None


def _refuse_own_fault(name: str, error: OSError) -> None:
    if error.errno in _OWN_FAULTS:
        what = f"{name} could not be looked at: {error.strerror}"
        raise Unavailable(what, hint="close something, or raise the limit: ulimit -n 4096") from error


def is_directory(status: os.stat_result | None) -> TypeGuard[os.stat_result]:
    """Whether something is there, and a directory."""
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_file(status: os.stat_result | None) -> bool:
    """Whether something is there, and a regular file."""
    return status is not None and stat.S_ISREG(status.st_mode)


def is_closed(status: os.stat_result | None) -> TypeGuard[os.stat_result]:
    """Whether something is there, a directory of our own, and of such a mode that we may not look into it."""
    return is_directory(status) and status.st_uid == os.getuid() and status.st_mode & _LOOK != _LOOK


def file_system_of(path: str) -> str:
    """The kind of the file system that the path is on, "" where the kernel does not say (proc_pid_mountinfo(5))."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    found = [words[words.index("-") + 1] for words in lines if words[2] == number and "-" in words]
    return found[-1] if found else ""
