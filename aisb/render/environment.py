"""The one Jinja environment. A name that a template misspells is an error, never an empty text."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aisb.assets import asset_path


@cache
def _environment() -> Environment:
    # Plain text for programs: HTML escaping would change it. Only canonical values reach a template.
    return Environment(
        loader=FileSystemLoader(asset_path("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def render(template: str, view: NamedTuple) -> str:
    """The text of `template` with the fields of `view` as its variables."""
    return _environment().get_template(template).render(view._asdict())
