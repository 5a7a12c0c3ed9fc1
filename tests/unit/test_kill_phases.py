"""Every phase that a run tells has its case in the test that kills aisb in each."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.outside.phases import AFTER, BEFORE, INSIDE
from tests.e2e.test_life_kill import ASKED, PHASES

ROOT = Path(__file__).parents[2]
# Those that stand for no one command and no told phase.
OWN = {"running", "ending"}


def test_each_phase_is_one_to_be_killed_in() -> None:
    """What the entrypoint and the launcher tell, and before and after what podman is asked."""
    entrypoint = re.findall(r"^phase (\w+)$", (ROOT / "templates/entrypoint.sh.j2").read_text(), re.MULTILINE)
    launcher = re.findall(r'\breport\("(\w+)"\)', (ROOT / "gate/launcher.py").read_text())

    assert ("entrypoint", *dict.fromkeys([*entrypoint, *launcher])) == INSIDE
    assert {*BEFORE, *AFTER, *INSIDE} | OWN == set(PHASES)
    assert {*BEFORE.values(), *AFTER.values()} == ASKED
