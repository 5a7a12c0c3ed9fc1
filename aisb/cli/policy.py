"""`aisb policy check` and `aisb policy show`: what a run would be allowed, asked beforehand. Nothing is started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say
from aisb.cli.request import read_request
from aisb.cli.run import question_of, wish_of
from aisb.cli.splitter import Split
from aisb.domain.check import check, parse_target
from aisb.domain.policy import need_entries
from aisb.effects.make_plan import read_policy
from aisb.effects.situation import resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import preview_directories
from aisb.errors import UsageError
from aisb.render.explain import check_lines, policy_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.policy import Policy


def check_verb(flags: tuple[tuple[str, str], ...], words: Sequence[str]) -> int:
    """Print the gate's answer; 0 allowed, 1 denied."""
    *method, text = words
    if len(method) > 1:
        raise UsageError(
            "aisb policy check takes a method and a target", hint="write: aisb policy check GET https://HOST/"
        )
    # Under another mode an empty list is no mistake, and the answer is still one.
    found = check(need_entries(policy_of(flags)), parse_target(text, *method))
    answer(check_lines(found))
    return 0 if found.verdict.allowed else 1


def show_verb(flags: tuple[tuple[str, str], ...]) -> int:
    """Print the whole policy, as `--print-policy` does."""
    answer(policy_lines(need_entries(policy_of(flags))))
    return 0


def policy_of(flags: tuple[tuple[str, str], ...]) -> Policy:
    """The policy of a run with these flags, here and now."""
    taken = Split("run", flags, None, ())
    asked = read_request(taken, os.environ)
    where = preview_directories(os.environ)
    project = resolve_project(asked.project, os.environ, where)
    sources = read_sources(wish_of(asked, project), where, None, keep=False)
    request = read_request(taken, os.environ, sources.layers)
    for note in request.notes:
        say(note)
    policy = read_policy(question_of(request, sources, project, "pasta"))
    for note in policy.notes:
        say(note)
    return policy
