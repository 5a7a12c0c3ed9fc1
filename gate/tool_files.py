"""
The file calls of a session, as the sandbox's own user: plain system calls, and never a wait for anybody else.

Paths are bytes. What goes wrong is an OSError, which the caller reports by its number.
"""

from __future__ import annotations

import errno
import json
import os
import stat

from aisb.domain.frames import MOST_BODY_BYTES, MOST_NUMBER

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

PIECE_BYTES = 1 << 18
# Without the set-id bits, which nobody sets in a sandbox.
_KEPT_MODE = 0o1777
_WITHOUT_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
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
    """A file that is being written: what was there stays until `commit`."""

    def __init__(self, path: bytes, mode: int) -> None:
        self.shown = text_of(path)
        _need_place(path)
        # What a link leads to is replaced, not the link.
        self._path = os.path.realpath(path)
        self._directory, self._name = os.path.split(self._path)
        self._before = self._look()
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
            self._is_beside = False
            self._descriptor = self._open_itself(mode)

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
            # Without a name: nothing is left of it, whatever happens to us.
            return os.open(self._directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
        return self._open_named(mode)

    def _open_named(self, mode: int) -> int:
        name = self._new_name()
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        self._temporary = name
        return descriptor

    def _open_itself(self, mode: int) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | _WITHOUT_WAIT, mode)

    def _new_name(self) -> bytes:
        # A name may be 255 bytes long, and this one is not to be longer than it.
        return os.path.join(self._directory, b".aisb-%s" % os.urandom(8).hex().encode())

    def add(self, data: bytes) -> None:
        """The next bytes."""
        self._empty()
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            view = view[written:]
            self._bytes += written

    def _empty(self) -> None:
        if not self._is_beside and not self._bytes:
            os.ftruncate(self._descriptor, 0)

    def commit(self) -> dict[str, object]:
        """Put it in its place."""
        try:
            self._empty()
            is_atomic = self._is_beside and self._replace()
        finally:
            self._leave()
        return {"bytes": self._bytes, "created": self._before is None, "atomic": is_atomic}

    def _replace(self) -> bool:
        """Whether it is in its place now by one step; else its bytes were copied there."""
        if not self._temporary:
            self._give_name()
        if self._before:
            os.fchmod(self._descriptor, stat.S_IMODE(self._before.st_mode) & _KEPT_MODE)
        try:
            os.rename(self._temporary, self._path)
        except OSError as error:
            if error.errno not in _IN_PLACE:
                raise
            target = self._open_itself(0o666)
            try:
                os.ftruncate(target, 0)
                self._copy_to(target)
            finally:
                os.close(target)
            return False
        self._temporary = b""
        return True

    def _give_name(self) -> None:
        """The file without a name gets one; where its file system has no way to do that, its bytes a file that has."""
        name = self._new_name()
        try:
            os.link(b"/proc/self/fd/%d" % self._descriptor, name, follow_symlinks=True)
        except OSError:
            nameless = self._descriptor
            try:
                target = self._open_named(stat.S_IMODE(os.fstat(nameless).st_mode))
                self._copy_to(target)
            finally:
                os.close(nameless)
            self._descriptor = target
        else:
            self._temporary = name

    def _copy_to(self, target: int) -> None:
        offset = 0
        while piece := os.pread(self._descriptor, PIECE_BYTES, offset):
            offset += len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(target, view) :]

    def abandon(self) -> None:
        """Leave what was there; of a file that is written in place what has come by now."""
        self._leave()

    def _leave(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._temporary:
            os.unlink(self._temporary)
            self._temporary = b""


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


def read_directory(path: bytes, after: str | None) -> tuple[dict[str, object], bytes]:
    """The entries by name, those after `after` alone, and as many as fit."""
    with os.scandir(path) as entries:
        found = sorted((text_of(entry.name), _type_of(entry)) for entry in entries)
    parts: list[str] = []
    size = 2
    for name, kind in found:
        if after is None or name > after:
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
