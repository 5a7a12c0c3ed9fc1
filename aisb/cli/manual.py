"""What is generated of the documents: docs/cli.md and the schemas of configuration files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument, TyperOption

from aisb.cli.completion import leaves
from aisb.cli.request import variable_of
from aisb.cli.verbs import app
from aisb.domain.options import BY_FLAG, EXEC_OPTIONS, FLAG, LEARN_OPTIONS, OPTIONS, SHORT_FLAGS
from aisb.render.manual import Entry, Part, Row, manual
from aisb.render.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.options import Option

CONFIG = "config.yaml"
# How a verb ends, where it has more to say than 0 and what every verb may end with.
ENDINGS = {
    "allow": "0 where the gate has shown it, 69 where that could not be proved: then it is taken back. With `--save` "
    "78 where the list is not trusted: nothing is saved, and the run that goes on may reach it all the same.",
    "build": "69 where something cannot be fetched or built.",
    "clean": "69 where something had to stay.",
    "deny": "0 where the gate has shown it, 69 where that could not be proved: it refuses all the same.",
    "exec": "the command's own code; 2 where no such run goes on.",
    "doctor": "0 where a run will work here and be enforced, 69 where it would be refused; with `--strict` also for "
    "a warning, with `--deep` also where anything that was tried is not as it has to be.",
    "gate down": "69 where one that was named stays.",
    "gate logs": "0, also where no gate is there; 2 where there are several and none is named.",
    "gate status": "0, or 69 where one does not prove itself.",
    "gate up": "0 where it is there and has proved itself, 69 where it could not be started.",
    "init": "2 where a list is there already: it is left alone.",
    "inspect": "69 where the images are not built yet, or podman does not know the run; 2 where no such run goes on.",
    "learn": "the command's own code.",
    "logs": "0, also where nothing is on record; 2 where no run is named so.",
    "policy check": "0 allowed, 1 denied, 2 where nothing is allowed yet, 69 where it could not tell (a preset of an "
    "image that is not built).",
    "policy presets": "69 where it is to be read off an image that is not built.",
    "policy show": "0, also where nothing is allowed yet; 69 where a preset is to be read off an image that is not "
    "built.",
    "ps": "0, also where nothing runs.",
    "run": "the command's own code, or one of those above.",
    "serve": "0 where the client has ended the session; otherwise as a run does.",
    "stop": "0 once nothing is left of them; 2 where one of them does not go on: then none is ended.",
    "trust": "78 where nobody has said yes. With `--show`: 0 trusted, 1 not, 69 could not tell.",
    "update": "69 where anything fails: then all is as it was. With `--check`: 10 something is newer, 69 something is "
    "unknown, 0 neither.",
    "version": "",
}

_HELP = Row("-h, --help", BY_FLAG["--help"].help.replace(" (also -h)", ""))


def documents() -> dict[str, str]:
    """Every generated file, by its path in the repository."""
    schemas = {f"config/schemas/{name}.json": f"{json.dumps(made(), indent=2)}\n" for name, made in SCHEMAS.items()}
    return {"docs/cli.md": manual(entries()), **schemas}


def entries() -> list[Entry]:
    """Every verb, and every word below one; the run first."""
    own = [
        Entry(
            "run",
            "aisb [run] FLAG* ( -- COMMAND ARG* | AGENT-ARG* )",
            "The agent or a command, sandboxed. A flag may be given more than once: those that say so add up, of the "
            "others the last one counts.",
            _groups(OPTIONS),
            ENDINGS["run"],
        ),
        Entry(
            "learn",
            "aisb learn FLAG* -- COMMAND ARG*",
            "Run a command with everything public open on ports 80 and 443, and propose the list that it needs. Its "
            "flags are these and those of a run.",
            _groups(LEARN_OPTIONS),
            ENDINGS["learn"],
        ),
        Entry(
            "exec",
            "aisb exec FLAG* RUN -- COMMAND ARG*",
            "Run one more command in a sandbox that runs, as any command of it, with the variables that the run was "
            "given. RUN is a run's id or its beginning, or `.` for the one of the project that is here.",
            (Part("", (*map(_row, EXEC_OPTIONS), _HELP)),),
            ENDINGS["exec"],
        ),
        Entry(
            "serve",
            "aisb serve FLAG*",
            "Start a sandbox for the program on stdin and stdout, which says what is to be done in it "
            "([session-protocol.md](session-protocol.md)), and end it with that program. Its flags are those of a run.",
            (),
            ENDINGS["serve"],
        ),
    ]
    run, *others = sorted(
        [*own, *(_of_typer(name, command) for name, command in leaves(typer.main.get_command(app)))],
        key=lambda entry: (entry.name != "run", entry),
    )
    return [run, *others]


def _groups(options: Iterable[Option]) -> tuple[Part, ...]:
    rows: dict[str, list[Row]] = {}
    for option in options:
        rows.setdefault(option.group, []).append(_row(option))
    return tuple(Part(title, tuple(found)) for title, found in rows.items())


def _row(option: Option) -> Row:
    shorter = [short for short, name in SHORT_FLAGS.items() if name == option.name]
    names = ", ".join([*shorter, f"--{option.name}"])
    written = names if option.kind == FLAG else f"{names} {option.metavar}"
    # The help of a screen says the short form in words.
    text = option.help.replace(f" (also {shorter[0]})", "") if shorter else option.help
    layers = {"env": variable_of(option.name), "config": CONFIG}
    return Row(written, text, tuple(layers[layer] for layer in option.layers))


def _of_typer(name: str, command: object) -> Entry:
    params = getattr(command, "params", [])
    words = [param for param in params if isinstance(param, TyperArgument)]
    flags = [param for param in params if isinstance(param, TyperOption)]
    rows = (
        *(Row(str(word.metavar), str(getattr(word, "help", "") or "")) for word in words),
        *map(_flag, flags),
        _HELP,
    )
    usage = " ".join(["aisb", name, "FLAG*", *(str(word.metavar) for word in words)])
    about = " ".join(str(getattr(command, "help", "")).split())
    return Entry(name, usage, f"{about.rstrip('.')}.", (Part("", rows),), ENDINGS[name])


def _flag(option: TyperOption) -> Row:
    names = ", ".join(sorted(option.opts, key=len))
    variable = (option.envvar,) if isinstance(option.envvar, str) else ()
    return Row(f"{names} {option.metavar}" if option.metavar else names, option.help or "", variable)


def write_all(directory: str) -> None:
    """Write every generated file below the top of the repository."""
    for path, text in documents().items():
        with open(f"{directory}/{path}", "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    import sys

    write_all(sys.argv[1])
