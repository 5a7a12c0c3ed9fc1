"""
The files that shape a run besides its command line, each read once: the user's own, the project's, and those that
flags name. What an agent could have written counts only once its user has seen it.
"""

from __future__ import annotations

import hashlib
import json
import os
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.trust import ALLOW_FILE, CONFIG_FILE, POLICY_FILE, PROJECT_DIRECTORY
from aisb.effects.git_directory import find_git_directory
from aisb.effects.plan import fingerprint
from aisb.effects.safe_files import (
    need_outside_of_homes,
    place_in_project,
    read_in_project,
    read_outside,
    read_project_directory,
)
from aisb.effects.state import make_private, read_if_there, volumes_directory, write_whole
from aisb.effects.trust import need_trust
from aisb.errors import UsageError
from aisb.render.argv import PROJECT_TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.source_files import SourceFile
    from aisb.domain.variables import Given
    from aisb.effects.git_directory import GitDirectory
    from aisb.effects.state import Directories
    from aisb.effects.trust import Asked


class Sources(NamedTuple):
    """
    What was read. `layers` are configuration files; the others, the weakest first, are parsed where a plan is made.

    `names` are those of all of them. `policy_directory` is device and inode of the project's `.ai-sandbox`, "" where
    there is none. `variables` are what files of variables hold, `notes` what their user may not have thought of.
    """

    layers: tuple[Layer, ...] = ()
    allow_files: tuple[SourceFile, ...] = ()
    policy_files: tuple[SourceFile, ...] = ()
    policy_directory: str = ""
    variables: tuple[Given, ...] = ()
    git: GitDirectory | None = None
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Wish(NamedTuple):
    """Which files to read: those of the project, a real path or "", those of `--policy`, and those of `--env-file`."""

    project: str
    policy_paths: tuple[str, ...] = ()
    trust_once: str = ""
    env_paths: tuple[str, ...] = ()
    # Where the project is inside.
    target: str = PROJECT_TARGET


class NamedFile(NamedTuple):
    """A file that was read, and whether it lies where an agent can write it."""

    file: SourceFile
    in_project: bool


def read_sources(
    wish: Wish, where: Directories, agrees: Callable[[Asked], bool] | None, *, keep: bool = True
) -> Sources:
    """
    Everything that the wish names, trusted. `agrees` asks a person, None where there is none.

    Raises UsageError for what cannot be read, Untrusted for what nobody has seen. With `keep` the meaning of a
    configuration file is remembered, so that the next start need not parse it.
    """
    if wish.trust_once and not wish.project:
        raise UsageError("--trust-once is for the files of a project, and there is none", hint="leave it out")
    directory = read_project_directory(wish.project)
    user = _user_config(where.config, wish.project)
    named = [read_named(path, wish.project, "--policy") for path in wish.policy_paths]
    own = directory.files
    filed = _filed(wish)
    git, note = find_git_directory(wish.project, wish.target)
    if wish.project:
        pointer = (git.pointer,) if git else ()
        shown = [found.file for found in (*named, *user) if found.in_project]
        inside = dict.fromkeys((*own, *pointer, *shown, *(shown for _, shown in filed if shown is not None)))
        need_trust(wish.project, where.state, tuple(inside), wish.trust_once, agrees)
    configs = [(found.file, USER) for found in user] + [(file, PROJECT) for file in own if file.name == CONFIG_FILE]
    policies = [*(file for file in own if file.name == POLICY_FILE), *(found.file for found in named)]
    return Sources(
        layers=tuple(_layer(file, kind, where.cache, keep=keep) for file, kind in configs),
        allow_files=tuple(file for file in own if file.name == ALLOW_FILE),
        policy_files=tuple(dict.fromkeys(policies)),
        policy_directory=directory.identity,
        variables=tuple(item for given, _ in filed for item in given),
        git=git,
        notes=(
            *((note,) if note else ()),
            *(f"{shown.name} lies in the project: the agent can read all of it" for _, shown in filed if shown),
        ),
        names=_names(*(found.file for found in (*user, *named)), *own) + wish.env_paths,
    )


def _names(*files: SourceFile) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file.name for file in files))


