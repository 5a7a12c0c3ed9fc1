"""Look at the machine, once for each run: all that, besides the command line, decides a plan."""

from __future__ import annotations

import os
import pwd
import re
import stat
from typing import TYPE_CHECKING

from aisb.assets import asset_path, package_path
from aisb.domain.base_image import REGISTRY, parse_base_image
from aisb.domain.certificates import find_certificates
from aisb.domain.freshness import is_due, is_stale, stale_words
from aisb.domain.images import NODE_LINE, ImageSpec, parse_platform
from aisb.domain.packages import parse_packages
from aisb.domain.pi_values import MODELS, SETTINGS
from aisb.domain.printing import shell_word
from aisb.domain.project import check_project, directories_around, home_volume
from aisb.domain.trust import PROJECT_DIRECTORY
from aisb.effects.group_access import access_notes, need_access
from aisb.effects.host import host_addresses, name_servers
from aisb.effects.pins import read_base_pin, read_pins
from aisb.effects.plan import Plan, Question, find_plan, fingerprint, images_noted, images_of, keep_plan, note_images
from aisb.effects.safe_files import is_reached_through, need_outside_of_homes
from aisb.effects.state import volumes_directory
from aisb.errors import Untrusted, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisb.domain.wanted import Wanted
    from aisb.effects.sources import Sources
    from aisb.effects.state import Directories
    from aisb.effects.workshop import Workshop

PODMAN_SECCOMP = ("/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json")
_LARGEST_BUNDLE = 4 * 1024 * 1024
# What a login, a shell, a desktop or git runs, below the directory of configurations.
_STARTED = ("autostart", "environment.d", "fish", "git", "plasma-workspace", "systemd/user")
# The same below that of data: units, and programs that a message starts.
_STARTED_OF_DATA = ("dbus-1/services", "systemd/user")
# Programs that are called by their name, and what every Python of the user imports.
_CALLED = (".cargo/bin", ".local/bin", ".local/lib", "bin", "go/bin")
_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,31}")
# The sandbox's own accounts; a host user of that name is shown as `user`.
_OWN_ACCOUNTS = ("root", "aisb-relay", "nobody")


def resolve_project(directory: str | None, environ: Mapping[str, str], own: Directories) -> str:
    """The project's real path, "" where none is wanted. Raises UsageError for what may not be one."""
    if directory is None:
        return ""
    try:
        path = os.path.realpath(directory)
    except FileNotFoundError:
        # Only of a path that begins here is it asked where that is.
        raise UsageError("the current directory no longer exists", hint="change to one that does") from None
    _refuse_a_link_of_others(directory, path)
    need_directory(path)
    need_access(path)
    return check_project(path, home=os.path.realpath(environ["HOME"]), own=deciding_directories(environ, own))


def named_path(directory: str, project: str, environ: Mapping[str, str]) -> str:
    """
    The project as its user calls it, whose links may be others than the project's path has; "" without one.

    A shell that came there by a link remembers that. It counts for what is shown, and where it leads to the project.
    """
    if not directory:
        return ""
    by_shell = os.path.normpath(os.path.join(environ.get("PWD", ""), directory))
    leads_there = os.path.isabs(by_shell) and os.path.realpath(by_shell) == project
    return by_shell if leads_there else os.path.abspath(directory)


def need_directory(path: str) -> None:
    """Raises UsageError for a project that is no directory."""
    if not os.path.isdir(path):
        raise UsageError(f"{path} is not a directory", hint="name the project's own directory: --project DIR")


def _refuse_a_link_of_others(directory: str, real: str) -> None:
    """Raises Untrusted for a link where somebody else could make it lead to another directory."""
    link = os.path.abspath(directory)
    if not os.path.islink(link):
        return
    place = os.path.dirname(link)
    status = os.stat(place)
    # A group of the user's own, as most distributions make one for each, is nobody else.
    writers = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != os.getgid() else 0)
    if status.st_uid not in (0, os.getuid()) or status.st_mode & writers:
        raise Untrusted(
            f"--project {directory} is a link in {place}, where others can write",
            hint=f"write: --project {shell_word(real)}",
        )


