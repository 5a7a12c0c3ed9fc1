"""
A part of a Containerfile that is the user's own: what --install cannot say.

It is applied between the packages and the user's account, and must leave alone what runs rely on: which base it is,
what the environment holds, and how the next steps are run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST = 64 * 1024
# Of white space, what is neither a blank nor a tab: podman ends a continued line by it, or does not.
_STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|(?![ \t\n])\s")
_WORD = re.compile(r"[A-Za-z]+(?=\s)")
_ALLOWED = ("RUN", "ARG", "LABEL", "USER", "WORKDIR")
_WHY = {
    "FROM": "the base is --base-image, and everything else is built on top of it",
    "ENV": "the variables of a run are --env; for the build alone: ARG",
    "COPY": "a build sees no file of this machine: fetch it by RUN",
    "ADD": "a build sees no file of this machine: fetch it by RUN",
    "ENTRYPOINT": "what a run starts with is aisb's own",
    "CMD": "what a run starts with is aisb's own",
}
# Written so that there are not two ways to read them.
_LABEL = re.compile(r"""\s([A-Za-z0-9._/-]+)=(?:"[^"\\]*"|'[^'"\\]*'|[^\s"'\\]*)(?=\s|$)""")


def parse_fragment(data: bytes, name: str) -> str:
    """
    The text, with one line end at its end; "" where there is no instruction in it.

    Raises UsageError, with file and line, for what is not allowed in it.
    """
    text = _text(data, name)
    found = False
    for number, instruction in _instructions(text, name):
        found = True
        _check(instruction, f"{name}:{number}")
    return text.rstrip("\n") + "\n" if found else ""


def _text(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text", hint=_hint()) from None
    text = text.replace("\r\n", "\n")
    if len(data) > _LARGEST:
        raise UsageError(f"{name} is larger than {_LARGEST // 1024} KiB", hint=_hint())
    strange = _STRANGE.search(text)
    if strange:
        raise UsageError(f"{name} is not plain text: it holds {strange[0]!r}", hint=_hint())
    return text


def _instructions(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Each instruction with the number of its first line; comments and empty lines are left out, as podman does."""
    begun, parts = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun = begun or number
        parts += line.rstrip().removesuffix("\\") + " "
        if not line.rstrip().endswith("\\"):
            yield begun, parts.strip()
            begun, parts = 0, ""
    if begun:
        raise UsageError(f"{name}:{begun}: the last line ends in a backslash, and would take in what follows")


def _check(instruction: str, where: str) -> None:
    match = _WORD.match(f"{instruction} ")
    word = match[0].upper() if match else ""
    if word not in _ALLOWED:
        shown = instruction.split()[0][:40]
        raise UsageError(f"{where}: {shown!r} is not allowed in it", hint=_WHY.get(word, _hint()))
    rest = instruction[len(word) :]
    if word == "RUN":
        _check_command(rest.split(), where)
    if word == "LABEL":
        _check_labels(rest, where)


def _check_command(words: list[str], where: str) -> None:
    if words and words[0].startswith("--"):
        raise UsageError(
            f"{where}: {words[0][:40]!r}: flags of RUN are not allowed in it", hint="write the command alone"
        )
    # Its end would be anywhere below, in aisb's own steps too; podman 4.3 knows none at all.
    if any(_begins_document(word) for word in words):
        raise UsageError(
            f"{where}: a document in place (<<) is not allowed in it", hint="write: RUN printf '%s' ... >FILE"
        )


def _begins_document(word: str) -> bool:
    """Whether it may, however it is quoted: a shift in the shell's arithmetic is none, nor is <<<."""
    before, sign, after = word.partition("<<")
    return bool(sign) and after[:1] not in ("", "<") and "$((" not in before


def _check_labels(rest: str, where: str) -> None:
    if _LABEL.sub("", rest).strip():
        raise UsageError(f"{where}: a label is not in its plain form", hint='write: LABEL NAME=VALUE, or NAME="VALUE"')
    if any(name.startswith("aisb.") for name in _LABEL.findall(rest)):
        raise UsageError(f"{where}: labels that begin with aisb. are aisb's own", hint="choose another name")


def _hint() -> str:
    return f"write instructions of a Containerfile, of these: {', '.join(_ALLOWED)}"
