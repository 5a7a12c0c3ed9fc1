"""Help that fits a screen, and the flags by group under `aisb run --help`."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from aisb.cli.output import answer
from aisb.cli.request import variable_of
from aisb.domain.options import BY_FLAG, CONFIGURABLE, EXEC_OPTIONS, FLAG, LEARN_OPTIONS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.options import Option

_WIDTH = 80
_COLUMN = 27

_SCREEN = """\
Run a coding agent in a rootless sandbox whose network is an explicit allowlist.

usage: aisb [run] FLAG* [AGENT-ARG*]          the pi agent, sandboxed
       aisb [run] FLAG* -- COMMAND ARG*       any command
       aisb VERB ...                          aisb VERB --help; aisb --version

  aisb --allow llm.example.com --env AI_API_TOKEN
  aisb --allow git.example.com -- git fetch
  aisb --allow @npm -- npm test
  aisb --net none --shell

Only the current directory is mounted, at /project. No variable of yours goes in
unless named, no host is reached unless allowed, and nothing inside is root.

run:      run, serve   one command (aisb run --help); what a program asks for
policy:   init         write .ai-sandbox/allow for the project that is here
          trust        look at a project's .ai-sandbox, and let it count
          policy       what may be reached: policy check TARGET, policy show
          logs, learn  what a run was allowed and refused; what a command needs
          allow, deny  change what a running sandbox may reach; ps, exec, stop
images:   build, update, inspect   the two images: built, renewed, looked at
machine:  doctor, gate, clean  will a run work; the gates; what no run needs
Exit codes: the command's own; 2 usage; 69 something is missing; 77 refused to
run unprotected. Where aisb cannot enforce, it does not run.
"""


def print_help(verb: list[str]) -> int:
    """Print the screen, or the flags of a verb that runs something, on stdout."""
    texts = {"run": run_help, "learn": learn_help, "serve": serve_help, "exec": exec_help}
    answer(texts[verb[0]]() if verb and verb[0] in texts else _SCREEN)
    return 0


def exec_help() -> str:
    """The flags of `exec`."""
    text = verb_help(
        "exec",
        "Run one more command in a sandbox that runs, as any command of it, with the\n"
        "variables that the run was given; aisb's exit code is the command's. RUN is a\n"
        "run's id or its beginning, or . for the one of the project that is here",
        _flags_of(EXEC_OPTIONS),
        (),
        ("RUN", "--", "COMMAND", "ARG*"),
    )
    return f"{text}\n"


def _flags_of(options: Iterable[Option]) -> list[tuple[str, str]]:
    shown = (*options, BY_FLAG["--help"])
    return [(f"--{option.name} {option.metavar}".rstrip(), option.help) for option in shown]


def learn_help() -> str:
    """The flags that only `learn` has."""
    text = verb_help(
        "learn",
        "Run a command with everything public open on ports 80 and 443, and propose the\n"
        "list that it needs. Nothing of it takes effect by itself. The flags are these\n"
        "and those of a run: aisb run --help",
        _flags_of(LEARN_OPTIONS),
        (),
        ("--", "COMMAND", "ARG*"),
    )
    return f"{text}\n"


def serve_help() -> str:
    """What it is for; its flags are those of a run."""
    text = verb_help(
        "serve",
        "Start a sandbox for the program on stdin and stdout, which says what is to be\n"
        "done in it, and end it with that program. What both say is written down in\n"
        "docs/session-protocol.md. The project is mounted at its own path. The flags are\n"
        "those of a run: aisb run --help",
        [("--help", BY_FLAG["--help"].help)],
        (),
    )
    return f"{text}\n"


def run_help() -> str:
    """The flags by group."""
    groups: dict[str, list[str]] = {}
    for option in OPTIONS:
        name = f"--{option.name}" if option.kind == FLAG else f"--{option.name} {option.metavar}"
        groups.setdefault(option.group, []).append(flag_line(name, option.help))
    variables = fill(", ".join(variable_of(option.name) for option in OPTIONS if "env" in option.layers), _WIDTH)
    keys = fill(", ".join(CONFIGURABLE), _WIDTH, break_on_hyphens=False)
    body = "\n\n".join(f"{group}:\n" + "\n".join(lines) for group, lines in groups.items())
    return (
        "usage: aisb [run] FLAG* ( -- COMMAND ARG* | AGENT-ARG* )\n\n"
        f"{body}\n\n"
        "The first word that is not one of these flags, and all that follows, is the\n"
        "agent's, as a prompt where it is text: of a word that may be a misspelt verb a\n"
        "hint says so. A flag may be given more than once: those that say so add up, of\n"
        "the others the last one counts. --allow a.test,b.test and --install\n"
        "jq,zsh are two values each; --env takes one name.\n"
        "\n"
        "Variables that set a flag, for lines that do not give it:\n"
        f"{variables}\n"
        "\n"
        "Keys of ~/.config/ai-sandbox/config.yaml, for lines and variables that do not\n"
        "give them:\n"
        f"{keys}\n"
        "\n"
        "Exit codes: the command's own, 128+n for a signal; 1 aisb's answer could not be\n"
        "written; 2 usage; 69 podman, the gate or a build is not to be had; 70 a bug of\n"
        "aisb; 77 not run, because it could not be closed; 78 a file that shapes the\n"
        "sandbox lies where the agent can write it, and nobody has trusted what is in it\n"
        "now (aisb trust); 124 the time of --timeout was over.\n"
    )


def flag_line(name: str, text: str) -> str:
    """A flag and what it means, no wider than the screen."""
    return fill(
        text,
        _WIDTH,
        initial_indent=f"  {name:<{_COLUMN - 3}} ",
        subsequent_indent=" " * _COLUMN,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _filled(text: str) -> str:
    return "\n".join(fill(line, _WIDTH) for line in text.split("\n"))


def verb_help(
    verb: str, about: str, flags: Iterable[tuple[str, str]], variables: Iterable[str], words: Iterable[str] = ()
) -> str:
    """The help of a verb, in the form of that of a run."""
    lines = [
        " ".join([f"usage: aisb {verb} FLAG*", *words]),
        "",
        _filled(about),
        "",
        *(flag_line(*flag) for flag in flags),
    ]
    named = ", ".join(variables)
    if named:
        lines += ["", "Variables that set a flag, for lines that do not give it:", fill(named, _WIDTH)]
    return "\n".join(lines)
