"""`aisb learn`: run a command with everything public open, and propose the list that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.cli.output import say
from aisb.cli.run import run
from aisb.domain.learned import learned
from aisb.domain.records import read_record
from aisb.effects.learn import open_output, save_proposed, write_output
from aisb.errors import AisbError, UsageError
from aisb.render.learned import command_with, proposal

if TYPE_CHECKING:
    from aisb.cli.splitter import Split
    from aisb.effects.run import Ended, Job


def learn(split: Split, verbs: frozenset[str]) -> int:
    """Run it, and say what it reached. The exit code is the command's."""
    if split.command is None and not split.has("shell"):
        raise UsageError("aisb learn takes a command after --", hint="write: aisb learn -- COMMAND ARG...")
    if split.own("save") and split.has("no-cwd"):
        raise UsageError("--save and --no-cwd exclude each other", hint="write: --output FILE")
    path = split.own("output")
    output = open_output(path[-1]) if path else None

    def on_end(job: Job, ended: Ended) -> None:
        try:
            _propose(job, ended, output, save=bool(split.own("save")))
        except AisbError as error:
            # The command has ended as it has: that is the exit code.
            say(error.message)

    return run(split, verbs, on_end)


def _propose(job: Job, ended: Ended, output: int | None, *, save: bool) -> None:
    found = learned(record for line in ended.audit if (record := read_record(line)) is not None)
    text = proposal(found, job.command)
    if output is None:
        for line in text.splitlines():
            say(line)
        if again := command_with(found, job.command):
            say(f"# try it: {again}")
    else:
        write_output(output, text)
    if save:
        path = save_proposed(job.project, text)
        say(f"{path} is written; nothing reads it. What you want of it belongs into .ai-sandbox/allow: then aisb trust")
