"""
The caller's name and address, as git has them for every repository, and nothing else of git's configuration.

git is asked in `/`, so that no project has a say, and remembered by the files that decide its answer: a start asks
nothing where none of them has changed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from aisb.effects.host import find_program, refuse_planted
from aisb.effects.process import Command
from aisb.effects.situation import stamp_of
from aisb.effects.state import make_private, read_if_there, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aisb.effects.process import Runner

_SECONDS = 10
_KEYS = {"user.name": "NAME", "user.email": "EMAIL"}
_ROLES = ("AUTHOR", "COMMITTER")


def git_identity(environ: Mapping[str, str], cache: str, runner: Runner | None, project: str) -> dict[bytes, bytes]:
    """
    The variables that tell git who commits; none where nobody has said so, or where there is no git.

    Without a `runner` nothing is asked: what is not remembered is not there. Raises Unavailable for a git that an
    agent, or another user, may have put there.
    """
    own = _own_files(environ)
    # Most who have no identity have no such file either.
    if not any(os.path.exists(path) for path in own):
        return {}
    git = find_program("git", environ.get("PATH", ""))
    if git is None:
        return {}
    refuse_planted(git, project)
    path = f"{cache}/git-identity.json"
    remembered = _remembered(path, [git, *own])
    if remembered is None and runner is not None:
        remembered = _ask(git, own, runner, path)
    return _variables(remembered or {})


def _own_files(environ: Mapping[str, str]) -> list[str]:
    """Where git keeps what holds for every repository of the caller."""
    home = environ.get("HOME", "/")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return [f"{home}/.gitconfig", f"{config}/git/config"]


def _remembered(path: str, deciding: Sequence[str]) -> dict[str, str] | None:
    try:
        document = json.loads(read_if_there(path) or b"")
        files, stamps, found = document["files"], document["stamps"], document["found"]
        is_current = files[: len(deciding)] == [*deciding] and [stamp_of(file) for file in files] == stamps
        return dict(found) if is_current else None
    except (ValueError, KeyError, TypeError):
        return None


def _ask(git: str, own: Sequence[str], runner: Runner, path: str) -> dict[str, str]:
    """Ask git, and remember the answer by all files that it read or would read if they were there."""
    argv = (git, "config", "--global", "--includes", "--list", "--show-origin", "--null")
    done = runner.run(Command(argv=argv, timeout_seconds=_SECONDS))
    pairs = list(_pairs(done.stdout.decode("utf-8", "surrogateescape"))) if done.code == 0 else []
    found = {_KEYS[key]: value for _, key, value in pairs if key in _KEYS and value}
    files = list(dict.fromkeys([git, *own, *_read_by_git(pairs)]))
    make_private(os.path.dirname(path))
    document = {"files": files, "stamps": [stamp_of(file) for file in files], "found": found}
    write_whole(path, json.dumps(document).encode("ascii"))
    return found


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """The file, the key and the value of each setting, as `--show-origin --null` lists them."""
    fields = text.split("\0")
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        yield origin.removeprefix("file:"), key, value


def _read_by_git(pairs: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Each file that a setting is in, and each that one includes, whether it is there or not."""
    for file, key, value in pairs:
        yield file
        if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
            yield os.path.normpath(os.path.join(os.path.dirname(file), os.path.expanduser(value)))


def _variables(found: Mapping[str, str]) -> dict[bytes, bytes]:
    return {
        f"GIT_{role}_{what}".encode(): value.encode("utf-8", "surrogateescape")
        for role in _ROLES
        for what, value in found.items()
    }
