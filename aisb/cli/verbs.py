"""The verbs besides `run`: typer carries them, each imported when it is used."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperOption

from aisb import __version__
from aisb.cli.help import verb_help
from aisb.cli.output import answer
from aisb.cli.request import variable_of
from aisb.domain.options import BY_FLAG
from aisb.errors import UsageError

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
# Of its parser's errors typer exports one; what that derives from is all of them.
_UNREADABLE = cast("type[Exception]", typer.BadParameter.__base__)
_WORDS = (
    ("No such option: ", "it has no flag "),
    ("Got unexpected extra argument(s) ", "it takes no argument "),
    ("Option '", "the flag '"),
    ("requires an argument", "needs a value"),
)
# As for a run.
_HELP = {"help_option_names": ["--help", "-h"]}


class _Verb(TyperCommand):
    """A verb whose help looks like that of a run."""

    # typer calls this with a context of its own class or of click's, as its release has it; ours needs none of it.
    def get_help(self, ctx: Any) -> str:  # noqa: ANN401, ARG002
        options = [option for option in self.params if isinstance(option, TyperOption)]
        variables = [option.envvar for option in options if isinstance(option.envvar, str)]
        flags = [*map(_flag, options), ("--help", BY_FLAG["--help"].help)]
        return verb_help(self.name or "", self.help or "", flags, variables)


def _flag(option: TyperOption) -> tuple[str, str]:
    """A flag with its metavar, and its help with its short form."""
    name, *shorter = sorted(option.opts, key=len, reverse=True)
    text = (option.help or "") + "".join(f" (also {short})" for short in shorter)
    return f"{name} {option.metavar}" if option.metavar else name, text


def _text(name: str) -> str:
    """The help of the flag of that name of a run, which means the same here."""
    return BY_FLAG[f"--{name}"].help


def _metavar(name: str) -> str:
    return BY_FLAG[f"--{name}"].metavar


@app.callback()
def _aisb() -> None:
    """Run a coding agent in a rootless sandbox whose network is an explicit allowlist."""


@app.command(cls=_Verb, context_settings=_HELP)
def version() -> None:
    """aisb's version."""
    typer.echo(f"aisb {__version__}")


@app.command(cls=_Verb, context_settings=_HELP)
def build(
    context: typer.Context,
    base_image: str = typer.Option(
        "", metavar=_metavar("base-image"), help=_text("base-image"), envvar="AISB_BASE_IMAGE"
    ),
    install: list[str] = typer.Option([], metavar=_metavar("install"), help=_text("install")),
    ca_bundle: str = typer.Option(
        "", metavar=_metavar("ca-bundle"), help="extra certificates to trust while building", envvar="AISB_CA_BUNDLE"
    ),
    node_source: str = typer.Option(
        "", metavar=_metavar("node-source"), help=_text("node-source"), envvar="AISB_NODE_SOURCE"
    ),
    trace: bool = typer.Option(False, "--trace", help=_text("trace")),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="only errors"),
) -> None:
    """Build what is missing of the two images, and print their names."""
    from aisb.cli.build import build_verb

    origins = _origins(context, "base-image", "ca-bundle", "node-source")
    build_verb(base_image, tuple(install), ca_bundle, node_source, origins, trace=trace, quiet=quiet)


def _origins(context: typer.Context, *names: str) -> dict[str, str]:
    """Where the value of each option came from: its flag or its variable."""
    sources = {name: context.get_parameter_source(name.replace("-", "_")) for name in names}
    by_variable = {name for name, source in sources.items() if source is not None and source.name == "ENVIRONMENT"}
    return {name: variable_of(name) if name in by_variable else f"--{name}" for name in names}


def run_verb(verb: str, words: list[str]) -> int:
    """Run a verb and return its exit code. Raises UsageError for a command line that it cannot read."""
    try:
        with redirect_stdout(io.StringIO()) as printed:
            code = app([verb, *words], prog_name="aisb", standalone_mode=False)
    except _UNREADABLE as error:
        raise UsageError(f"aisb {verb}: {_sentence(str(error))}", hint=f"see: aisb {verb} --help") from error
    answer(printed.getvalue())
    return code if isinstance(code, int) else 0


def _sentence(text: str) -> str:
    """What was wrong, in the words of the rest of aisb where typer's are known."""
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    return text.removesuffix(".")
