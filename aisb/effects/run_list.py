"""The runs as `aisb ps` lists them: what is remembered of each, and what it uses and was denied by now."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aisb.domain.records import Denials
from aisb.domain.run_record import UNKNOWN
from aisb.effects.records import AUDIT, every_run, those_that_go_on
from aisb.effects.session import living
from aisb.effects.usage import Budget, Usage, denials_in, is_listening, usage_of
from aisb.errors import UsageError

if TYPE_CHECKING:
    from aisb.effects.state import Directories

_NOTHING = Denials(0, is_whole=True)


def list_runs(where: Directories, *, everything: bool) -> list[dict[str, Any]]:
    """
    The runs that go on, or every one that is on record, the oldest first. What could not be told of one is None.

    Raises Unavailable for what cannot be read.
    """
    budget = Budget()
    used = usage_of(living(where.runtime), budget)
    found = every_run(where) if everything else those_that_go_on(where)
    # What is told of the newest ones is what is asked for.
    return [_with_figures(item, where, used, budget) for item in reversed(found)][::-1]


def ended_run(where: Directories, wanted: str) -> dict[str, Any] | None:
    """
    What is remembered of the one run that is over whose id begins so; None without one, or where one goes on.

    Raises UsageError where it is not clear which is meant, Unavailable for what cannot be read.
    """
    found = [item for item in every_run(where) if item["run"].startswith(wanted)]
    if any(item["state"] == "running" for item in found) or not found:
        return None
    if len(found) > 1:
        names = " ".join(item["run"] for item in found)
        raise UsageError(f"run {wanted}: there are {len(found)} runs: {names}", hint=f"say which: {found[0]['run']}")
    return _with_figures(found[0], where, {}, Budget())


def _with_figures(item: dict[str, Any], where: Directories, used: dict[str, Usage], budget: Budget) -> dict[str, Any]:
    is_running = item["state"] == "running"
    usage = used.get(item["run"], Usage())
    denials = _denials(item, where, budget) if item["gate"] else None
    gate = f"{where.runtime}/g/{item['gate']}"
    return {
        **item,
        # Nothing is to be known of an end that has not come.
        **({"by": None, "reason": ""} if is_running else {}),
        "gateListens": is_listening(gate) if is_running and item["gate"] else None,
        "seconds": usage.seconds if is_running else _lasted(item),
        "memory": usage.memory,
        "denials": denials.number if denials else None,
        "isRecordFull": denials is not None and not denials.is_whole,
    }


def _denials(item: dict[str, Any], where: Directories, budget: Budget) -> Denials | None:
    """Of a run that has just begun nothing is on record yet; of one that is over, that there is none says nothing."""
    places = (f"{where.runtime}/g/{item['gate']}/r/{item['run']}", f"{where.state}/runs/{item['run']}")
    for path in (f"{place}/{AUDIT}" for place in places):
        if os.path.exists(path):
            return denials_in(path, budget)
    return _NOTHING if item["state"] == "running" else None


def _lasted(item: dict[str, Any]) -> int | None:
    """How long a run lasted whose end somebody saw."""
    if item["by"] == UNKNOWN:
        return None
    try:
        lasted = datetime.fromisoformat(item["ended"]) - datetime.fromisoformat(item["started"])
    except (ValueError, TypeError):
        return None
    return max(0, int(lasted.total_seconds()))
