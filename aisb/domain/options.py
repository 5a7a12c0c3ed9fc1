"""
The one table of options: the splitter, `--help`, the `AISB_*` variables, and what may set each.

Nothing is imported here that a warm start would not need anyway.
"""

from __future__ import annotations

from typing import NamedTuple

FLAG = "flag"
VALUE = "value"
LIST = "list"

# What a value is, as the help shows it.
DIRECTORY = "DIR"
FILE = "FILE"


class Option(NamedTuple):
    """
    One option of `aisb run`.

    `kind` is `flag`, `value` (the last one counts) or `list` (they add up); `layers` names what may
    set it besides the command line (`env`: the variable `AISB_<NAME>`; `config`: the user's configuration file).
    """

    name: str
    kind: str
    metavar: str
    help: str
    group: str
    layers: tuple[str, ...] = ()


_ANYWHERE = ("env", "config")
_CONFIG = ("config",)

NETWORK = "Network"
INSIDE = "What is inside"
LIMITS = "How much of the machine (what this host cannot enforce is said at the start)"
FILES = "Files"
PREVIEW = "Look before you run"
OUTPUT = "Output"
LEARN = "What is learnt"

_SHOWN = {
    "policy": "what the flags and entries come to",
    "entrypoint": "the first program of the sandbox",
    "containerfile": "what the sandbox's image is built from",
    "nft": "the sandbox's firewall rules",
    "squid": "the configuration and the allowlist of the gate's proxy",
    "gate-nft": "the gate's firewall rules",
    "gate-containerfile": "what the gate's image is built from",
    "seccomp": "the system calls that the sandbox may make",
}
PREVIEWS = tuple(_SHOWN)

