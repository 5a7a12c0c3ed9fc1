"""The tables that completion is made from: the options of a run, and what typer carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from aisb.cli.verbs import app
from aisb.domain.options import EXEC_OPTIONS, FLAG, LEARN_OPTIONS, OPTIONS
from aisb.render.completion import Flag, Verb, bash, fish, zsh

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.domain.options import Option

FILES = {"aisb.bash": bash, "_aisb": zsh, "aisb.fish": fish}
_HELP = Flag("help", "", "this text")
# Of a run that is over they say something too.
_OF_RECORDS = ("inspect", "logs")


def completions() -> dict[str, str]:
    """The three files, by name."""
    verbs = all_verbs()
    return {name: render(verbs) for name, render in FILES.items()}


def all_verbs() -> list[Verb]:
    """Every verb, and every word below one, with its flags."""
    run = _of_options(OPTIONS)
    learn = [flag for flag in (*_of_options(LEARN_OPTIONS), *run) if flag.name != "version"]
    own = [
        Verb("run", "the agent or a command, sandboxed", tuple(run)),
        Verb("serve", "a sandbox for the program on stdin and stdout", tuple(run)),
        Verb("exec", "one more command in a sandbox that runs", (*_of_options(EXEC_OPTIONS), _HELP), "runs"),
        Verb("learn", "run a command, and propose the list that it needs", tuple(learn)),
    ]
    return sorted([*own, *(_of_typer(name, command) for name, command in leaves(typer.main.get_command(app)))])


def _of_options(options: Iterable[Option]) -> list[Flag]:
    return [Flag(option.name, "" if option.kind == FLAG else option.metavar, option.help) for option in options]


def leaves(command: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every verb that typer carries, and every word below one, by its words."""
    if not isinstance(command, TyperGroup):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from leaves(below, f"{name} {word}".strip())


def _of_typer(name: str, command: object) -> Verb:
    params = getattr(command, "params", [])
    flags = [
        Flag(max(param.opts, key=len).removeprefix("--"), "" if param.is_flag else str(param.metavar), param.help or "")
        for param in params
        if isinstance(param, TyperOption)
    ]
    arguments = [str(param.metavar) for param in params if isinstance(param, TyperArgument)]
    text = str(getattr(command, "help", "") or "").splitlines()[0].partition(":")[0].rstrip(".")
    return Verb(name, text, (*flags, _HELP), _taken(name, arguments))


def _taken(name: str, arguments: Iterable[str]) -> str:
    """What stands behind a verb, as far as a shell can tell what there is."""
    if any("RUN" in argument for argument in arguments):
        return "records" if name in _OF_RECORDS else "runs"
    if any("GATE" in argument for argument in arguments):
        return "gates"
    return "files" if any("FILE" in argument for argument in arguments) else ""


def write_all(directory: str) -> None:
    """Write the three files."""
    for name, text in completions().items():
        with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    import sys

    write_all(sys.argv[1])
