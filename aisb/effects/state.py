"""aisb's own directories, and files in them that are whole or not there."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.printing import shell_word
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

# A socket's path ends there; what aisb adds to its own directory is /g/<12>/r/<8>/s/gate.sock.
_LONGEST_SOCKET_PATH = 107
_ADDED = len("/g/0123456789ab/r/01234567/s/gate.sock")


class Directories(NamedTuple):
    """Where aisb keeps things: all of it the caller's, none of it readable by others."""

    runtime: str
    cache: str
    state: str
    config: str

    def own(self) -> tuple[str, ...]:
        """Every directory that no sandbox may hold."""
        return (self.runtime, self.cache, self.state, self.config)


def directories(environ: Mapping[str, str], runtime: str = "") -> Directories:
    """aisb's directories by the XDG variables. Raises Unavailable where there is no usable runtime directory."""
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise Unavailable("HOME is not set to an absolute path", hint="log in as an ordinary user")
    found = Directories(
        runtime=f"{runtime or _runtime_directory(environ)}/aisb",
        cache=f"{_base(environ, 'XDG_CACHE_HOME', home + '/.cache')}/ai-sandbox",
        state=f"{_base(environ, 'XDG_STATE_HOME', home + '/.local/state')}/ai-sandbox",
        config=f"{_base(environ, 'XDG_CONFIG_HOME', home + '/.config')}/ai-sandbox",
    )
    for directory in found.own():
        _need_own(directory)
    return found


def _need_own(directory: str) -> None:
    """Raises Unavailable for a directory that somebody else has made, or may write: what is in it decides a run."""
    try:
        status = os.stat(directory)
    except OSError:
        return
    if status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
        raise Unavailable(
            f"{directory}, which is aisb's own, belongs to somebody else or can be written by others",
            hint=f"look at it: ls -ld {shell_word(directory)}; the XDG variables say where it is",
        )


def _base(environ: Mapping[str, str], name: str, default: str) -> str:
    """A base directory; one that is not absolute is as good as none, as the XDG specification has it."""
    path = environ.get(name, "")
    return path if path.startswith("/") else default


def preview_directories(environ: Mapping[str, str]) -> Directories:
    """The same, for a preview: where there is no runtime directory, the one that a login would make."""
    try:
        return directories(environ)
    except Unavailable:
        home = environ.get("HOME") or "/"
        return directories({"HOME": home, "XDG_RUNTIME_DIR": ""} | dict(environ), runtime=f"/run/user/{os.getuid()}")


def volumes_directory(environ: Mapping[str, str]) -> str:
    """Where podman keeps volumes, the homes of sandboxes among them, unless it was told otherwise; resolved."""
    data = _base(environ, "XDG_DATA_HOME", f"{environ.get('HOME', '')}/.local/share")
    return os.path.realpath(f"{data}/containers/storage/volumes")


def _runtime_directory(environ: Mapping[str, str]) -> str:
    path = environ.get("XDG_RUNTIME_DIR", "")
    hint = "log in through a session of your own, or: export XDG_RUNTIME_DIR=/run/user/$(id -u)"
    if not path.startswith("/"):
        raise Unavailable("XDG_RUNTIME_DIR is not set: there is no private directory for sockets", hint=hint)
    try:
        status = os.stat(path)
    except OSError as error:
        raise Unavailable(f"XDG_RUNTIME_DIR {path}: {error.strerror}", hint=hint) from error
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise Unavailable(f"XDG_RUNTIME_DIR {path} is not a directory that is yours alone (0700)", hint=hint)
    if not has_room_for_sockets(f"{path}/aisb"):
        raise Unavailable(f"XDG_RUNTIME_DIR {path} is too long for a socket's path", hint=hint)
    return path


def has_room_for_sockets(runtime: str) -> bool:
    """Whether the sockets of runs and gates fit below this directory."""
    return len(os.fsencode(runtime)) + _ADDED <= _LONGEST_SOCKET_PATH


def make_private(path: str) -> str:
    """Make the directory and its missing parents, 0700 each, and return it."""
    # os.makedirs gives the parents the mode of the umask.
    if not os.path.isdir(path):
        make_private(os.path.dirname(path))
        os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def write_whole(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    # A warm start writes nothing, and need not pay for the import.
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_if_there(path: str) -> bytes | None:
    """The file's content, or None where there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
