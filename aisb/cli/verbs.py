"""The verbs besides `run`: typer carries them, each imported when it is used."""

from __future__ import annotations

import typer

from aisb import __version__

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def _aisb() -> None:
    """Run a coding agent in a rootless sandbox whose network is an explicit allowlist."""


@app.command()
def version() -> None:
    """aisb's version."""
    typer.echo(f"aisb {__version__}")


@app.command()
def build(
    base_image: str = typer.Option("", help="The image to build on, or bootstrap:trixie.", envvar="AISB_BASE_IMAGE"),
    install: list[str] = typer.Option([], help="A distribution package to add."),
    ca_bundle: str = typer.Option("", help="Extra certificates to trust while building.", envvar="AISB_CA_BUNDLE"),
    node_source: str = typer.Option("", help="tarball or npm.", envvar="AISB_NODE_SOURCE"),
    trace: bool = typer.Option(False, "--trace", help="Print every command that aisb runs."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Only errors."),
) -> None:
    """Build what is missing of the two images, and print their names."""
    from aisb.cli.build import build_verb

    build_verb(base_image, tuple(install), ca_bundle, node_source, trace=trace, quiet=quiet)


def run_verb(verb: str, words: list[str]) -> int:
    """Run a verb and return its exit code: 2 for a command line that it cannot read, as everywhere."""
    try:
        app([verb, *words], prog_name="aisb")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0
