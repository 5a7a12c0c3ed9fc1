"""
What this machine offers: podman, its version, its storage, and a network for the gate.

Asked once and remembered by the files that decide it, so that a warm start asks nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.printing import shell_word
from aisb.effects.process import SAFE_PATH, Command, Runner
from aisb.effects.state import make_private, read_if_there, write_whole
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

OLDEST = (4, 3)
PASTA_SINCE = (4, 4)
_PROBE_SECONDS = 30
# Which setting leaves an ordinary user without a user namespace, at which value, and what opens it.
_CLOSED_BY = (
    ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    # Ubuntu's, from 23.10 on.
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
)
_VERSION = re.compile(r"(\d+)\.(\d+)")


class Host(NamedTuple):
    """The facts that a run depends on."""

    podman: str
    version: tuple[int, int]
    storage_driver: str
    network: str
    cgroup_manager: str = ""


def need_ordinary_user(uids: tuple[int, ...] = ()) -> None:
    """
    Raises Unavailable for root: without a user namespace of an ordinary user there is nothing to drop to.

    `uids` are the real and the effective one, without them those of this process.
    """
    if 0 in (uids or (os.getuid(), os.geteuid())):
        raise Unavailable("aisb does not run as root", hint="run it as an ordinary user; it needs no privilege")


def need_own_home(environ: Mapping[str, str]) -> None:
    """Raises Unavailable where HOME leads nowhere: podman keeps everything there, and fails without words."""
    home = environ.get("HOME", "")
    if home and not os.path.isdir(home):
        raise Unavailable(f"HOME {home} is not a directory", hint="log in as a user that has a home")


def find_program(name: str, path: str = SAFE_PATH) -> str | None:
    """The absolute path of a program."""
    for directory in path.split(":"):
        candidate = f"{directory}/{name}"
        if directory.startswith("/") and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def need_host(
    cache: str, runner: Runner, search_path: str, project: str, subordinate_ids: Callable[[], None] | None = None
) -> Host:
    """
    This machine's facts, from the cache where nothing that decides them has changed.

    `subordinate_ids` raises where the user has none; `need_subordinate_ids` unless said otherwise.
    """
    podman = need_podman(search_path, project)
    stamp = _stamp(podman)
    remembered = _remembered(f"{cache}/host.json", stamp)
    if remembered is not None:
        return remembered
    (subordinate_ids or need_subordinate_ids)()
    host = ask_podman(podman, runner)
    make_private(cache)
    write_whole(f"{cache}/host.json", json.dumps({"stamp": stamp, "host": host}).encode())
    return host


def known_host(cache: str, search_path: str) -> Host | None:
    """What was found out of this machine, None where nothing was, or where it has changed. Nothing is started."""
    podman = find_program("podman", search_path)
    return _remembered(f"{cache}/host.json", _stamp(podman)) if podman else None


def need_podman(search_path: str, project: str) -> str:
    """The path of podman. Raises Unavailable where there is none that is to be trusted."""
    podman = find_program("podman", search_path)
    if podman is None:
        raise Unavailable(
            "podman was not found", hint="install it: apt-get install podman uidmap (or your distribution's way)"
        )
    refuse_planted(podman, project)
    return podman


def refuse_planted(program: str, project: str) -> None:
    """Raises Unavailable for a program that an agent, or another user, may have put there."""
    real = os.path.realpath(program)
    if project and (program.startswith(project + "/") or real.startswith(project + "/")):
        raise Unavailable(f"{program} lies in the project, where the agent can write it", hint="take it off your PATH")
    for path in (os.path.dirname(program), real):
        status = os.stat(path)
        if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022:
            raise Unavailable(
                f"{path} can be written by others, so {program} is not run", hint=f"chmod go-w {shell_word(path)}"
            )


def _stamp(podman: str) -> list[str]:
    home = os.environ.get("HOME", "/")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    deciding = (
        podman,
        find_program("pasta") or "no pasta",
        find_program("slirp4netns") or "no slirp4netns",
        "/etc/containers/storage.conf",
        "/etc/containers/containers.conf",
        "/etc/subuid",
    )
    # The user's own: what they say decides, not where they lie.
    own = (f"{name} {_content(f'{config}/containers/{name}')}" for name in ("storage.conf", "containers.conf"))
    # Whether podman can ask systemd for a control group.
    session = os.path.exists(f"{os.environ.get('XDG_RUNTIME_DIR', '')}/systemd")
    return [*(f"{path} {_identity(path)}" for path in deciding), *own, f"systemd {session}"]


def _identity(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _content(path: str) -> str:
    try:
        return hashlib.sha256(read_if_there(path) or b"").hexdigest()
    except OSError:
        return "-"


def _remembered(path: str, stamp: list[str]) -> Host | None:
    text = read_if_there(path)
    if text is None:
        return None
    try:
        document = json.loads(text)
        podman, version, driver, network, manager = document["host"]
        return Host(podman, tuple(version), driver, network, manager) if document["stamp"] == stamp else None
    except (ValueError, KeyError, TypeError):
        return None


def ask_podman(podman: str, runner: Runner, search_path: str = SAFE_PATH, root: str = "") -> Host:
    """
    Ask podman about itself; the networks that it can have are programs of `search_path`. /proc is below `root`.

    Raises Unavailable with the cause and the fix.
    """
    said = runner.run(Command(argv=(podman, "--version"), timeout_seconds=_PROBE_SECONDS))
    text = said.stdout.decode("utf-8", "replace")
    match = _VERSION.search(text)
    if said.code != 0 or not text.lower().startswith("podman") or match is None:
        raise Unavailable(
            f"{podman} is not podman: it says {text.strip()[:80]!r}", hint="install podman itself, 4.3 or newer"
        )
    version = (int(match[1]), int(match[2]))
    if version < OLDEST:
        raise Unavailable(f"podman {version[0]}.{version[1]} is too old", hint="install podman 4.3 or newer")
    command = Command(argv=(podman, "info", "--format", "{{json .}}"), timeout_seconds=_PROBE_SECONDS)
    told = runner.run(command)
    if told.code != 0:
        # It makes its user namespace before it says anything at all.
        lines = told.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"podman info exited {told.code}"
        hint = namespace_fix(root) or f"see what it says: {shell_word(podman)} info"
        raise Unavailable(f"podman does not work here: {why}", hint=hint)
    driver, manager = _parse_info(told.stdout)
    return Host(podman, version, driver, _gate_network(version, search_path), manager)


def namespace_fix(root: str = "") -> str:
    """What lets an ordinary user make a user namespace, where a setting of this machine says no; "" where none does."""
    for path, closed, fix in _CLOSED_BY:
        if (read_if_there(f"{root}/proc/sys/{path}") or b"").decode("ascii", "replace").strip() == closed:
            return f"sudo sysctl -w {fix}"
    return ""


def _parse_info(output: bytes) -> tuple[str, str]:
    """The storage driver and what makes control groups, once podman says that it is local and rootless."""
    try:
        info = json.loads(output)
        if info["host"].get("serviceIsRemote"):
            raise Unavailable(
                "podman here is a client of another machine", hint="unset CONTAINER_HOST; aisb needs podman itself"
            )
        if not info["host"]["security"]["rootless"]:
            raise Unavailable("podman does not run rootless", hint="run aisb as an ordinary user")
        return str(info["store"]["graphDriverName"]), str(info["host"].get("cgroupManager", ""))
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable("podman info said something that aisb cannot read", hint="try: podman info") from error


def _gate_network(version: tuple[int, int], search_path: str) -> str:
    if version >= PASTA_SINCE and find_program("pasta", search_path):
        return "pasta"
    return "slirp4netns" if find_program("slirp4netns", search_path) else ""


def need_network(host: Host, who: str = "the gate") -> str:
    """How a container here reaches the network. Only the gate, `--no-gate` and `--net full` need it."""
    if not host.network:
        raise Unavailable(
            f"neither pasta nor slirp4netns is there: {who} has no way out",
            hint="install one: apt-get install passt, or apt-get install slirp4netns",
        )
    return host.network


def need_subordinate_ids(root: str = "") -> None:
    """Raises Unavailable where the user has no range of subordinate ids in the files of /etc below `root`."""
    import pwd

    user = pwd.getpwuid(os.getuid()).pw_name
    for path in ("/etc/subuid", "/etc/subgid"):
        lines = (read_if_there(f"{root}{path}") or b"").decode("utf-8", "replace").splitlines()
        if not _has_range(lines, (user, str(os.getuid()))):
            raise Unavailable(
                f"{user} has no range of 65536 ids in {path}",
                hint=f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}",
            )


def _has_range(lines: Iterable[str], owners: tuple[str, str]) -> bool:
    fields = (line.split(":") for line in lines)
    return any(
        len(field) == 3 and field[0] in owners and field[2].isdecimal() and int(field[2]) >= 65536 for field in fields
    )


def name_servers(path: str = "/etc/resolv.conf") -> tuple[str, ...]:
    """
    The name servers of this host, in the order in which they are asked.

    A gate is given them as it starts, and pasta goes on handing its questions to the first one of that time.
    """
    lines = (read_if_there(path) or b"").decode("ascii", "replace").splitlines()
    return tuple(words[1] for words in map(str.split, lines) if words[:1] == ["nameserver"] and len(words) > 1)


def host_addresses() -> tuple[str, ...]:
    """
    The addresses of this host's interfaces, sorted: the gate may not dial them.

    Read from /proc: the v4 ones are the local entries of the routing trie.
    """
    return tuple(sorted(_local_v4() | _local_v6()))


def _local_v4() -> set[str]:
    found: set[str] = set()
    last = ""
    for line in (read_if_there("/proc/net/fib_trie") or b"").decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in ("|--", "+--"):
            last = words[1]
        elif words[:2] == ["/32", "host"] and words[2:] == ["LOCAL"]:
            found.add(last)
    return {address for address in found if not address.startswith("127.")}


def _local_v6() -> set[str]:
    import ipaddress

    lines = (read_if_there("/proc/net/if_inet6") or b"").decode("ascii", "replace").splitlines()
    addresses = {str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in lines if line.split()}
    return addresses - {"::1"}
