"""docs/cli.md, from the tables of options: every verb and flag, and how each ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOTE = "<!-- Generated from aisb's tables of options by `make docs`: what is changed here is lost. -->"
# What every verb may end with; what 0 and others mean for one of them stands with the verb.
EXIT_CODES = (
    ("0", "what was asked for is done"),
    ("1", "what was asked for could not be written to stdout; of `policy check` and `trust --show`: no"),
    ("2", "a command line, an entry or a file that cannot be meant: nothing was started"),
    ("10", "of `update --check` alone: something is newer"),
    ("69", "podman, the gate, a registry or a build is not to be had"),
    ("70", "a bug of aisb"),
    ("77", "the sandbox could not be closed, so nothing was run"),
    (
        "78",
        "a file that shapes the sandbox lies where the agent can write it, and nobody has trusted what is in it now",
    ),
    ("124", "the time of `--timeout` was over"),
    ("126, 127", "the command cannot be run, or is not there"),
    ("128+n", "the command, or aisb, was ended by signal n"),
)


class Row(NamedTuple):
    """A word or flag as it is written, what it means, and what may set it for lines that do not give it."""

    written: str
    text: str
    layers: tuple[str, ...] = ()


class Part(NamedTuple):
    """Rows below a title; "" where all of a verb's stand together."""

    title: str
    rows: tuple[Row, ...]


class Entry(NamedTuple):
    """A verb: what is typed, what it does, its words and flags, and how it ends where that is its own."""

    name: str
    usage: str
    about: str
    parts: tuple[Part, ...]
    ends: str


def manual(entries: Iterable[Entry]) -> str:
    """The whole page."""
    return "\n\n".join([_head(), *map(_entry, entries)]) + "\n"


def _head() -> str:
    codes = _table(("code", "means"), EXIT_CODES)
    return f"""\
# The command line

{_NOTE}

    aisb [run] FLAG* [AGENT-ARG*]       the agent, sandboxed
    aisb [run] FLAG* -- COMMAND ARG*    any command
    aisb VERB ...

The first word that is no flag of aisb's, and all that follows, is the agent's. A flag's value follows it, or stands
after `=`. Where the last column names a variable or `config.yaml`, that sets the flag for lines that do not give it.
`aisb VERB --help` says the same on a screen.

## Exit codes

Those of a run are the command's own; these are aisb's.

{codes}

## For programs

Every verb that answers has `--json`, `aisb --version` too. It prints one object in ASCII whose field `version` is that
of its form, one for all verbs; fields may be added within a version.
[config/schemas/answers.json](../config/schemas/answers.json) is the schema. `inspect` has no other form, and
`logs --json` without `--summary` is the lines of the record ([logs.md](logs.md#a-line))."""


def _entry(entry: Entry) -> str:
    parts = [_part(part) for part in entry.parts if part.rows]
    ends = [f"Ends with {entry.ends}"] if entry.ends else []
    return "\n\n".join([f"## aisb {entry.name}", f"    {entry.usage}", entry.about, *parts, *ends])


def _part(part: Part) -> str:
    title = f"**{part.title}**\n\n" if part.title else ""
    return title + _table(
        ("", "means", "also set by"), ((f"`{row.written}`", row.text, _layers(row)) for row in part.rows)
    )


def _layers(row: Row) -> str:
    return ", ".join(f"`{layer}`" for layer in row.layers)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
