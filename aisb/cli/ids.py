"""`aisb ps --quiet`: the ids of runs alone, as a shell that completes asks for them, which waits for each TAB."""

from __future__ import annotations

import os

from aisb.cli.output import answer
from aisb.effects.records import every_run, those_that_go_on
from aisb.effects.state import directories


def ids_verb(*, everything: bool) -> None:
    """A line for each run that goes on, or for every one that is on record, the oldest first."""
    where = directories(os.environ)
    found = every_run(where) if everything else those_that_go_on(where)
    answer("".join(f"{item['run']}\n" for item in found))