def found_around(project: str) -> list[str]:
    """
    What a person may think is there, and is not: files of a directory above count for nothing, and a repository that
    begins above the project is not mounted.
    """
    above = directories_around(project)
    policies = [place for place in above if os.path.lexists(f"{place}/{PROJECT_DIRECTORY}")]
    inside = bool(project) and os.path.lexists(f"{project}/.git")
    repositories = [] if inside else [place for place in above if os.path.lexists(f"{place}/.git")]
    return [
        *(f"{place}/{PROJECT_DIRECTORY} is not read: it counts only in the project itself" for place in policies[:1]),
        *(f"the repository {place} around the project is not mounted" for place in repositories[:1]),
        *access_notes(project),
    ]


def deciding_directories(environ: Mapping[str, str], own: Directories) -> tuple[str, ...]:
    """
    Where the files lie that decide what a sandbox may do, or what runs outside of any.

    aisb's, podman's, the programs that the user calls, and what is started for the user at a login.

    Resolved, so that a link into a project is found out.
    """
    home = environ["HOME"]
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    data = environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    directories = (
        *own.own(),
        f"{config}/containers",
        f"{data}/containers",
        f"{data}/ai-sandbox",
        f"{home}/.docker",
        f"{home}/.pi",
        *(f"{home}/{name}" for name in _CALLED),
        *(f"{config}/{name}" for name in _STARTED),
        *(f"{data}/{name}" for name in _STARTED_OF_DATA),
        package_path(),
        asset_path("templates"),
    )
    return tuple(os.path.realpath(directory) for directory in directories)


def read_ca_bundle(path: str, project: str, origin: str = "--ca-bundle") -> str:
    """The certificates in a file, "" without one. Raises UsageError for what is not a list of certificates."""
    if not path:
        return ""
    whole = whole_path(path, origin)
    real = os.path.realpath(whole)
    # Each step of the way too: a link in the project could point elsewhere the next time.
    if is_reached_through(whole, project):
        raise Untrusted(f"{origin} {path} lies in the project, where the agent can change it", hint="keep it elsewhere")
    need_outside_of_homes(whole, volumes_directory(os.environ), origin)
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{origin} {path} is not a regular file", hint="name a file of PEM certificates")
            data = file.read(_LARGEST_BUNDLE + 1)
    except OSError as error:
        raise UsageError(f"{origin} {path}: {error.strerror}", hint="name a file of PEM certificates") from error
    return _checked_certificates(f"{origin} {path}", data)


def pi_directory(environ: Mapping[str, str]) -> str:
    """The directory of the host's pi, "" where it has no configuration."""
    own = environ.get("PI_CODING_AGENT_DIR", "")
    directory = whole_path(os.path.expanduser(own), "PI_CODING_AGENT_DIR") or f"{environ.get('HOME', '')}/.pi/agent"
    return directory if any(os.path.lexists(f"{directory}/{name}") for name in (MODELS, SETTINGS)) else ""


def whole_path(path: str, origin: str) -> str:
    """
    The path from the root on, which means the same wherever we go; "" where there is none.

    Nothing is resolved. Raises UsageError for one that begins in a directory that is gone; `origin` is what named it.
    """
    if not path or path.startswith("/"):
        return path
    try:
        return f"{os.getcwd()}/{path}"
    except FileNotFoundError:
        raise UsageError(
            f"{origin} {path}: the current directory no longer exists",
            hint="write the whole path, or change to a directory that exists",
        ) from None


def read_fragment(path: str, default: str, project: str, origin: str = "--customize") -> str:
    """
    The user's own part of the Containerfile: the file that was named, else `default` where it is there.

    Raises UsageError for what may not be in it, and Untrusted for a file that the agent could change.
    """
    if not path and not os.path.lexists(default):
        return ""
    named = f"{origin} {path}" if path else default
    from aisb.domain.fragment import parse_fragment

    return parse_fragment(_users_own(whole_path(path, origin) or default, project, named), named)


def _users_own(path: str, project: str, named: str) -> bytes:
    """The content of a file of the user's that decides what an image holds."""
    if is_reached_through(path, project):
        raise Untrusted(f"{named} lies in the project, where the agent can change it", hint="keep it elsewhere")
    need_outside_of_homes(path, volumes_directory(os.environ), named)
    try:
        descriptor = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{named} is not a regular file", hint="name a file of instructions")
            return file.read(_LARGEST_BUNDLE)
    except OSError as error:
        raise UsageError(f"{named}: {error.strerror}", hint="name a file of instructions") from error


