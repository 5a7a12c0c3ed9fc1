"""From a command line and `AISB_*` to a request: plain text still, but each item knows where it came from."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.images import parse_node_origin
from aisb.domain.net import ALLOW, parse_net_mode
from aisb.domain.options import LIST, OPTIONS, VALUE
from aisb.domain.wanted import Wanted
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisb.cli.splitter import Split

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Not podman's own modes (host, container:ID, ns:PATH), which are no networks to join.
_NETWORK = re.compile(r"(?!(?:host|none|private|bridge|pasta|slirp4netns)$)[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
# Set by aisb for every command; the host's values name places that are not there.
_OWN_VARIABLES = frozenset(
    {"HOME", "LOGNAME", "SHELL", "USER", "XDG_RUNTIME_DIR"}
    | {name for lower in ("http_proxy", "https_proxy", "no_proxy") for name in (lower, lower.upper())}
)
_SECONDS = re.compile(r"[1-9][0-9]{0,6}")
_TRUE = {"1", "true", "yes"}
_FALSE = {"", "0", "false", "no"}
DEFAULT_HARNESS = ("pi",)
SHELL = ("/bin/bash", "-l")


class Request(NamedTuple):
    """What was asked for. `origins` says of each value where it was written: its flag, or its variable."""

    wanted: Wanted
    gate_network: str
    project: str | None
    command: tuple[str, ...]
    settings: frozenset[str]
    origins: Mapping[str, str]

    def has(self, name: str) -> bool:
        """Whether a plain flag is on."""
        return name in self.settings

    def origin(self, name: str) -> str:
        """Where the value of an option was written; its flag, where nobody wrote one."""
        return self.origins.get(name, f"--{name}")


def read_request(split: Split, environ: Mapping[str, str]) -> Request:
    """The request of a command line. Raises UsageError for what cannot be meant."""
    scalars = _scalars(split, environ)
    settings = _settings(split, environ)
    _refuse_a_full_default(environ, split.values("net"))
    if "project" in scalars and not scalars["project"].text:
        raise UsageError("--project is empty", hint="name a directory, or leave the flag out for the current one")
    if "no-cwd" in settings and "project" in scalars:
        raise UsageError("--project and --no-cwd exclude each other", hint="leave one of the two out")
    wanted = _wanted(split, scalars)
    if wanted.net != ALLOW and wanted.allow:
        raise _allow_without_a_list(wanted.net, scalars["net"].origin)
    return Request(
        wanted=wanted,
        gate_network=_network_name(*scalars.get("gate-network", ("", ""))),
        project=None if "no-cwd" in settings else scalars.get("project", (".",))[0],
        command=_command(split, settings),
        settings=settings,
        origins={name: written.origin for name, written in scalars.items()},
    )


def _allow_without_a_list(net: str, origin: str) -> UsageError:
    if origin == "--net":
        return UsageError(f"--allow has no meaning under --net {net}", hint="leave one of the two out")
    return UsageError(f"--allow has no meaning under {origin}={net}", hint="add: --net allow")


class _Written(NamedTuple):
    """A value, and the flag or the variable that it came by."""

    text: str
    origin: str


def _wanted(split: Split, scalars: Mapping[str, _Written]) -> Wanted:
    net = scalars.get("net", _Written(ALLOW, "--net"))
    base = scalars.get("base-image", _Written(DEFAULT_BASE, "--base-image"))
    return Wanted(
        net=parse_net_mode(*net),
        allow=tuple((value, "--allow") for value in split.values("allow")),
        environment=_environment_names(split.values("env")),
        install=tuple(package for value in split.values("install") for package in value.split(",")),
        base_image=parse_base_image(*base).text,
        ca_bundle=scalars.get("ca-bundle", ("",))[0],
        node_origin=parse_node_origin(*scalars.get("node-source", ("", ""))),
        idle_seconds=_seconds(*scalars.get("gate-idle", ("600", ""))),
    )


def _network_name(text: str, origin: str) -> str:
    if text and not _NETWORK.fullmatch(text):
        raise UsageError(f"{origin} {text!r} is not the name of a network", hint="see: podman network ls")
    return text


def _seconds(text: str, origin: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise UsageError(f"{origin} {text!r} is not a number of seconds", hint="write: 600")
    return int(text)


def _scalars(split: Split, environ: Mapping[str, str]) -> dict[str, _Written]:
    found: dict[str, _Written] = {}
    for option in OPTIONS:
        if option.kind != VALUE:
            continue
        values = split.values(option.name)
        variable = variable_of(option.name)
        if values:
            found[option.name] = _Written(values[-1], f"--{option.name}")
        elif "env" in option.layers and environ.get(variable):
            found[option.name] = _Written(environ[variable], variable)
    return found


def _refuse_a_full_default(environ: Mapping[str, str], given: tuple[str, ...]) -> None:
    """Everything open is asked for each time, never by a variable that somebody forgot."""
    if not given and environ.get(variable_of("net")) == "full":
        raise UsageError("AISB_NET=full: an open network is never a default", hint="give the flag: --net full")


def _settings(split: Split, environ: Mapping[str, str]) -> frozenset[str]:
    names = {option.name for option in OPTIONS if option.kind not in (VALUE, LIST)}
    given = {flag for flag, _ in split.flags if flag in names}
    from_environment = {
        option.name
        for option in OPTIONS
        if option.name in names and "env" in option.layers and _is_on(environ, option.name)
    }
    return frozenset(given | from_environment)


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(variable_of(name), "").lower()
    if value not in _TRUE | _FALSE:
        raise UsageError(f"{variable_of(name)}={value!r} is neither on nor off", hint="write 1 or 0")
    return value in _TRUE


def variable_of(name: str) -> str:
    """The variable that may set an option."""
    return "AISB_" + name.upper().replace("-", "_")


def _environment_names(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if "=" in value:
            name = value.partition("=")[0]
            raise UsageError(
                f"--env {name}=...: a value on the command line shows in the process list",
                hint=f"write: {name}=VALUE aisb --env {name} ...",
            )
        if not _NAME.fullmatch(value):
            raise UsageError(f"--env {value!r} is not the name of a variable", hint=_one_name_each(value))
        if value in _OWN_VARIABLES:
            raise UsageError(f"--env {value}: the sandbox has a {value} of its own", hint="leave it out")
    return tuple(dict.fromkeys(values))


def _one_name_each(value: str) -> str:
    names = value.split(",")
    if len(names) < 2 or not all(map(_NAME.fullmatch, names)):
        return "write: --env AI_API_TOKEN"
    return f"--env takes one name; write: {' '.join(f'--env {name}' for name in names)}"


def read_variables(names: tuple[str, ...], environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The values of the variables to pass in, as bytes. Raises UsageError for one that is not set."""
    missing = [name for name in names if os.fsencode(name) not in environ]
    if missing:
        raise UsageError(f"--env {missing[0]}: this variable is not set", hint=f"export {missing[0]}=... first")
    return {os.fsencode(name): environ[os.fsencode(name)] for name in names}


def _command(split: Split, settings: frozenset[str]) -> tuple[str, ...]:
    if "shell" in settings:
        if split.command is not None or split.harness:
            raise UsageError("--shell takes no command", hint="write: aisb --shell, or: aisb -- COMMAND")
        return SHELL
    command = split.command if split.command is not None else (*DEFAULT_HARNESS, *split.harness)
    for number, word in enumerate(command):
        # podman writes arguments down as JSON, and puts U+FFFD in the place of such bytes without a word.
        if any("\udc80" <= letter <= "\udcff" for letter in word):
            what = f"argument {number} of the command" if number else "the command"
            raise UsageError(f"{what} is not UTF-8, and podman would change it", hint="name it by a pattern: caf*")
    return command
