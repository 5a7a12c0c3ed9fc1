"""
The file calls of a session, as the sandbox's own user: plain system calls, and never a wait for anybody else.

Paths are bytes. What goes wrong is an OSError, which the caller reports by its number.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat

from aisb.domain.frames import MOST_BODY_BYTES, MOST_NUMBER

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

PIECE_BYTES = 1 << 18
# Of a directory's entries, before anything else has its turn.
_MOST_AT_ONCE = 1000
# No file system gives room in smaller parts that has holes.
_BLOCK_BYTES = 512
# Where there is room for what is nobody's file yet.
_ELSEWHERE = b"/tmp"
# Without the set-id bits, which nobody sets in a sandbox.
_KEPT_MODE = 0o1777
_WITHOUT_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_LETTERS = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}
# Where a file beside the one that is meant cannot be put in its place: a mount of its own, somebody else's directory.
_IN_PLACE = (errno.EBUSY, errno.EACCES, errno.EPERM, errno.EXDEV, errno.EROFS)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character",
    stat.S_IFBLK: "block",
}


def text_of(path: bytes) -> str:
    """A path as it stands in a header."""
    return path.decode("utf-8", "surrogateescape")


def read_file(path: bytes, offset: int, length: int | None) -> Generator[bytes, None, tuple[dict[str, object], bytes]]:
    """The pieces of a file but for the last one, which is returned with the result."""
    descriptor = os.open(path, os.O_RDONLY | _WITHOUT_WAIT)
    try:
        status = os.fstat(descriptor)
        _need_file(status, path)
        last, done = b"", 0
        while length is None or done < length:
            wanted = PIECE_BYTES if length is None else min(PIECE_BYTES, length - done)
            piece = os.pread(descriptor, wanted, offset + done)
            if not piece:
                break
            if last:
                yield last
            last = piece
            done += len(piece)
        return {"size": _number(status.st_size), "mtimeMs": _milliseconds(status), "bytes": done}, last
    finally:
        os.close(descriptor)


def _number(value: int) -> int:
    """As near as a number of a header comes: a file with holes may be larger than anything."""
    return max(-MOST_NUMBER, min(value, MOST_NUMBER))


def _milliseconds(status: os.stat_result) -> int:
    return _number(status.st_mtime_ns // 1_000_000)


def _need_file(status: os.stat_result, path: bytes) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def _need_place(path: bytes) -> None:
    """Raise OSError where the kernel has no file of that name for anybody to write. To look it up by words is lax."""
    directory, name = os.path.split(path)
    if name in (b"", b".", b".."):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if directory:
        os.stat(os.path.join(directory, b""))


class Writing:
    """A file that is being written: what was there stays until `commit`, and where that fails as well."""

    def __init__(self, path: bytes, mode: int) -> None:
        self.shown = text_of(path)
        _need_place(path)
        # What a link leads to is replaced, not the link.
        self._path = os.path.realpath(path)
        self._directory, self._name = os.path.split(self._path)
        self._before = self._look()
        self._mode = mode
        self._temporary = b""
        self._is_beside = True
        self._bytes = 0
        try:
            if self._before and self._before.st_uid != os.getuid():
                # One beside it would be ours.
                raise PermissionError(errno.EPERM, "of another owner")
            self._descriptor = self._open_beside(mode)
        except OSError as error:
            if error.errno not in _IN_PLACE:
                raise
            # So that it fails now, where it cannot be written at all.
            os.close(self._open_itself())
            self._is_beside = False
            self._descriptor = _open_elsewhere()

    def _look(self) -> os.stat_result | None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        _need_file(status, self._path)
        if not os.access(self._path, os.W_OK):
            # A directory that can be written would let us replace it all the same; nobody's editor does.
            os.close(os.open(self._path, os.O_WRONLY | _WITHOUT_WAIT))
        return status

    def _open_beside(self, mode: int) -> int:
        try:
            return _open_nameless(self._directory, mode)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
        return self._open_named(mode)

    def _open_named(self, mode: int) -> int:
        name = _new_name(self._directory)
        descriptor = _open_new(name, mode)
        self._temporary = name
        return descriptor

    def _open_itself(self) -> int:
        flags = os.O_CREAT | _WITHOUT_WAIT
        try:
            return os.open(self._path, os.O_RDWR | flags, self._mode)
        except PermissionError:
            # Ours to write, and not to read.
            return os.open(self._path, os.O_WRONLY | flags, self._mode)

    def add(self, data: bytes) -> None:
        """The next bytes."""
        _write_all(self._descriptor, data, self._bytes)
        self._bytes += len(data)

    def commit(self) -> dict[str, object]:
        """Put it in its place."""
        try:
            _settle(self._descriptor)
            is_atomic = self._is_beside and self._replace()
            if not is_atomic:
                self._write_over()
        finally:
            self._leave()
        return {"bytes": self._bytes, "created": self._before is None, "atomic": is_atomic}

    def _replace(self) -> bool:
        """Whether it is in its place now, by one step."""
        if not self._temporary:
            self._give_name()
        if self._before:
            os.fchmod(self._descriptor, stat.S_IMODE(self._before.st_mode) & _KEPT_MODE)
        try:
            os.rename(self._temporary, self._path)
        except OSError as error:
            if error.errno not in _IN_PLACE:
                raise
            return False
        self._temporary = b""
        return True

    def _give_name(self) -> None:
        """The file without a name gets one; where its file system has no way to do that, its bytes a file that has."""
        name = _new_name(self._directory)
        try:
            os.link(b"/proc/self/fd/%d" % self._descriptor, name, follow_symlinks=True)
        except OSError:
            nameless = self._descriptor
            self._descriptor = self._open_named(stat.S_IMODE(os.fstat(nameless).st_mode))
            try:
                _copy(nameless, self._descriptor, 0, self._bytes)
            finally:
                os.close(nameless)
            _settle(self._descriptor)
        else:
            self._temporary = name

    def _write_over(self) -> None:
        target = self._open_itself()
        try:
            _need_file(os.fstat(target), self._path)
            _write_over(target, self._descriptor, self._bytes)
        finally:
            os.close(target)

    def abandon(self) -> None:
        """Leave what was there."""
        self._leave()

    def _leave(self) -> None:
        """Never an error: by now it is in its place, or something else went wrong."""
        descriptor, self._descriptor = self._descriptor, -1
        temporary, self._temporary = self._temporary, b""
        if descriptor >= 0:
            _without_error(lambda: os.close(descriptor))
        if temporary:
            # By a name, which anybody in the sandbox may have removed.
            _without_error(lambda: os.unlink(temporary))


def _without_error(action: Callable[[], None]) -> None:
    try:
        action()
    except OSError:
        return


def _open_nameless(directory: bytes, mode: int) -> int:
    """A file of which nothing is left, whatever happens to us."""
    return os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, mode)


def _open_new(name: bytes, mode: int) -> int:
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _new_name(directory: bytes) -> bytes:
    # A name may be 255 bytes long, and this one is not to be longer than it.
    return os.path.join(directory, b".aisb-%s" % os.urandom(8).hex().encode())


def _open_elsewhere() -> int:
    """A file without a name that is beside nothing: for what is written in place, and for what that replaces."""
    try:
        return _open_nameless(_ELSEWHERE, 0o600)
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
    name = _new_name(_ELSEWHERE)
    descriptor = _open_new(name, 0o600)
    _without_error(lambda: os.unlink(name))
    return descriptor


def _write_all(target: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(target, view, offset)
        view = view[written:]
        offset += written


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end and (piece := os.pread(source, min(PIECE_BYTES, end - start), start)):
        _write_all(target, piece, start)
        start += len(piece)


def _settle(descriptor: int) -> None:
    """Raise OSError where what was written has no place after all: one of another machine says so at a close."""
    os.close(os.dup(descriptor))


def _write_over(target: int, source: int, size: int) -> None:
    """
    Have a file hold what the other one holds; with an OSError it holds what it held.

    What goes beyond its end comes first: where there is no room for that, nothing was written over.
    """
    before = os.fstat(target).st_size
    both = min(before, size)
    kept = _open_elsewhere()
    try:
        if _is_readable(target):
            _copy(target, kept, 0, both)
        try:
            _copy(source, target, before, size)
            _copy(source, target, 0, both)
            _settle(target)
            os.ftruncate(target, size)
        except OSError as error:
            _put_back(target, kept, before, error)
            raise
    finally:
        os.close(kept)


def _is_readable(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & _ACCESS == os.O_RDWR


def _put_back(target: int, kept: int, before: int, error: OSError) -> None:
    """Undo what was done of it. No more than that: a hole that is still one may have no room to be anything else."""
    try:
        os.ftruncate(target, before)
        offset = 0
        while piece := os.pread(kept, _BLOCK_BYTES, offset):
            if os.pread(target, len(piece), offset) != piece:
                _write_all(target, piece, offset)
            offset += len(piece)
    except OSError:
        raise OSError(error.errno, f"{error.strerror}; what was there could not be put back") from error


def stat_of(path: bytes, *, follow: bool) -> dict[str, object]:
    """What is known of a path."""
    status = os.stat(path) if follow else os.lstat(path)
    found: dict[str, object] = {
        "type": _TYPES.get(stat.S_IFMT(status.st_mode), "file"),
        "size": _number(status.st_size),
        "mode": stat.S_IMODE(status.st_mode),
        "mtimeMs": _milliseconds(status),
        "uid": status.st_uid,
        "gid": status.st_gid,
        "links": status.st_nlink,
    }
    if stat.S_ISLNK(status.st_mode):
        found["target"] = text_of(os.readlink(path))
    return found


def read_directory(path: bytes, after: str | None) -> Generator[bytes, None, tuple[dict[str, object], bytes]]:
    """The entries by name, those after `after` alone, and as many as fit. A pause, b"", after each lot of them."""
    found: list[tuple[str, str]] = []
    with os.scandir(path) as entries:
        for number, entry in enumerate(entries, start=1):
            name = text_of(entry.name)
            if after is None or name > after:
                found.append((name, _type_of(entry)))
            if number % _MOST_AT_ONCE == 0:
                yield b""
    found.sort()
    parts: list[str] = []
    size = 2
    for name, kind in found:
        part = json.dumps([name, kind], separators=(",", ":"))
        size += len(part) + 1
        if size > MOST_BODY_BYTES:
            return {"more": True}, _list_of(parts)
        parts.append(part)
    return {"more": False}, _list_of(parts)


def _list_of(parts: list[str]) -> bytes:
    return f"[{','.join(parts)}]".encode("ascii")


def _type_of(entry: os.DirEntry[bytes]) -> str:
    if entry.is_symlink():
        return "symlink"
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    try:
        return _TYPES.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "file")
    except OSError:
        # It has gone meanwhile.
        return "file"


def make_directory(path: bytes, *, recursive: bool) -> dict[str, object]:
    """Make it; with `recursive` those above it too, and no matter if it is there."""
    if not recursive:
        os.mkdir(path)
        return {"created": True}
    is_there = os.path.isdir(path)
    for end in range(1, len(path) + 1):
        if end == len(path) or path[end : end + 1] == b"/":
            _make_if_missing(path[:end])
    return {"created": not is_there}


def _make_if_missing(path: bytes) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def check_access(path: bytes, letters: str) -> dict[str, object]:
    """Raise OSError where it is not there, or not for us to read, write or execute."""
    os.stat(path)
    wanted = sum(_LETTERS[letter] for letter in set(letters))
    if wanted and not os.access(path, wanted):
        is_read_only = "w" in letters and os.statvfs(path).f_flag & os.ST_RDONLY
        number = errno.EROFS if is_read_only else errno.EACCES
        raise OSError(number, os.strerror(number), path)
    return {}
