"""`aisb doctor`: whether a run will work here and be enforced, and what mends what is in the way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.cli.configured import need_configuration
from aisb.cli.output import answer, colour
from aisb.domain.answers import answer_text
from aisb.domain.attempts import has_failed, with_attempts
from aisb.domain.doctor import FAIL, as_json, exit_code, verdict
from aisb.effects.checks import examine
from aisb.effects.machine import Machine
from aisb.effects.process import SystemRunner
from aisb.errors import Unavailable
from aisb.render.doctor import attempt_lines, doctor_lines

if TYPE_CHECKING:
    from aisb.domain.attempts import Result


def doctor_verb(*, json_wanted: bool, strict: bool, deep: bool) -> int:
    """Look at everything, with `deep` try everything too where a run would not be refused; print it: 0 or 69."""
    machine = Machine(os.environ, SystemRunner(), need_configuration)
    findings = examine(machine)
    results = _tried(machine) if deep and verdict(findings) != FAIL else []
    if json_wanted:
        answer(answer_text(with_attempts(as_json(findings), results)))
    else:
        lines = doctor_lines(findings, colour=colour())
        if deep:
            lines += attempt_lines(results, colour=colour())
        answer("".join(f"{line}\n" for line in lines))
    return Unavailable.exit_code if has_failed(results) else exit_code(findings, strict=strict)


def _tried(machine: Machine) -> list[Result]:
    # A run is imported for it.
    from aisb.cli.deep import try_everything

    return try_everything(machine)
