"""`aisb policy check` and `aisb policy show`: what a run would be allowed, asked beforehand. Nothing is started."""

from __future__ import annotations

import os
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say
from aisb.cli.request import read_request
from aisb.cli.run import question_of, wish_of
from aisb.cli.splitter import Split
from aisb.domain.answers import answer_text
from aisb.domain.check import check, parse_target
from aisb.domain.http_rules import METHODS
from aisb.domain.inject_flag import need_reach
from aisb.domain.policy import need_entries, with_presets
from aisb.domain.presets import items_of, need_preset, nothing_of, preset_names
from aisb.effects.make_plan import image_registries, previewed, read_policy, shown
from aisb.effects.situation import resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import preview_directories
from aisb.errors import Unavailable, UsageError
from aisb.render.explain import check_json, check_lines, policy_lines, policy_pairs, preset_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.cli.request import Request
    from aisb.domain.check import Target
    from aisb.domain.policy import Policy
    from aisb.domain.presets import Registries
    from aisb.effects.sources import Sources
    from aisb.effects.state import Directories

    _Read = tuple[Request, Sources, str, Directories]

# There are such methods, and the gate's answer to them is always no.
_REFUSED_METHODS = ("CONNECT", "PURGE", "TRACE")


def check_verb(flags: tuple[tuple[str, str], ...], words: Sequence[str], *, as_json: bool) -> int:
    """Print the gate's answer; 0 allowed, 1 denied."""
    target = _target(words)
    read = _read(flags)
    # Under another mode an empty list is no mistake, and the answer is still one.
    try:
        found = check(need_reach(need_entries(_policy_of(read))), target)
    except Unavailable:
        # What an image that is not built yet would add can only allow more.
        found = check(_policy_of(read, without_image=True), target)
        if not found.verdict.allowed:
            raise
    answer(answer_text(check_json(found)) if as_json else check_lines(found))
    return 0 if found.verdict.allowed else 1


def _target(words: Sequence[str]) -> Target:
    *method, text = words
    if len(method) > 1:
        raise UsageError(
            "aisb policy check takes a method and a target", hint="write: aisb policy check GET https://HOST/"
        )
    if text in METHODS:
        where = shlex.quote(method[0]) if method and method[0] not in METHODS else "https://HOST/"
        raise UsageError(
            f"aisb policy check: the target comes last, and {text} is a method",
            hint=f"write: aisb policy check {text} {where}",
        )
    if method and method[0] not in (*METHODS, *_REFUSED_METHODS):
        near = get_close_matches(method[0].upper(), METHODS, n=1)
        raise UsageError(
            f"aisb policy check: {method[0]!r} is not a method",
            hint=f"write: aisb policy check {near[0]} {shlex.quote(text)}" if near else f"one of: {' '.join(METHODS)}",
        )
    return parse_target(text, *method)


def show_verb(flags: tuple[tuple[str, str], ...], *, as_json: bool) -> int:
    """Print the whole policy, as `--print-policy` does."""
    # `check` has no use for what looks at a project's files.
    from aisb.cli.preview import files_of, say_if_refused

    read = _read(flags)
    policy = shown(_policy_of(read))
    files = files_of(*read, policy)
    answer(answer_text({"policy": policy_pairs(policy, files)}) if as_json else policy_lines(policy, files))
    say_if_refused(policy)
    return 0


def presets_verb(flags: tuple[tuple[str, str], ...], name: str, *, as_json: bool) -> int:
    """Print what a preset stands for, or all of them."""
    wanted = name.removeprefix("@")
    if wanted:
        need_preset(wanted, f"@{wanted}")
    request = read_request(Split("run", (*flags, ("net", "none"), ("no-cwd", "")), None, ()), os.environ)
    where = preview_directories(os.environ)
    layers = read_sources(wish_of(request, ""), where, None, keep=False)
    request = read_request(Split("run", (*flags, ("net", "none"), ("no-cwd", "")), None, ()), os.environ, layers.layers)
    question = question_of(request, layers, "", "pasta")

    def registries() -> Registries:
        return image_registries(question, where.cache)

    found: dict[str, list[dict[str, str]]] = {}
    for preset in [wanted] if wanted else preset_names():
        try:
            items = items_of(preset, registries)
        except Unavailable as error:
            if wanted:
                raise
            say(f"note: @{preset}: {error.message}")
            continue
        found[preset] = [item._asdict() for item in items]
        if not as_json:
            answer(preset_lines(preset, items))
        if not items:
            say(f"note: {nothing_of(preset)}")
    if as_json:
        answer(answer_text({"presets": found}))
    return 0


def _policy_of(read: _Read, *, without_image: bool = False) -> Policy:
    """The policy of what was read, here and now; `without_image`, less what is read off the image."""
    request, sources, project, where = read
    question = question_of(request, sources, project, "pasta")
    if without_image:
        return with_presets(read_policy(question), dict)
    for note in request.notes:
        say(note)
    policy = previewed(question, where.cache)
    for note in policy.notes:
        say(note)
    return policy


def _read(flags: tuple[tuple[str, str], ...]) -> _Read:
    """What these flags and the files around them ask for, and of which project."""
    taken = Split("run", flags, None, ())
    asked = read_request(taken, os.environ)
    where = preview_directories(os.environ)
    project = resolve_project(asked.project, os.environ, where)
    sources = read_sources(wish_of(asked, project), where, None, keep=False)
    return read_request(taken, os.environ, sources.layers), sources, project, where
