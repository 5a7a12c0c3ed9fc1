"""`--print-*` and `--dry-run`: what would be, from the records as they are. Nothing is started, written or asked."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from aisb.cli.request import read_variables
from aisb.domain.options import PREVIEWS
from aisb.effects.make_plan import compose, preview_texts
from aisb.effects.run import Job, describe
from aisb.effects.situation import look_around, resolve_project
from aisb.effects.state import preview_directories
from aisb.render.identity import command_environment

if TYPE_CHECKING:
    from aisb.cli.request import Request


def preview(request: Request) -> int:
    """Print what was asked for on stdout, in the order of the help."""
    where = preview_directories(os.environ)
    project = resolve_project(request.project, os.environ, where)
    read_variables(request.environment, os.environb)
    question = look_around(
        net=request.net,
        allow=request.allow,
        environment=request.environment,
        install=request.install,
        base_image=request.base_image,
        ca_bundle=request.ca_bundle,
        project=project,
        network="pasta",
        cache=where.cache,
    )
    texts = preview_texts(question, where)
    for what in PREVIEWS:
        if request.has(f"print-{what}"):
            sys.stdout.write(texts[what]())
    if request.has("dry-run"):
        plan = compose(question, where)
        for line in describe(_job(request, plan, project), plan):
            sys.stdout.write(line + "\n")
    return 0