def _checked_certificates(named: str, data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    certificates = find_certificates([text])
    if len(data) > _LARGEST_BUNDLE or not certificates:
        raise UsageError(f"{named} holds no certificate", hint="it must be PEM: -----BEGIN CERTIFICATE-----")
    if "PRIVATE KEY" in text:
        raise UsageError(f"{named} holds a private key", hint="give the certificate alone")
    return certificates


def user_name() -> str:
    """The caller's name, as it will be shown inside."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "user"
    return name if _USER_NAME.fullmatch(name) and name not in _OWN_ACCOUNTS else "user"


def find_seccomp(root: str = "") -> str | None:
    """The path of podman's own seccomp profile, below `root`."""
    return next((path for path in PODMAN_SECCOMP if os.path.isfile(f"{root}{path}")), None)


def stamp_of(path: str) -> str:
    """What changes when the file does."""
    try:
        status = os.stat(path)
    except OSError:
        return f"{path} -"
    return f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


def look_around(
    wanted: Wanted,
    sources: Sources,
    *,
    project: str,
    network: str,
    ca_origin: str,
    home: str | None = None,
    fragment: str = "",
) -> Question:
    """
    The question whose answer is a plan. `ca_origin` is where the bundle of certificates was named, `home` the volume
    that is the home, None for the project's own.

    Where a proxy is belongs to it too, and is looked up apart: most who ask do not need it.
    """
    return Question(
        # A build may come when we are elsewhere.
        wanted=wanted._replace(ca_bundle=whole_path(wanted.ca_bundle, ca_origin)),
        ca_text=read_ca_bundle(wanted.ca_bundle, project, ca_origin),
        project=project,
        home_volume=home_volume(project or "no project") if home is None else home,
        user=user_name(),
        pin="",
        network=network,
        host_addresses=host_addresses() if wanted.net == "allow" else (),
        podman_seccomp=stamp_of(find_seccomp() or ""),
        programs=fingerprint(),
        allow_files=sources.allow_files,
        policy_files=sources.policy_files,
        name_servers=name_servers() if wanted.net == "allow" else (),
        fragment=fragment,
    )


def spec_of(question: Question) -> ImageSpec:
    """What the images of this question are made from. Raises UsageError for a base or a package that cannot be."""
    return ImageSpec(
        base=parse_base_image(question.wanted.base_image),
        platform=parse_platform(os.uname().machine),
        install=parse_packages(question.wanted.packages()),
        node_origin=question.wanted.node_origin,
        node_line=question.wanted.node_line or NODE_LINE,
        fragment=question.fragment,
        harness=question.wanted.harness,
    )


def need_plan(question: Question, shop: Workshop) -> Plan:
    """The plan that answers the question, with the images that it names in podman's store."""
    cache = shop.directories.cache
    _keep_fresh(question, shop)
    plan = find_plan(cache, _pinned(question, cache))
    if plan is not None and images_noted(cache, images_of(plan)):
        return plan
    from aisb.effects.make_plan import is_of_now, make_plan, need_images

    # Where the records have changed since it was found, what is there now belongs to another plan.
    if plan is None or not set(images_of(plan)) <= set(need_images(question, shop)):
        plan = make_plan(question, shop)
        pinned = _pinned(question, cache)
        # Kept under records, or programs, that it was not made from, it would answer every later run.
        if is_of_now(plan, question, cache) and pinned == _pinned(question, cache):
            keep_plan(cache, pinned, plan)
    note_images(cache, images_of(plan))
    return plan


def _keep_fresh(question: Question, shop: Workshop) -> None:
    """Ask again what the base stands for where its record has outlived its time, or say how old it is."""
    base = parse_base_image(question.wanted.base_image)
    pin = read_base_pin(shop.directories.cache, base) if base.kind == REGISTRY and not base.digest else None
    if pin is None or not is_stale(pin, shop.freshness, shop.now):
        return
    if shop.may_fetch and is_due(pin, shop.freshness, shop.now):
        from aisb.effects.build import BuildRequest
        from aisb.effects.refresh import refresh_base

        refresh_base(shop, BuildRequest(spec_of(question), question.wanted.ca_bundle, question.wanted.customize))
    else:
        shop.report.note(f"note: {stale_words(pin, shop.now)}")


def _pinned(question: Question, cache: str) -> Question:
    """The question with what the base and Node stand for at the moment."""
    return question._replace(pin=read_pins(cache, question.wanted.base_image, question.wanted.node_line or NODE_LINE))
