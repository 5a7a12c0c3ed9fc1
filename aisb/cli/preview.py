"""`--print-*` and `--dry-run`: what would be, from the records as they are. Nothing is started, written or asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.cli.output import answer
from aisb.cli.request import read_variables
from aisb.cli.run import command_environment_of, job_of, question_of
from aisb.domain.options import PREVIEWS
from aisb.effects.make_plan import preview_of
from aisb.effects.run import gate_view, view_of
from aisb.effects.session import Session
from aisb.effects.situation import resolve_project
from aisb.effects.state import preview_directories
from aisb.render.argv import sandbox_argv
from aisb.render.describe import dry_run_lines
from aisb.render.gate import gate_argv

if TYPE_CHECKING:
    from aisb.cli.request import Request
    from aisb.effects.plan import Plan
    from aisb.effects.state import Directories

_RUN = "00000000"


def preview(request: Request) -> int:
    """Print what was asked for on stdout, in the order of the help."""
    where = preview_directories(os.environ)
    project = resolve_project(request.project, os.environ, where)
    variables = read_variables(request.wanted.environment, os.environb)
    rendered = preview_of(question_of(request, project, "pasta"), where.cache)
    # All of it before any of it is printed: an error leaves nothing half said.
    texts = [rendered.texts[what]() for what in PREVIEWS if request.has(f"print-{what}")]
    if request.has("dry-run"):
        texts += [f"{line}\n" for line in _dry_run(request, rendered.plan(), where, project, variables)]
    answer("".join(texts))
    return 0


def _dry_run(
    request: Request, plan: Plan, where: Directories, project: str, variables: dict[bytes, bytes]
) -> list[str]:
    job = job_of(request, plan, where, project, "podman", "pasta", variables)
    gated = plan.net == "allow"
    gate = f"{where.runtime}/g/{plan.gate_key[:12]}"
    session = Session(_RUN, f"{gate}/r/{_RUN}" if gated else f"{where.runtime}/r/{_RUN}")
    files = [f"{session.files}/{name}" for name in sorted(plan.session_files)]
    files += [f"{gate}/conf/{name}" for name in sorted(plan.gate_files)]
    return dry_run_lines(
        files=files,
        gate=gate_argv(gate_view(job, plan, gate)) if gated else (),
        sandbox=sandbox_argv(view_of(job, plan, session, (("aisb.role", "sandbox"), ("aisb.run", _RUN)))),
        variables=[os.fsdecode(name) for name in command_environment_of(plan, variables)],
    )
