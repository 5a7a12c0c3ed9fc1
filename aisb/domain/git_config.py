"""
Git's configuration read as text. aisb never runs git in a project: reading its configuration is what runs programs.

More is taken for a setting here than git would take: a line that git refuses protects a file too many, and no less.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?$", re.DOTALL)
_BLANKS = " \t\r\n"
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}

_ESCAPED = re.compile(r"\\.", re.DOTALL)
# Keys whose value git, or what extends it, hands to a shell or starts as a program, without asking.
_RUNS = re.compile(
    r"core\.(fsmonitor|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand)|sequence\.editor"
    r"|diff\.external|(diff|difftool|merge|mergetool)\..*(command|cmd|textconv|driver|path)"
    r"|filter\..*\.(clean|smudge|process)|interactive\.difffilter|(man|browser|web|pager)\..*"
    r"|gpg\.(.*\.)?(program|defaultkeycommand)|credential\.(.*\.)?helper|trailer\..*\.(command|cmd)"
    r"|remote\..*\.(uploadpack|receivepack|vcs|proxy)|submodule\..*\.update|sendemail\..*(cmd|server)"
    r"|uploadpack\.packobjectshook|instaweb\..*|tar\..*\.command|hook\..*\.command|alias\..*"
    r"|gc\.recentobjectshook|imap\.tunnel|guitool\..*\.cmd|init\.templatedir|svn(-remote)?\..*authorsprog"
    r"|lfs\.(customtransfer|extension)\..*\.(path|clean|smudge)|annex\..*command.*|remote\..*\.annex-.*"
)
# With them an address is a command: `ext::sh -c ...`.
_OPENS_TRANSPORTS = re.compile(r"protocol\.(.*\.)?allow")
# The first words of aliases that start nothing, whatever follows. `git -c` and many other verbs do.
_HARMLESS = re.compile(
    r"(add|blame|branch|checkout|cherry-pick|commit|describe|diff|log|ls-files|merge|reflog|reset|restore|rev-parse"
    r"|revert|shortlog|show|stash|status|switch|tag)(\s.*)?",
    re.DOTALL,
)
_NAMES_A_FILE = re.compile(r"include\.path|includeif\..*\.path|core\.attributesfile")
_HOOKS = "core.hookspath"
_TEMPLATE = "init.templatedir"


class Setting(NamedTuple):
    """One setting; section and key in lower case, as git compares them, with what stands between them as it is."""

    name: str
    value: str


def parse_git_config(text: str) -> tuple[Setting, ...]:
    """Every setting of a configuration file, in its order."""
    return tuple(_settings(text))


def _settings(text: str) -> Iterator[Setting]:
    section = ""
    for line in _whole_lines(text):
        # Of what is blank elsewhere, only this is to git: the rest is part of a name.
        text, start, last = line.lstrip().rstrip(_BLANKS), 0, None
        # A line may hold very many; the last one counts, and what is before it is not copied for each.
        while header := _HEADER.match(text, start):
            last, start = header, header.end()
        if last:
            sub = re.sub(r"\\(.)", r"\1", last[2]) if last[2] is not None else None
            section = last[1].lower() + (f".{sub}" if sub is not None else "")
        found = _KEY.match(text[start:])
        if found and section:
            yield Setting(f"{section}.{found[1].lower()}", _value(found[2]) if found[2] is not None else "true")


def _whole_lines(text: str) -> Iterator[str]:
    """The lines, with those joined that a backslash at the end continues. A comment ends with its line."""
    pending: list[str] = []
    is_quoted = has_comment = False
    for line in text.replace("\r\n", "\n").lstrip("\ufeff").split("\n"):
        if (len(line) - len(line.rstrip("\\"))) % 2:
            # There may be very many: each is looked at once.
            is_quoted, has_comment = _after(line[:-1], is_quoted=is_quoted)
            if not has_comment:
                pending.append(line[:-1])
                continue
        yield "".join([*pending, line])
        pending, is_quoted = [], False
    yield "".join(pending)


def _after(line: str, *, is_quoted: bool) -> tuple[bool, bool]:
    """Whether the text is within quotes at the end of a line, and whether there is a comment in it."""
    parts = _ESCAPED.sub("", line).split('"')
    outside = parts[is_quoted::2]
    return is_quoted == len(parts) % 2, any("#" in part or ";" in part for part in outside)


def _value(text: str) -> str:
    """The value without quotes, comment and blanks around it."""
    kept, is_quoted, end = [], False, 0
    letters = iter(text.strip(_BLANKS))
    for letter in letters:
        if letter == "\\":
            following = next(letters, "")
            kept.append(_ESCAPES.get(following, following))
        elif letter == '"':
            is_quoted = not is_quoted
        elif letter in "#;" and not is_quoted:
            break
        else:
            kept.append(letter)
            if letter in " \t" and not is_quoted:
                continue
        end = len(kept)
    return "".join(kept[:end])


def runs_something(setting: Setting) -> bool:
    """Whether git may run a program because of this setting, or reads others from elsewhere."""
    name = setting.name
    if name.startswith("alias."):
        return not _HARMLESS.fullmatch(setting.value)
    if _OPENS_TRANSPORTS.fullmatch(name):
        return setting.value.lower() != "never"
    if name == "core.fsmonitor":
        return setting.value.lower() not in ("true", "false", "yes", "no", "on", "off", "1", "0", "")
    return name == _HOOKS or bool(_NAMES_A_FILE.fullmatch(name) or _RUNS.fullmatch(name))


def hooks_paths(settings: tuple[Setting, ...]) -> list[str]:
    """The directories of hooks, and those that new repositories have theirs from, as they are written."""
    return [setting.value for setting in settings if setting.name in (_HOOKS, _TEMPLATE) and setting.value]


def include_paths(settings: tuple[Setting, ...]) -> list[str]:
    """The files that are read as well, whatever their condition, as they are written."""
    return [setting.value for setting in settings if re.fullmatch(r"include\.path|includeif\..*\.path", setting.name)]


def attribute_paths(settings: tuple[Setting, ...]) -> list[str]:
    """The files of attributes, as they are written."""
    return [setting.value for setting in settings if setting.name == "core.attributesfile"]


def program_paths(settings: tuple[Setting, ...]) -> list[str]:
    """What in the commands of a configuration may be a file: each word with a slash."""
    return [word for word in _words(settings) if "/" in word.strip("/")]


def program_names(settings: tuple[Setting, ...]) -> list[str]:
    """What in them is a file where there is one of that name, as in `python clean.py`: each word without a slash."""
    return [word for word in _words(settings) if "/" not in word]


def _words(settings: tuple[Setting, ...]) -> list[str]:
    commands = (setting.value for setting in settings if _RUNS.fullmatch(setting.name) and runs_something(setting))
    words = (word for command in commands for word in re.split(r"[\s\"'`;|&()<>!=]+", command))
    # A flag of one letter may have its value right behind it: `ssh -Fconfig`.
    names = (word[2:] if re.match("-[A-Za-z]", word) else word for word in words)
    return [name for name in names if name not in ("", ".", "..") and not name.startswith("-")]
