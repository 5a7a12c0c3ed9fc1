"""Look at the machine, once for each run: all that, besides the command line, decides a plan."""

from __future__ import annotations

import os
import pwd
import re
import stat
from typing import TYPE_CHECKING

from aisb.domain.project import check_project, home_volume
from aisb.effects.host import host_addresses
from aisb.effects.plan import Plan, Question, find_plan, fingerprint, images_noted, keep_plan, note_images
from aisb.effects.state import read_if_there
from aisb.errors import Unavailable, Untrusted, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aisb.effects.host import Host
    from aisb.effects.process import Runner
    from aisb.effects.state import Directories

PODMAN_SECCOMP = ("/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json")
_LARGEST_BUNDLE = 4 * 1024 * 1024
_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,31}")
# The sandbox's own accounts; a host user of that name is shown as `user`.
_OWN_ACCOUNTS = ("root", "aisb-relay", "nobody")


def resolve_project(directory: str | None, environ: Mapping[str, str], own: Directories) -> str:
    """The project's real path, "" where none is wanted. Raises UsageError for what may not be one."""
    if directory is None:
        return ""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current directory no longer exists", hint="change to one that does") from None
    path = os.path.realpath(os.path.join(here, directory))
    if not os.path.isdir(path):
        raise UsageError(f"{path} is not a directory", hint="name the project's own directory: --project DIR")
    return check_project(path, home=os.path.realpath(environ["HOME"]), own=own.own())


def read_ca_bundle(path: str, project: str) -> str:
    """The certificates in a file, "" without one. Raises UsageError for what is not a list of certificates."""
    if not path:
        return ""
    real = os.path.realpath(path)
    if project and real.startswith(project + "/"):
        raise Untrusted(
            f"--ca-bundle {path} lies in the project, where the agent can change it", hint="keep it elsewhere"
        )
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"--ca-bundle {path} is not a regular file", hint="name a file of PEM certificates")
            data = file.read(_LARGEST_BUNDLE + 1)
    except OSError as error:
        raise UsageError(f"--ca-bundle {path}: {error.strerror}", hint="name a file of PEM certificates") from error
    return _checked_certificates(path, data)


def _checked_certificates(path: str, data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    if len(data) > _LARGEST_BUNDLE or "-----BEGIN CERTIFICATE-----" not in text:
        raise UsageError(f"--ca-bundle {path} holds no certificate", hint="it must be PEM: -----BEGIN CERTIFICATE-----")
    if "PRIVATE KEY" in text:
        raise UsageError(f"--ca-bundle {path} holds a private key", hint="give the certificate alone")
    return text


def user_name() -> str:
    """The caller's name, as it will be shown inside."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "user"
    return name if _USER_NAME.fullmatch(name) and name not in _OWN_ACCOUNTS else "user"


def find_seccomp() -> str | None:
    """The path of podman's own seccomp profile."""
    return next((path for path in PODMAN_SECCOMP if os.path.isfile(path)), None)


def stamp_of(path: str) -> str:
    """What changes when the file does."""
    try:
        status = os.stat(path)
    except OSError:
        return f"{path} -"
    return f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


def look_around(
    *,
    net: str,
    allow: tuple[tuple[str, str], ...],
    environment: tuple[str, ...],
    install: tuple[str, ...],
    base_image: str,
    ca_bundle: str,
    project: str,
    network: str,
    cache: str,
) -> Question:
    """The question whose answer is a plan."""
    return Question(
        net=net,
        allow=allow,
        environment=environment,
        install=install,
        base_image=base_image,
        ca_bundle=ca_bundle,
        ca_text=read_ca_bundle(ca_bundle, project),
        project=project,
        home_volume=home_volume(project or "no project"),
        user=user_name(),
        pin=read_pins(cache, base_image),
        network=network,
        host_addresses=host_addresses() if net == "allow" else (),
        podman_seccomp=stamp_of(find_seccomp() or ""),
        programs=fingerprint(),
    )


def need_plan(
    question: Question, where: Directories, host: Host, runner: Runner, report: Callable[[str], None]
) -> Plan:
    """
    The plan that answers the question, with the images that it names.

    Where none is kept the entries are parsed first, so that a wrong one is refused before anything is built.
    """
    plan = find_plan(where.cache, question)
    if plan is None:
        from aisb.effects.make_plan import make_plan

        plan = make_plan(question, where, host, runner, report)
        keep_plan(where.cache, question._replace(pin=read_pins(where.cache, question.base_image)), plan)
    if not images_noted(where.cache, plan):
        from aisb.effects.make_plan import need_images

        need_images(question, where, host, runner, report)
        note_images(where.cache, plan)
    return plan
