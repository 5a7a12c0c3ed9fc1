"""Access that somebody has as a member of a group: a sandbox has the user's own group alone, and none of the others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.domain.printing import shell_word
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ, _WRITE = 0o5, 0o2


def need_access(path: str, origin: str = "") -> None:
    """Raises UsageError for a directory that is open to its user only as a member of another group."""
    if _is_lost(path, _READ):
        mine = f"u:{os.getuid()}:rwX"
        raise UsageError(
            f"{origin}{path} is open to you as a member of the group {_group(path)} only, which no sandbox is",
            hint=f"give yourself access of your own: setfacl -R -m {mine},d:{mine} {shell_word(path)}",
        )


def access_notes(path: str) -> Iterator[str]:
    """That a directory can be read inside, and not written."""
    if path and _is_lost(path, _WRITE):
        yield f"{path} cannot be written inside: you may as a member of the group {_group(path)}, which no sandbox is"


def _is_lost(path: str, bits: int) -> bool:
    """Whether these bits are the group's alone. With an access control list nobody here can tell, so they are not."""
    status = os.stat(path)
    by_group, by_others = status.st_mode >> 3 & bits, status.st_mode & bits
    if status.st_uid == os.getuid() or status.st_gid == os.getgid() or status.st_gid not in os.getgroups():
        return False
    return by_group == bits and by_others != bits and not _has_list(path)


def _has_list(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _group(path: str) -> str:
    import grp

    number = os.stat(path).st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
