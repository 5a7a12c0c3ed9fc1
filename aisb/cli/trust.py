"""`aisb trust`, and the question that a run asks: what a project's files say, and whether they may say it."""

from __future__ import annotations

import os
import sys
import termios
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say, write_stderr
from aisb.domain.allow_file import parse_allow_file
from aisb.domain.answers import answer_text
from aisb.domain.layers import PROJECT, USER
from aisb.domain.net import ALLOW as NET_ALLOW
from aisb.domain.packages import parse_packages
from aisb.domain.policy import parse_allow
from aisb.domain.printing import printable
from aisb.domain.trust import ALLOW_FILE, CONFIG_FILE, POLICY_FILE, changes, content_hash
from aisb.effects.env_files import stand_in_of
from aisb.effects.safe_files import is_reached_through, read_in_project, read_project_directory
from aisb.effects.situation import resolve_project
from aisb.effects.state import preview_directories
from aisb.effects.trust import Asked, forget_record, need_trust, read_record, trust_command, untrusted
from aisb.errors import Unavailable, Untrusted, UsageError
from aisb.render.difference import difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.source_files import SourceFile

# Said whenever the file that can do it is looked at.
_INSTALL = f"what {CONFIG_FILE} names under install is installed with an open network when the image is built"
_YES = {"y", "yes"}


def trust_verb(
    project: str, paths: Sequence[str], env_paths: Sequence[str], *, show: bool, revoke: bool, as_json: bool
) -> int:
    """Ask, show or forget; the exit code. `env_paths` are files of variables, of which no value is shown."""
    if show and revoke:
        raise UsageError("--show and --revoke exclude each other", hint="leave one of the two out")
    if as_json and not show:
        raise UsageError("--json has a meaning with --show alone", hint="add: --show")
    where = preview_directories(os.environ)
    resolved = resolve_project(project, os.environ, where)
    if revoke:
        say(f"{resolved} is not trusted {'any more' if forget_record(where.state, resolved) else 'anyway'}")
        return 0
    if show:
        return _show(resolved, paths, env_paths, where.state, as_json=as_json)
    files = files_of(resolved, paths, env_paths)
    found = changes(read_record(where.state, resolved), files)
    if not found:
        say(f"{resolved}: {'this is trusted already' if files else 'there is nothing to trust'}")
        return 0
    named = {_relative(resolved, path) for path in paths}
    for file in files:
        _need_meaning(file, is_named=file.name in named)
    if not (os.isatty(0) and os.isatty(2)):
        raise _refused_without_a_terminal(Asked(resolved, files, found))
    need_trust(resolved, where.state, files, "", ask)
    return 0


def _need_meaning(file: SourceFile, *, is_named: bool) -> None:
    """
    Raises UsageError for a file that would be an error as soon as it was trusted, as far as its name says what it is.

    A run that comes upon new files parses nothing of them; here somebody has asked for this.
    """
    from aisb.domain.config_file import parse_config
    from aisb.domain.policy_file import parse_policy_file

    if file.name == ALLOW_FILE:
        parse_allow(NET_ALLOW, parse_allow_file(file.data(), file.name))
    elif file.name == POLICY_FILE:
        parse_allow(NET_ALLOW, parse_policy_file(file.data(), file.name).allow)
    elif file.name == CONFIG_FILE:
        layer = parse_config(file.data(), file.name, PROJECT)
        parse_allow(NET_ALLOW, ((item.value, item.origin) for item in layer.lists.get("allow", ())))
        wanted = {package: item for item in layer.lists.get("install", ()) for package in item.value.split(",")}
        parse_packages(wanted, {package: item.named("install") for package, item in wanted.items()})
    elif is_named and file.name.endswith((".yaml", ".yml")):
        try:
            parse_allow(NET_ALLOW, parse_policy_file(file.data(), file.name).allow)
        except UsageError as error:
            _need_configuration(file, error)


def _need_configuration(file: SourceFile, error: UsageError) -> None:
    """Raises that error of a policy, unless the file is a user's own configuration that is linked into a project."""
    from aisb.domain.config_file import parse_config

    try:
        parse_config(file.data(), file.name, USER)
    except UsageError:
        raise error from None


def may_install(text: str) -> bool:
    """Whether a configuration may say `install`: a key in quotes may be written with escapes."""
    return "install" in text or "\\" in text


def _refused_without_a_terminal(asked: Asked) -> Untrusted:
    """The refusal of a run, less its advice to do what was just done."""
    _, *others = (refusal := untrusted(asked)).hint.splitlines()
    return Untrusted(refusal.message, "\n".join([f"in a terminal: {trust_command(asked)}", *others]))


def files_of(project: str, paths: Sequence[str], env_paths: Sequence[str] = ()) -> tuple[SourceFile, ...]:
    """The project's own files that count, and those that a flag may name. Raises UsageError for one elsewhere."""
    named = {_relative(project, path) for path in paths}
    own = read_project_directory(project).files
    others = sorted(named - {file.name for file in own})
    filed = sorted({_relative(project, path) for path in env_paths})
    return (*own, *(read_in_project(project, name) for name in others), *(stand_in_of(project, name) for name in filed))


def _relative(project: str, path: str) -> str:
    # A path that is not absolute counts from the project, as the refusal names it; from here where it leads there.
    for candidate in (path, os.path.join(project, path)):
        real = os.path.realpath(candidate)
        if is_reached_through(candidate, project) and real.startswith(project + "/"):
            return real.removeprefix(project + "/")
    raise UsageError(
        f"{path} is not in {project}, and needs no trust", hint="trust is for files that an agent can write"
    )


def _show(project: str, paths: Sequence[str], env_paths: Sequence[str], state: str, *, as_json: bool) -> int:
    try:
        files = files_of(project, paths, env_paths)
    except UsageError as error:
        raise Unavailable(error.message, error.hint) from error
    found = changes(read_record(state, project), files)
    if as_json:
        differs = [{"file": change.name, "is": change.state} for change in found]
        fields = {"project": project, "trusted": not found, "hash": content_hash(files), "differs": differs}
        answer(answer_text(fields))
        return 1 if found else 0
    first = f"{'not trusted' if found else 'trusted'} {content_hash(files)} {printable(project)}\n"
    answer(first + difference(found, colour=_colour(terminal=os.isatty(1))))
    return 1 if found else 0


def ask(asked: Asked) -> bool:
    """Show on stderr what is new and wait for an answer on stdin; anything but yes is no."""
    write_stderr(difference(asked.changes, colour=_colour(terminal=True)))
    if any(change.name == CONFIG_FILE and may_install(change.new or "") for change in asked.changes):
        say(_INSTALL)
    # What was typed, or made the terminal answer, before the question stood there is no answer to it.
    termios.tcflush(0, termios.TCIFLUSH)
    write_stderr(f"aisb: is this what {printable(asked.project)} may ask for? [y/N] ")
    return sys.stdin.readline().strip().lower() in _YES


def _colour(*, terminal: bool) -> bool:
    return terminal and not os.environ.get("NO_COLOR")
