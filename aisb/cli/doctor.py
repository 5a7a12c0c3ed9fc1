"""`aisb doctor`: whether a run will work here and be enforced, and what mends what is in the way."""

from __future__ import annotations

import json
import os

from aisb.cli.output import answer, colour
from aisb.domain.doctor import as_json, exit_code
from aisb.effects.checks import examine
from aisb.effects.machine import Machine
from aisb.effects.process import SystemRunner
from aisb.render.doctor import doctor_lines


def doctor_verb(*, json_wanted: bool, strict: bool) -> int:
    """Look at everything, print it, and return 0 or 69."""
    findings = examine(Machine(os.environ, SystemRunner()))
    if json_wanted:
        answer(f"{json.dumps(as_json(findings), indent=2)}\n")
    else:
        answer("".join(f"{line}\n" for line in doctor_lines(findings, colour=colour())))
    return exit_code(findings, strict=strict)
