"""`aisb learn`: run a command with everything public open, and propose the list that it needs."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from aisb.cli.hints import words_of
from aisb.cli.live import written_beside
from aisb.cli.output import say
from aisb.cli.run import run
from aisb.domain.learned import learned
from aisb.domain.presets import items_of, preset_names
from aisb.domain.records import read_record
from aisb.effects.learn import open_output, save_proposed, write_output
from aisb.effects.registries import registries_of
from aisb.effects.state import volumes_directory
from aisb.errors import AisbError, Unavailable, UsageError
from aisb.render.learned import command_with, proposal

if TYPE_CHECKING:
    from aisb.cli.run import Done
    from aisb.cli.splitter import Split
    from aisb.domain.presets import Registries


def learn(split: Split, verbs: frozenset[str]) -> int:
    """Run it, and say what it reached. The exit code is the command's."""
    if split.command is None and not split.has("shell"):
        raise UsageError("aisb learn takes a command after --", hint="write: aisb learn -- COMMAND ARG...")
    if split.own("save") and split.has("no-cwd"):
        raise UsageError("--save and --no-cwd exclude each other", hint="write: --output FILE")
    path = split.own("output")
    output: int | None = None

    def on_project(project: str) -> None:
        # Before the run, so that what the run leaves behind does not decide where the path leads.
        nonlocal output
        output = open_output(path[-1], project, volumes_directory(os.environ)) if path else None

    def on_end(done: Done) -> None:
        try:
            _propose(done, split, output)
        except AisbError as error:
            # The command has ended as it has: that is the exit code.
            say(error.message)

    return run(split, verbs, on_project, on_end)


def _propose(done: Done, split: Split, output: int | None) -> None:
    records = [record for line in done.ended.audit if (record := read_record(line)) is not None]
    found = learned(records, _presets(done))
    text = proposal(found, done.job.command)
    if output is None:
        for line in text.splitlines():
            say(line)
        flags = [word for flag in split.flags for word in words_of(*flag)]
        if again := command_with(found, flags, ("--", *split.command) if split.command else ()):
            say(f"# try it: {again}")
    else:
        write_output(output, text)
        if not split.has("quiet"):
            say(f"the proposed list is in {split.own('output')[-1]}; what you want of it belongs in .ai-sandbox/allow")
    if split.own("save"):
        path = save_proposed(done.job.project, text)
        say(f"{path} is written; nothing reads it. What you want of it belongs in .ai-sandbox/allow: then aisb trust")
        for line in written_beside(done.job.project, done.job.directories.runtime):
            say(line)


def _presets(done: Done) -> dict[str, list[str]]:
    """Every preset with its entries; those of registries only where the image tells them."""
    registries: Registries = {}
    with suppress(Unavailable):
        registries = registries_of(done.shop, done.plan.sandbox_image)
    return {name: [item.entry for item in items_of(name, lambda: registries)] for name in preset_names()}