def _filed(wish: Wish) -> list[tuple[tuple[Given, ...], SourceFile | None]]:
    """What each file of variables holds, and what stands for one that an agent can write where trust is asked for."""
    if not wish.env_paths:
        return []
    # A start without such a file need not know how to read one.
    from aisb.effects.env_files import read_env_file

    return [read_env_file(path, wish.project) for path in wish.env_paths]


def read_named(path: str, project: str, origin: str, *, private: bool = False) -> NamedFile:
    """
    The file that a flag names; one in the project by its path from there on, so that trust can be said of it.

    A `private` one is refused where others may read it.

    Raises Untrusted for a path that leads through the project to somewhere else: the agent decides where.
    """
    if not path:
        raise UsageError(f"{origin} is empty", hint=f"name a file: {origin} FILE")
    need_outside_of_homes(path, volumes_directory(os.environ), origin)
    place = place_in_project(path, project, origin)
    try:
        if place:
            return NamedFile(read_in_project(project, place, private=private), in_project=True)
        return NamedFile(read_outside(path, path, private=private), in_project=False)
    except UsageError as error:
        if origin == "--policy" and os.path.isdir(path):
            raise UsageError(f"--policy {path} is a directory", hint=_policy_in(path)) from error
        raise


def _policy_in(directory: str) -> str:
    """Which file was meant, as far as its name tells."""
    names = [f"{directory.rstrip('/')}/{name}" for name in ("policy.yaml", f"{PROJECT_DIRECTORY}/policy.yaml")]
    there = [name for name in names if os.path.isfile(name)]
    return f"name the file: --policy {quote(there[0])}" if there else "name a file: --policy FILE"


def user_layers(where: Directories) -> tuple[Layer, ...]:
    """What the user's own configuration says, for a verb that has no project."""
    return tuple(_layer(found.file, USER, where.cache, keep=False) for found in _user_config(where.config, ""))


def _user_config(config: str, project: str) -> tuple[NamedFile, ...]:
    """The user's configuration file, if there is one."""
    path = f"{config}/config.yaml"
    if not os.path.lexists(path):
        _refuse_another_name(config)
        return ()
    # Linked into a project, as by people who keep their settings in a repository, it is the agent's to write.
    found = read_named(path, project, "the configuration")
    return (found if found.in_project else NamedFile(found.file._replace(name=_short(path)), in_project=False),)


def _refuse_another_name(config: str) -> None:
    """Raises UsageError for a file that was meant to count, and does not. A copy that was put aside was not."""
    try:
        names = sorted(os.listdir(config))
    except OSError:
        return
    others = [name for name in names if not name.startswith("config.yaml")]
    if not others:
        return
    from difflib import get_close_matches

    for name in others:
        if get_close_matches(name.lower(), ["config.yaml"], cutoff=0.75):
            raise UsageError(
                f"{_short(f'{config}/{name}')} is not a file that aisb reads",
                hint=f"name it: {_short(f'{config}/config.yaml')}",
            )


def _short(path: str) -> str:
    home = os.environ.get("HOME", "")
    return "~" + path.removeprefix(home) if home and path.startswith(home + "/") else path


def _layer(file: SourceFile, kind: str, cache: str, *, keep: bool) -> Layer:
    """What a configuration file says; from the cache where the same bytes were read before."""
    digest = hashlib.sha256(json.dumps([kind, *file, fingerprint()]).encode()).hexdigest()
    path = f"{cache}/settings/{digest}.json"
    kept = _from_json(kind, read_if_there(path))
    if kept is not None:
        return kept
    from aisb.domain.config_file import parse_config

    layer = parse_config(file.data(), file.name, kind)
    if keep:
        make_private(os.path.dirname(path))
        write_whole(path, json.dumps([layer.scalars, layer.lists]).encode())
    return layer


def _from_json(kind: str, text: bytes | None) -> Layer | None:
    """The layer that was kept, None where there is none that can be read."""
    try:
        scalars, lists = json.loads(text or b"")
        return Layer(
            kind,
            {key: Setting(*setting) for key, setting in scalars.items()},
            {key: tuple(Setting(*setting) for setting in settings) for key, settings in lists.items()},
        )
    except (ValueError, TypeError, AttributeError):
        return None
