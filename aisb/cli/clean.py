"""`aisb clean`: take away what no run needs any more."""

from __future__ import annotations

import os

from aisb.cli.output import answer, answer_some, say
from aisb.domain.answers import answer_text
from aisb.domain.clean import VOLUME, parse_glob
from aisb.domain.printing import size_text
from aisb.effects.clean import Store, Wish, find_removals, free_bytes, remove
from aisb.effects.host import need_host, need_ordinary_user, need_own_home
from aisb.effects.process import SystemRunner, TracingRunner
from aisb.effects.state import directories
from aisb.render.clean import clean_json, clean_lines, removal_line

_EVERY_HOME = "*"


def clean_verb(*, everything: bool, volumes: bool, volume: str, dry_run: bool, trace: bool, as_json: bool) -> int:
    """Print what goes, and what could not: 0, or 69 where something had to stay."""
    wish = Wish(everything, parse_glob(volume) if volume else _EVERY_HOME if volumes else "")
    need_ordinary_user()
    need_own_home(os.environ)
    where = directories(os.environ)
    runner = TracingRunner(SystemRunner(), say) if trace else SystemRunner()
    host = need_host(where.cache, runner, os.environ.get("PATH", ""), "")
    store = Store(host.podman, runner, where)
    removals = find_removals(store, wish)
    if volume and not any(removal.kind == VOLUME for removal in removals):
        say(f"no home that is not in use has a name like {volume!r}; all of them: aisb clean --volumes --dry-run")
    if dry_run or not removals:
        lines = "".join(f"{line}\n" for line in clean_lines(removals))
        answer(answer_text(clean_json(removals, {}, 0)) if as_json else lines)
        return 0
    before = free_bytes(store)
    stays = {}
    for removal in removals:
        if why := remove(store, removal):
            stays[removal.name] = why
            say(f"{removal.kind} {removal.name} stays: {why}")
        elif not as_json:
            answer_some(f"removed {removal_line(removal)}\n")
    freed = max(0, free_bytes(store) - before)
    answer(answer_text(clean_json(removals, stays, freed)) if as_json else f"freed {size_text(freed)}\n")
    return 69 if stays else 0
