"""From a command line and `AISB_*` to a request: plain text still, but each item knows where it came from."""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.splitter import LEARN, SERVE
from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.harnesses import PI, parse_harness
from aisb.domain.images import parse_node_line, parse_node_origin
from aisb.domain.layers import (
    BUILT_IN,
    COMMAND_LINE,
    ENVIRONMENT,
    NET,
    Layer,
    Setting,
    added,
    net_mode,
    strongest,
)
from aisb.domain.limits import BUILT_IN_CAPS, read_limits
from aisb.domain.masks import parse_mask
from aisb.domain.mounts import parse_mount
from aisb.domain.net import ALLOW, FULL
from aisb.domain.options import BY_FLAG, FLAG, LIST, OPTIONS, VALUE
from aisb.domain.pi_values import PiWish
from aisb.domain.protected import parse_place
from aisb.domain.run_record import BUILT_IN_KEEP, KEEP_DAYS, KEEP_RUNS, Keep, parse_keep
from aisb.domain.variables import FLAG as ENV_FLAG
from aisb.domain.variables import Given, is_name, parse_variable, strongest_of
from aisb.domain.wanted import Wanted
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisb.cli.splitter import Split
    from aisb.domain.inject_flag import Injected
    from aisb.domain.mounts import MountWish
    from aisb.domain.publish import Published

