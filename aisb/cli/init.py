"""`aisb init`: a first allow list for the project that is here, trusted as it was written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.cli.live import written_beside
from aisb.cli.output import answer, say
from aisb.cli.request import read_request
from aisb.cli.run import question_of, wish_of
from aisb.cli.splitter import Split
from aisb.domain.allow_file import parse_allow_file
from aisb.domain.answers import answer_text
from aisb.domain.presets import lacking
from aisb.domain.trust import changes
from aisb.effects.init import look_at, write_allow_list
from aisb.effects.make_plan import image_registries
from aisb.effects.safe_files import read_project_directory
from aisb.effects.situation import resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import preview_directories
from aisb.effects.trust import add_to_record, need_writable, read_record
from aisb.errors import AisbError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.seen_project import Seen
    from aisb.effects.plan import Question
    from aisb.effects.state import Directories


def init_verb(project: str, *, as_json: bool) -> int:
    """Write it, trust it, and say what is in it: in words on stderr, or for programs on stdout."""
    where = preview_directories(os.environ)
    resolved = resolve_project(project, os.environ, where)
    # A record that cannot be read or written is found before anything else is.
    read_record(where.state, resolved)
    need_writable(where.state, resolved)
    seen = look_at(resolved, os.environ)
    file = write_allow_list(resolved, seen)
    add_to_record(where.state, resolved, file)
    entries = [text for text, _ in parse_allow_file(file.data(), file.name)]
    proposed = sum(line.startswith("#exact:") for line in file.text.splitlines())
    if as_json:
        told = {"file": f"{resolved}/{file.name}", "entries": entries, "proposed": proposed}
        answer(answer_text({**told, "read": [item.tool.marker for item in seen]}))
    else:
        _tell(f"{resolved}/{file.name}", entries, proposed, seen)
    for line in _lacking(entries, resolved, where):
        say(f"note: {line}")
    for line in written_beside(resolved, where.runtime):
        say(line)
    # Something else that lies there is not ours, and nobody has seen it.
    for change in changes(read_record(where.state, resolved), read_project_directory(resolved).files):
        say(f"{change.sentence()}: see it with: aisb trust")
    return 0


def _lacking(entries: Iterable[str], project: str, where: Directories) -> list[str]:
    """What to say of the presets that the image of a run here has nothing for."""
    presets = [entry.removeprefix("@") for entry in entries if entry.startswith("@")]
    if not presets:
        return []
    question = _question(project, where)
    installed = [setting.value for setting in question.wanted.install] if question else []
    try:
        registries = image_registries(question, where.cache) if question else None
    except Unavailable:
        registries = None
    return [line for name in presets if (line := lacking(name, registries, installed))]


def _question(project: str, where: Directories) -> Question | None:
    """What a run here would ask for; None where nobody may know yet, or where its settings are no good."""
    taken = Split("run", (("net", "none"),), None, ())
    try:
        asked = read_request(taken, os.environ)
        sources = read_sources(wish_of(asked, project), where, None, keep=False)
        return question_of(read_request(taken, os.environ, sources.layers), sources, project, "pasta")
    except AisbError:
        return None


def _tell(path: str, entries: list[str], proposed: int, seen: list[Seen]) -> None:
    used = f"from {', '.join(item.tool.marker for item in seen)}" if seen else "no project file that aisb knows is here"
    say(f"{path}: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}, trusted ({used})")
    for text in entries:
        say(f"  {text}")
    if proposed:
        say(f"{proposed} more that files of the project name are in it as comments: look at them, then: aisb trust")