OPTIONS = (
    Option(
        "allow",
        LIST,
        "ENTRY",
        "a host that may be reached: example.com, exact:NAME, NAME:PORT; adds up",
        NETWORK,
        _CONFIG,
    ),
    Option("policy", LIST, FILE, "a file of entries and of rules for methods and paths; adds up", NETWORK),
    Option(
        "net",
        VALUE,
        "MODE",
        "allow (default): the allowlist; none: nothing; full: everything, unfiltered",
        NETWORK,
        _ANYWHERE,
    ),
    Option(
        "gate-network",
        VALUE,
        "NAME",
        "the podman network that the gate joins, instead of this host's",
        NETWORK,
        _ANYWHERE,
    ),
    Option(
        "proxy",
        VALUE,
        "URL",
        "the proxy that everything goes through: https://HOST:PORT or http://HOST:PORT",
        NETWORK,
        _ANYWHERE,
    ),
    Option("proxy-auth", VALUE, "VAR", "the variable that holds user:password for it", NETWORK, _ANYWHERE),
    Option("no-gate", FLAG, "", "no gate: names pinned to their addresses, any site at these open", NETWORK, _ANYWHERE),
    Option(
        "publish",
        LIST,
        "[HOST:]PORT",
        "reach a server inside at this machine's 127.0.0.1:HOST (8080:3000, or 3000 for both); adds up",
        NETWORK,
    ),
    Option("gate-idle", VALUE, "SECONDS", "how long a gate without a run stays (600)", NETWORK, _ANYWHERE),
    Option(
        "env",
        LIST,
        "NAME",
        "pass this variable in; unset, the run is refused; also NEW=@OLD, NAME=VALUE; adds up",
        INSIDE,
        _CONFIG,
    ),
    Option("env-file", LIST, FILE, "pass in the variables of a file that only you can read; adds up", INSIDE),
    Option(
        "inject",
        LIST,
        "VAR@HOST[:HEADER]",
        "keep VAR out of the sandbox: the gate puts it into requests to HOST; adds up",
        INSIDE,
        _CONFIG,
    ),
    Option("no-pi-config", FLAG, "", "nothing of this machine's pi: no models, no settings", INSIDE, _ANYWHERE),
    Option(
        "pi-token-env",
        LIST,
        "[PROVIDER=]NAME",
        "the variable that holds pi's token (AI_API_TOKEN), or that of one provider; adds up",
        INSIDE,
        _CONFIG,
    ),
    Option("no-pi-token-env", FLAG, "", "pi gets no token", INSIDE, _ANYWHERE),
    Option("pi-inject", FLAG, "", "keep pi's token outside: the gate puts it into requests", INSIDE, _ANYWHERE),
    Option("no-git-identity", FLAG, "", "leave out your name and email of git config --global", INSIDE, _ANYWHERE),
    Option(
        "install",
        LIST,
        "PKG",
        "a distribution package to add to the image: jq, or jq=1.7*; adds up",
        INSIDE,
        _CONFIG,
    ),
    Option("harness", VALUE, "NAME", "the agent: pi (default) or claude", INSIDE, _ANYWHERE),
    Option("base-image", VALUE, "REF", "the image to build on, or bootstrap:trixie", INSIDE, _ANYWHERE),
    Option("customize", VALUE, FILE, "instructions of a Containerfile to add to the image", INSIDE, _ANYWHERE),
    Option("pull", VALUE, "WHEN", "missing (default); never: fetch and build nothing", INSIDE, _ANYWHERE),
    Option("node", VALUE, "LINE", "Node's line: 22 (default) or 24", INSIDE, _ANYWHERE),
    Option("node-source", VALUE, "SOURCE", "tarball or npm (default: whichever can be reached)", INSIDE, _ANYWHERE),
    Option(
        "ca-bundle",
        VALUE,
        FILE,
        "extra certificates to trust, in the build and in the sandbox",
        INSIDE,
        _ANYWHERE,
    ),
    Option("project", VALUE, DIRECTORY, "the directory to mount at /project (default: here)", INSIDE),
    Option("trust-once", VALUE, "HASH", "for scripts: this content of the project's files may be read", INSIDE),
    Option(
        "mount",
        LIST,
        "SRC[:DST][:ro|rw]",
        "another directory or file of this machine, read-only unless :rw; adds up",
        FILES,
        _CONFIG,
    ),
    Option("protect", LIST, "PATH", "make this path of the project read-only as well; adds up", FILES, _CONFIG),
    Option(
        "unprotect",
        LIST,
        "PATH",
        "do not protect this path of the project, .git/config for one; adds up",
        FILES,
        _CONFIG,
    ),
    Option("mask", LIST, "GLOB", "files of the project that read as empty inside; adds up", FILES, _CONFIG),
    Option("no-default-masks", FLAG, "", "do not mask .env files and private keys", FILES, _CONFIG),
    Option("no-cwd", FLAG, "", "mount no project at all", INSIDE),
    Option("shared-home", FLAG, "", "one home for all projects, instead of one for each", INSIDE, _CONFIG),
    Option("ephemeral-home", FLAG, "", "a home that is gone after the run", INSIDE, _CONFIG),
    Option("read-only", FLAG, "", "only the project, the home and /tmp can be written", INSIDE, _CONFIG),
    Option("shell", FLAG, "", "run a shell", INSIDE),
    Option("memory", VALUE, "SIZE", "memory at most (8g); 0: no cap, here and below", LIMITS, _ANYWHERE),
    Option("cpus", VALUE, "NUMBER", "processors at most (4)", LIMITS, _ANYWHERE),
    Option("pids-limit", VALUE, "NUMBER", "processes and threads at most (4096)", LIMITS, _ANYWHERE),
    Option("shm-size", VALUE, "SIZE", "size of /dev/shm (1g)", LIMITS, _ANYWHERE),
    Option("ulimit", LIST, "NAME=SOFT[:HARD]", "as podman has it: nofile=1024:4096; adds up", LIMITS, _CONFIG),
    Option("timeout", VALUE, "TIME", "end the command after 90s, 15m, 2h; aisb ends with 124", LIMITS, _ANYWHERE),
    Option("require-limits", FLAG, "", "refuse to run where one of these cannot be enforced", LIMITS, _ANYWHERE),
    Option("detach", FLAG, "", "print the run's id and go on without a terminal; see aisb stop", OUTPUT),
    Option("keep-runs", VALUE, "NUMBER", "of how many runs the record is kept (200); 0: of all", OUTPUT, _ANYWHERE),
    Option("keep-days", VALUE, "NUMBER", "for how many days it is kept (30); 0: for ever", OUTPUT, _ANYWHERE),
    Option("strict-args", FLAG, "", "an unknown flag is an error, not the agent's", OUTPUT, _ANYWHERE),
    Option("dry-run", FLAG, "", "print what would be run, start nothing", PREVIEW),
    *(Option(f"print-{what}", FLAG, "", f"print {text}", PREVIEW) for what, text in _SHOWN.items()),
    Option("timings", FLAG, "", "print how long each phase of the start took", OUTPUT, _ANYWHERE),
    Option("trace", FLAG, "", "print every command that aisb runs", OUTPUT, _ANYWHERE),
    Option("quiet", FLAG, "", "only errors: not the start lines, nor what was refused (also -q)", OUTPUT, _ANYWHERE),
    Option("help", FLAG, "", "this text (also -h)", OUTPUT),
    Option("version", FLAG, "", "aisb's version", OUTPUT),
)

# Of `aisb learn` besides those of a run. No variable and no file sets one, and none makes a run of another kind learn.
LEARN_OPTIONS = (
    Option("output", VALUE, FILE, "write the proposed list to FILE, not to stderr", LEARN),
    Option("save", FLAG, "", "write it to .ai-sandbox/allow.proposed, which nothing reads", LEARN),
    Option("yes", FLAG, "", "pass in what --env names, though everything public can be reached", LEARN),
)

# Of `aisb exec`, which has none of those of a run.
EXEC_OPTIONS = (
    Option("tty", FLAG, "", "give the command a terminal", INSIDE),
    Option("cwd", VALUE, DIRECTORY, "where it starts, in the sandbox (default: the project)", INSIDE),
    Option("env", LIST, "NAME", "pass this variable in as well; also NEW=@OLD, NAME=VALUE; adds up", INSIDE),
)

CONFIGURABLE = {option.name: option for option in OPTIONS if "config" in option.layers}
BY_FLAG = {f"--{option.name}": option for option in OPTIONS}
LEARN_BY_FLAG = {f"--{option.name}": option for option in LEARN_OPTIONS}
SHORT_FLAGS = {"-q": "quiet", "-h": "help"}
