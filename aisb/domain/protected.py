"""
What the host runs without asking, and an agent could write: the one table of protected paths.

Inside, a protected directory or file is a mount point of its own and read-only, and so that nothing around it is
renamed, each directory on the way to it is a mount point too.
"""

from __future__ import annotations

from posixpath import normpath
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from aisb.domain.git_config import attribute_paths, hooks_paths, include_paths, program_paths
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aisb.domain.git_config import Setting

# The home that `~` or `~name` stands for, by that name; "" where nobody has it, and the text is a path as it is.
HomeOf: TypeAlias = "Callable[[str], str]"

DIRECTORY = "directory"
FILE = "file"


class Protected(NamedTuple):
    """A path from its root on, and what belongs there."""

    path: str
    kind: str


class Cover(NamedTuple):
    """
    A place that is a mount point of its own inside: `source` on the host, `target` inside.

    `identity` is its device and inode, "" for one that is yet to be made. `shown` is the file or the
    directory of a session that is shown in its place, "" for itself.
    """

    source: str
    target: str
    kind: str
    read_only: bool
    identity: str
    shown: str = ""


# Of any project, whether there is something or not.
OF_A_PROJECT = (
    Protected(".husky", DIRECTORY),
    Protected(".pi", DIRECTORY),
    Protected(".envrc", FILE),
    Protected(".mcp.json", FILE),
    Protected(".vscode/tasks.json", FILE),
)
# Of a git directory. `commondir` is not there as a rule; where it is, git takes its configuration from elsewhere.
OF_A_GIT_DIRECTORY = (
    Protected("hooks", DIRECTORY),
    Protected("info/attributes", FILE),
    Protected("config", FILE),
    Protected("config.worktree", FILE),
    Protected("commondir", FILE),
)
# Of what a git directory holds for each worktree that was added to it.
OF_A_WORKTREE = (Protected("commondir", FILE), Protected("gitdir", FILE), Protected("config.worktree", FILE))

# Of the repositories of other tools, by the name of their directory: their settings name hooks and extensions, too.
OF_OTHER_REPOSITORIES = MappingProxyType(
    {
        ".hg": (Protected("hgrc", FILE), Protected("hgrc-not-shared", FILE)),
        ".sl": (Protected("config", FILE),),
        ".jj": (Protected("repo/config.toml", FILE),),
        ".pijul": (Protected("config", FILE),),
        "_darcs": (Protected("prefs/defaults", FILE),),
    }
)

_LONGEST = 4096


def below(directory: str, table: Iterable[Protected]) -> list[Protected]:
    """The paths of a table, from where the directory is; "" is the root itself."""
    return [Protected(f"{directory}/{item.path}" if directory else item.path, item.kind) for item in table]


def of_other_repository(directory: str) -> list[Protected]:
    """What is protected of a directory, by its name; nothing where it is no repository of another tool than git."""
    return below(directory, OF_OTHER_REPOSITORIES.get(directory.rpartition("/")[2], ()))


def named_in(settings: tuple[Setting, ...], *, file: str, top: str, home_of: HomeOf) -> Iterator[Protected]:
    """
    What a configuration names as hooks, attributes or programs, as absolute paths.

    `file` is where it stands, `top` the top of its work tree. What it includes is told by `included_in`.
    """
    for value in hooks_paths(settings):
        yield Protected(_absolute(value, top, home_of), DIRECTORY)
    for value in (*attribute_paths(settings), *program_paths(settings)):
        yield Protected(_absolute(value, top, home_of), FILE)
    for path in included_in(settings, file=file, home_of=home_of):
        yield Protected(path, FILE)


def included_in(settings: tuple[Setting, ...], *, file: str, home_of: HomeOf) -> list[str]:
    """The files that a configuration includes, as absolute paths."""
    return [_absolute(value, file.rpartition("/")[0], home_of) for value in include_paths(settings)]


def _absolute(value: str, base: str, home_of: HomeOf) -> str:
    if value.startswith("~"):
        name, _, rest = value[1:].partition("/")
        home = home_of(name)
        value = f"{home}/{rest}" if home else value
    return plain(value if value.startswith("/") else f"{base}/{value}")


def plain(path: str) -> str:
    """The one form of a path that text can be compared in: two slashes at its beginning are one on this system."""
    normal = normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def relative_to(path: str, root: str) -> str:
    """The path from the root on, "" where it is not below it."""
    return path.removeprefix(root + "/") if path.startswith(root + "/") else ""


def parse_place(text: str, origin: str) -> Protected:
    """A path of `--protect` or `--unprotect`: below the project; a slash at its end says that it is a directory."""
    kind = DIRECTORY if text.endswith("/") else FILE
    path = text.rstrip("/")
    fit = path and not path.startswith("/") and normpath(path) == path and not path.startswith("..")
    if not fit or path == "." or len(path) > _LONGEST or any(ord(letter) < 32 for letter in path):
        raise UsageError(
            f"{origin} {text!r} is not a path below the project", hint=f"write it from there on: {origin} .git/config"
        )
    return Protected(path, kind)


def without(found: Iterable[Protected], taken_out: Iterable[Protected]) -> list[Protected]:
    """What is left to protect where these, and all below them, are not to be."""
    places = [item.path for item in taken_out]
    return [item for item in found if not any(item.path == place or relative_to(item.path, place) for place in places)]


def once(found: Iterable[Protected]) -> list[Protected]:
    """Each path once, in order; what lies below a protected directory is protected with it."""
    unique = {item.path: item for item in reversed(list(found))}
    directories = {path for path, item in unique.items() if item.kind == DIRECTORY}
    return [unique[path] for path in sorted(unique) if not directories.intersection(parents_of(path))]


def parents_of(path: str) -> list[str]:
    """The directories between the root and the path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