# Not podman's own modes (host, container:ID, ns:PATH), which are no networks to join.
_NETWORK = re.compile(r"(?!(?:host|none|private|bridge|pasta|slirp4netns)$)[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
_SECONDS = re.compile(r"[1-9][0-9]{0,6}")
_PULL_HINT = "write: never, or missing for whatever is not there yet"
_TRUE = {"1", "true", "yes"}
_FALSE = {"", "0", "false", "no"}
SHELL = ("/bin/bash", "-l")
# As gate/launcher.py knows it.
TOOL_SERVER = ("/usr/libexec/aisb/tools",)
_HASH = re.compile(r"[0-9a-f]{64}")
_BUILT_IN = Layer(
    BUILT_IN,
    {
        NET: Setting(ALLOW, BUILT_IN),
        "base-image": Setting(DEFAULT_BASE, BUILT_IN),
        "gate-idle": Setting("600", BUILT_IN),
        "harness": Setting(PI, BUILT_IN),
        **{key: Setting(value, BUILT_IN) for key, value in (BUILT_IN_CAPS | BUILT_IN_KEEP).items()},
    },
    {},
)
# Of these the printed policy says where they were written.
_ORIGINS = (NET, "base-image", "ca-bundle", "harness", "no-gate", "proxy")


class Files(NamedTuple):
    """What was asked for of the project's files."""

    protect: tuple[Setting, ...] = ()
    unprotect: tuple[Setting, ...] = ()
    masks: tuple[str, ...] = ()
    # Those of the command line.
    named_masks: tuple[str, ...] = ()
    mounts: tuple[MountWish, ...] = ()


class Request(NamedTuple):
    """
    What was asked for. `origins` says of each value where it was written: its flag, its variable, or file:line.

    `given` are the variables to pass in, `env_paths` the files that were named for more of them. `harness` is the agent
    that the command is, "" for any other command. `notes` are what the user has to be told about it.
    """

    wanted: Wanted
    given: tuple[Given, ...]
    env_paths: tuple[str, ...]
    gate_network: str
    project: str | None
    policy_paths: tuple[str, ...]
    trust_once: str
    command: tuple[str, ...]
    settings: frozenset[str]
    files: Files
    origins: Mapping[str, str]
    timeout_seconds: int
    notes: tuple[str, ...]
    harness: str = ""
    pi: PiWish = PiWish()
    may_fetch: bool = True
    # The command is the tool server.
    serves: bool = False
    keep: Keep = Keep()
    # What was written of settings of which one counts, and counts.
    chosen: Mapping[str, Setting] = MappingProxyType({})

    def has(self, name: str) -> bool:
        """Whether a plain flag is on."""
        return name in self.settings

    def origin(self, name: str) -> str:
        """Where the value of an option was written; its flag, where nobody wrote one."""
        return self.origins.get(name, f"--{name}")


def read_request(
    split: Split, environ: Mapping[str, str], files: Sequence[Layer] = (), filed: Sequence[Given] = ()
) -> Request:
    """
    The request of a command line. Raises UsageError for what cannot be meant.

    `files` are the layers of configuration files, `filed` what files of variables hold, once they may be read: without
    them this is the command line's part.
    """
    _refuse_a_full_default(environ, split.values("net"))
    layers = (_command_line(split), _environment(environ), *files, _BUILT_IN)
    scalars = {option.name: found for option in OPTIONS if (found := strongest(layers, option.name)) is not None}
    settings = frozenset(
        option.name for option in OPTIONS if option.kind == FLAG and _is_on(option.name, scalars.get(option.name))
    )
    net = net_mode(layers)
    scalars[NET] = net.setting or _BUILT_IN.scalars[NET]
    if "project" in scalars and not scalars["project"].value:
        raise UsageError("--project is empty", hint="name a directory, or leave the flag out for the current one")
    if "no-cwd" in settings and "project" in scalars:
        raise UsageError("--project and --no-cwd exclude each other", hint="leave one of the two out")
    if settings >= {"shared-home", "ephemeral-home"}:
        raise UsageError("--shared-home and --ephemeral-home exclude each other", hint="leave one of the two out")
    if split.verb != "run" and "detach" in settings:
        raise UsageError(f"aisb {split.verb} has somebody to speak with: --detach is for a run", hint="leave it out")
    _refuse_a_run_that_nobody_reaches(split, settings)
    _refuse_a_list_without_meaning(split, scalars[NET])
    _refuse_a_password_without_proxy(scalars)
    no_gate = "no-gate" in settings and scalars[NET].value == ALLOW
    given = _given(added(layers, "env"), filed)
    names = tuple(Setting(item.shown(), item.origin) for item in given)
    limits = read_limits(layers)
    wanted = _wanted(layers, scalars)._replace(
        environment=names,
        learn=split.verb == LEARN,
        no_gate=no_gate,
        limits=limits.limits,
        injections=_injections(added(layers, "inject"), scalars[NET]),
        publish=_published(added(layers, "publish")),
    )
    harness = _harness(split, settings, wanted.harness)
    if no_gate:
        _refuse_what_takes_a_gate(wanted, scalars, split)
    if wanted.learn:
        _refuse_to_learn_so(wanted, scalars[NET], may_pass_in=bool(split.own("yes")))
    return Request(
        wanted=wanted,
        given=given,
        env_paths=split.values("env-file"),
        gate_network=_network_name(scalars.get("gate-network")),
        project=None if "no-cwd" in settings else scalars.get("project", Setting(".", "")).value,
        policy_paths=split.values("policy"),
        trust_once=_hash(scalars.get("trust-once")),
        command=_command(split, settings, harness),
        settings=settings,
        files=_files(layers),
        origins={name: setting.origin for name, setting in scalars.items() if setting.origin != BUILT_IN},
        timeout_seconds=limits.timeout_seconds,
        notes=(*([net.note] if net.note else []), *limits.notes),
        harness=harness,
        pi=_pi_wish(layers, settings, learn=wanted.learn, may_pass_in=bool(split.own("yes")))
        if split.verb != SERVE
        else PiWish(wanted=False),
        may_fetch=may_fetch(scalars.get("pull")),
        serves=split.verb == SERVE,
        keep=parse_keep(scalars[KEEP_RUNS], scalars[KEEP_DAYS]),
        chosen={name: setting for name, setting in {**scalars, **limits.chosen}.items() if setting.origin != BUILT_IN},
    )


def _pi_wish(layers: Sequence[Layer], settings: frozenset[str], *, learn: bool, may_pass_in: bool) -> PiWish:
    """What of the host's pi is wanted. Under `aisb learn` a token goes in only by its name, and with a yes to that."""
    names = added(layers, "pi-token-env")
    # What a file says for every run gives way to a flag that says no for this one.
    written = [item for item in names if item.origin == "--pi-token-env"]
    is_withheld = learn and not written
    wish = PiWish(wanted="no-pi-config" not in settings, inject="pi-inject" in settings, withheld=is_withheld)
    if "no-pi-token-env" in settings:
        if written:
            raise UsageError("--pi-token-env and --no-pi-token-env exclude each other", hint="leave one of the two out")
        return wish._replace(variable="", withheld=False)
    if learn and written and not may_pass_in:
        raise UsageError(
            "--pi-token-env: what runs under aisb learn could send it to any host",
            hint="leave it out, or say that you want that: aisb learn --yes ...",
        )
    if is_withheld:
        return wish._replace(variable="")
    if not names:
        return wish
    from aisb.domain.pi_tokens import parse_token_names

    named = parse_token_names(names)
    return wish._replace(variable=named.variable, given=named.given)


def _injections(settings: Sequence[Setting], net: Setting) -> tuple[Injected, ...]:
    """What a gate puts into requests. What a file says of it for every run is not meant for one without a gate."""
    if not settings:
        return ()
    # A start without them need not know how they are written.
    from aisb.domain.inject_flag import parse_injections

    found = parse_injections(settings)
    if net.value == ALLOW:
        return found
    for item in found:
        if net.value == FULL or item.origin == "--inject":
            way = _way_out(net) if item.origin == "--inject" else f"leave {item.origin} out"
            raise UsageError(
                f"{item.origin} {item.text()} has no meaning under {_mode(net)}: there is no gate", hint=way
            )
    return ()


def _published(settings: Sequence[Setting]) -> tuple[Published, ...]:
    if not settings:
        return ()
    # A start without them need not know how they are written.
    from aisb.domain.publish import parse_published

    return parse_published(settings)


def _given(settings: Sequence[Setting], filed: Sequence[Given]) -> tuple[Given, ...]:
    """The variables to pass in: the command line is stronger than a file of variables, and that than the settings."""
    parsed = [parse_variable(setting) for setting in settings]
    settled = [item for item in parsed if item.origin != ENV_FLAG]
    return strongest_of([*settled, *filed, *(item for item in parsed if item.origin == ENV_FLAG)])


def _files(layers: Sequence[Layer]) -> Files:
    """What is protected besides, what is not, and what reads as empty; each looked at, so that a mistake is told."""
    protect, unprotect, masks = (added(layers, key) for key in ("protect", "unprotect", "mask"))
    for item in protect:
        parse_place(item.value, item.named("protect"))
    for item in unprotect:
        parse_place(item.value, item.named("unprotect"))
    return Files(
        protect,
        unprotect,
        tuple(parse_mask(item.value, item.named("mask")) for item in masks),
        tuple(item.value for item in masks if item.origin == "--mask"),
        tuple(parse_mount(item.value, item.named("mount")) for item in added(layers, "mount")),
    )


def _command_line(split: Split) -> Layer:
    scalars = {name: Setting(value, f"--{name}") for name, value in split.flags if BY_FLAG[f"--{name}"].kind == VALUE}
    flags = {name: Setting("1", f"--{name}") for name, _ in split.flags if BY_FLAG[f"--{name}"].kind == FLAG}
    lists = {
        option.name: tuple(Setting(value, f"--{option.name}") for value in split.values(option.name))
        for option in OPTIONS
        if option.kind == LIST
    }
    return Layer(COMMAND_LINE, scalars | flags, lists)


def _environment(environ: Mapping[str, str]) -> Layer:
    """What `AISB_*` says. An empty variable says nothing."""
    named = {option.name: variable_of(option.name) for option in OPTIONS if "env" in option.layers}
    scalars = {name: Setting(environ[variable], variable) for name, variable in named.items() if environ.get(variable)}
    return Layer(ENVIRONMENT, scalars, {})


def _refuse_a_run_that_nobody_reaches(split: Split, settings: frozenset[str]) -> None:
    """Raises UsageError for a shell, or an agent without a word to it, that would have no terminal."""
    if "detach" in settings and split.command is None and ("shell" in settings or not split.harness):
        who = "a shell" if "shell" in settings else "the agent"
        raise UsageError(
            f"--detach runs without a terminal: nobody could speak with {who}",
            hint="give it a command: aisb --detach -- COMMAND ARG...; and speak with another one beside it: "
            "aisb exec RUN --tty -- bash",
        )


def _refuse_a_list_without_meaning(split: Split, net: Setting) -> None:
    for name in ("allow", "policy", "proxy", "proxy-auth", "no-gate"):
        if net.value != ALLOW and split.has(name):
            raise UsageError(f"--{name} has no meaning under {_mode(net)}", hint=_way_out(net))


def _refuse_to_learn_so(wanted: Wanted, net: Setting, *, may_pass_in: bool) -> None:
    """What is not to be learnt with: no gate, and secrets that nobody has said yes to."""
    if wanted.net != ALLOW:
        raise UsageError(f"aisb learn has no meaning under {_mode(net)}", hint=_way_out(net))
    if wanted.environment and not may_pass_in:
        name = wanted.environment[0]
        raise UsageError(
            f"{name.named('env')} {name.value}: what runs under aisb learn could send it to any host",
            hint="leave it out, or say that you want that: aisb learn --yes ...",
        )


def _refuse_what_takes_a_gate(wanted: Wanted, scalars: Mapping[str, Setting], split: Split) -> None:
    """What only a gate can do is refused, wherever it was asked for, but for where the gate would be."""
    off = scalars["no-gate"]
    named = off.named("no-gate")
    hint = "leave one of the two out" if off.origin == "--no-gate" else "add in front: AISB_NO_GATE=0"
    if wanted.learn:
        raise UsageError(f"aisb learn takes a gate, which sees what is reached; {named} has none", hint=hint)
    if wanted.proxy:
        proxy = scalars["proxy"]
        raise UsageError(f"{proxy.named('proxy')} is a gate's way out, and {named} has none", hint=hint)
    if wanted.injections:
        item = wanted.injections[0]
        raise UsageError(f"{item.origin} {item.text()} is a gate's to put in, and {named} has none", hint=hint)
    if split.has("gate-network"):
        raise UsageError(f"--gate-network is what a gate joins, and {named} has none", hint=hint)


def _mode(net: Setting) -> str:
    if net.origin == "--net":
        return f"--net {net.value}"
    return f"{net.origin}={net.value}" if net.named(NET) == net.origin else f"net: {net.value} ({net.origin})"


def _way_out(net: Setting) -> str:
    return "leave one of the two out" if net.origin == "--net" else "add: --net allow"


def _wanted(layers: Sequence[Layer], scalars: Mapping[str, Setting]) -> Wanted:
    base = scalars["base-image"]
    return Wanted(
        net=scalars[NET].value,
        allow=added(layers, "allow"),
        environment=(),
        install=tuple(
            Setting(package, written.origin)
            for written in added(layers, "install")
            for package in written.value.split(",")
        ),
        base_image=parse_base_image(base.value, base.named("base-image")).text,
        ca_bundle=path_of(scalars.get("ca-bundle")),
        node_origin=_node_origin(scalars.get("node-source")),
        node_line=_node_line(scalars.get("node")),
        customize=path_of(scalars.get("customize"), "customize"),
        idle_seconds=_seconds(scalars["gate-idle"]),
        origins=tuple((key.replace("-", "_"), scalars[key].origin) for key in _ORIGINS if key in scalars),
        proxy=_proxy(scalars) if scalars[NET].value == ALLOW else "",
        proxy_auth=_proxy_variable(scalars) if scalars[NET].value == ALLOW else "",
        harness=parse_harness(scalars["harness"].value, scalars["harness"].named("harness")),
    )


def _proxy(scalars: Mapping[str, Setting]) -> str:
    setting = scalars.get("proxy")
    if setting is None:
        return ""
    from aisb.domain.upstream import parse_upstream

    return parse_upstream(setting.value, setting.named("proxy")).url


def _proxy_variable(scalars: Mapping[str, Setting]) -> str:
    setting = scalars.get("proxy-auth")
    if setting is None:
        return ""
    if not is_name(setting.value):
        # Not repeated: it may be what the variable was to hold.
        what = f"{setting.named('proxy-auth')}: this is not the name of a variable"
        raise UsageError(what, hint="write: --proxy-auth VAR, where VAR holds user:password")
    return setting.value


def _refuse_a_password_without_proxy(scalars: Mapping[str, Setting]) -> None:
    setting = scalars.get("proxy-auth")
    if setting is not None and "proxy" not in scalars:
        raise UsageError(f"{setting.named('proxy-auth')}: there is no proxy", hint="add: --proxy https://HOST:PORT")


def read_login(request: Request, environ: Mapping[bytes, bytes]) -> str:
    """What the gate says to its proxy, encoded, "" where nothing is to be said. Raises UsageError for what is none."""
    variable = request.wanted.proxy_auth
    if not variable:
        return ""
    from aisb.domain.upstream import encoded_login

    named = f"{request.origin('proxy-auth')} {variable}"
    for passed in request.wanted.environment:
        if passed.value == variable:
            what = f"{passed.named('env')} {variable} holds what the gate alone tells its proxy ({named})"
            raise UsageError(what, hint="leave it out of the sandbox")
    value = environ.get(os.fsencode(variable))
    if value is None:
        raise UsageError(f"{named}: this variable is not set", hint=f"export {variable}=user:password first")
    return encoded_login(value, named)


def path_of(setting: Setting | None, key: str = "ca-bundle") -> str:
    """A path as the shell would have made it; one in a file does not depend on where somebody stands."""
    if setting is None or setting.named("") == setting.origin:
        return setting.value if setting else ""
    path = os.path.expanduser(setting.value)
    if not path.startswith("/"):
        raise UsageError(f"{setting.named(key)} {setting.value!r} is a path from nowhere", hint="write the whole path")
    return path


def _node_origin(setting: Setting | None) -> str:
    return parse_node_origin(setting.value, setting.named("node-source")) if setting else parse_node_origin("", "")


def _node_line(setting: Setting | None) -> str:
    return parse_node_line(setting.value, setting.named("node")) if setting else ""


def may_fetch(setting: Setting | None) -> bool:
    """Whether what is missing may be fetched and built. Raises UsageError for what is neither yes nor no."""
    if setting is not None and setting.value not in ("missing", "never"):
        raise UsageError(f"{setting.named('pull')} {setting.value!r} is not a time to fetch", hint=_PULL_HINT)
    return setting is None or setting.value != "never"


def _hash(setting: Setting | None) -> str:
    if setting is not None and not _HASH.fullmatch(setting.value):
        raise UsageError(f"--trust-once {setting.value!r} is not a hash", hint="see it: aisb trust --show")
    return setting.value if setting else ""


def _network_name(setting: Setting | None) -> str:
    if setting is None:
        return ""
    if not _NETWORK.fullmatch(setting.value):
        what = f"{setting.named('gate-network')} {setting.value!r} is not the name of a network"
        raise UsageError(what, hint="see: podman network ls")
    return setting.value


def _seconds(setting: Setting) -> int:
    if not _SECONDS.fullmatch(setting.value):
        what = f"{setting.named('gate-idle')} {setting.value!r} is not a number of seconds"
        raise UsageError(what, hint="write: 600")
    return int(setting.value)


def _refuse_a_full_default(environ: Mapping[str, str], given: tuple[str, ...]) -> None:
    """Everything open is asked for each time, never by a variable that somebody forgot."""
    if not given and environ.get(variable_of("net")) == "full":
        raise UsageError(
            "AISB_NET=full: an open network is never a default",
            hint="give the flag: --net full; or, for a list of hosts, take the variable away: unset AISB_NET",
        )


def _is_on(name: str, setting: Setting | None) -> bool:
    value = setting.value.lower() if setting else ""
    if setting is not None and value not in _TRUE | _FALSE:
        written = f"{setting.named(name)}{'=' if setting.named(name) == setting.origin else ' '}{setting.value!r}"
        raise UsageError(f"{written} is neither on nor off", hint="write 1 or 0")
    return value in _TRUE


def variable_of(name: str) -> str:
    """The variable that may set an option."""
    return "AISB_" + name.upper().replace("-", "_")


def _harness(split: Split, settings: frozenset[str], held: str) -> str:
    """The agent that the command is, "" where a shell or any other command was asked for. The image holds `held`."""
    return "" if "shell" in settings or split.command is not None or split.verb == SERVE else held


def _command(split: Split, settings: frozenset[str], harness: str) -> tuple[str, ...]:
    if split.verb == SERVE:
        if "shell" in settings:
            raise UsageError("aisb serve has no shell", hint="write: aisb --shell")
        return TOOL_SERVER
    if "shell" in settings:
        if split.command is not None or split.harness:
            raise UsageError("--shell takes no command", hint="write: aisb --shell, or: aisb -- COMMAND")
        return SHELL
    command = split.command if split.command is not None else (harness, *split.harness)
    for number, word in enumerate(command):
        # podman writes arguments down as JSON, and puts U+FFFD in the place of such bytes without a word.
        if any("\udc80" <= letter <= "\udcff" for letter in word):
            what = f"argument {number} of the command" if number else "the command"
            raise UsageError(f"{what} is not UTF-8, and podman would change it", hint="name it by a pattern: caf*")
    return command
