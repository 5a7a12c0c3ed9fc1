"""Help that fits a screen, and the flags by group under `aisb run --help`."""

from __future__ import annotations

import sys
from textwrap import fill

from aisb.cli.request import variable_of
from aisb.domain.options import FLAG, OPTIONS

_SCREEN = """\
Run a coding agent in a rootless sandbox whose network is an explicit allowlist.

usage: aisb [run] FLAG* [AGENT-ARG*]          the pi agent, sandboxed
       aisb [run] FLAG* -- COMMAND ARG*       any command
       aisb VERB ...

  aisb --allow llm.example.com --env AI_API_TOKEN
  aisb --allow llm.example.com --env AI_API_TOKEN -p "mend the failing test"
  aisb --allow git.example.com -- git fetch
  aisb --net none --shell

Only the current directory is mounted, at /project. No variable of yours goes in
unless named, no host is reached unless allowed, and nothing inside is root.

run:      run          the agent or a command (the default; aisb run --help)
images:   build        build what is missing of the two images
about:    version      aisb's version

Exit codes: the command's own; 2 usage; 69 something is missing; 77 refused to
run unprotected. Where aisb cannot enforce, it does not run.
"""


def print_help(*, run: bool) -> int:
    """Print the screen, or the flags of a run, on stdout."""
    sys.stdout.write(run_help() if run else _SCREEN)
    return 0


def run_help() -> str:
    """The flags by group."""
    groups: dict[str, list[str]] = {}
    for option in OPTIONS:
        name = f"--{option.name}" if option.kind == FLAG else f"--{option.name} {option.metavar}"
        groups.setdefault(option.group, []).append(f"  {name:<24} {option.help}")
    variables = fill(", ".join(variable_of(option.name) for option in OPTIONS if "env" in option.layers), 80)
    body = "\n\n".join(f"{group}:\n" + "\n".join(lines) for group, lines in groups.items())
    return (
        "usage: aisb [run] FLAG* ( -- COMMAND ARG* | AGENT-ARG* )\n\n"
        f"{body}\n\n"
        "The first word that is not one of these flags, and all that follows, is the agent's.\n"
        "A flag may be given more than once: lists add up, of other values the last one counts.\n"
        "\n"
        "Variables that set a flag, for lines that do not give it:\n"
        f"{variables}\n"
        "\n"
        "Exit codes: the command's own, 128+n for a signal; 2 usage; 69 podman, the gate or a\n"
        "build is not to be had; 70 a bug of aisb; 77 not run, because it could not be closed;\n"
        "78 a file that shapes the sandbox lies where the agent can write it.\n"
    )
