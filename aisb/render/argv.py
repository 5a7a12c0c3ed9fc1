"""
podman's argv for a sandbox. A value: compared whole in a test, printed by `--dry-run`, run as it is.

Nothing here has a default that switches a protection off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.protected import DIRECTORY
from aisb.domain.trust import PROJECT_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.protected import Cover

# What ip, nft and setpriv need before the drop; root in the sandbox has nothing else, DAC_OVERRIDE included.
CAPABILITIES = ("NET_ADMIN", "SETGID", "SETPCAP", "SETUID")

# Explicit: containers.conf may make the host's own the default, and with the host's processes in sight
# whatever runs as the caller can read their memory and, through /proc, their files.
OWN_NAMESPACES = ("--pid", "private", "--ipc", "private", "--uts", "private", "--cgroupns", "private")

# The machine's own may be BBR, which stands still for minutes where pasta takes in less than is sent: a connection to
# pasta has no selective acknowledgements. It ends there; the one that crosses the internet is pasta's, as the machine
# has it. Of all that there are, only this one is allowed in every network namespace (tcp_congestion_control in
# ip-sysctl.rst).
LOCAL_CONGESTION = ("--sysctl", "net.ipv4.tcp_congestion_control=reno")

# SELinux: sandbox and gate share one label, none of their own, and nothing of the user's is ever relabelled.
LABEL = "label=disable"

# With the image as it is, some places must be there to write to; podman's own choice of them is another.
SCRATCH_TARGETS = ("/run/user/1000", "/tmp", "/var/tmp")
READ_ONLY = (
    "--read-only",
    "--read-only-tmpfs=false",
    *(word for target in SCRATCH_TARGETS for word in ("--tmpfs", f"{target}:rw,nosuid,nodev,mode=1777")),
)

PROJECT_TARGET = "/project"
HOME_TARGET = "/home/sandbox"
SESSION_TARGET = "/run/aisb"
SOCKET_TARGET = "/run/aisb/gate"
# What reads as nothing, in the directory of a session.
EMPTY_FILE = "empty"
EMPTY_DIRECTORY = "nothing"
# A repository's configuration, where the one on the host would lead to another place inside.
GIT_CONFIG = "git-config"
IDENTITY_FILES = ("passwd", "group", "hosts", "resolv.conf")


class Mount(NamedTuple):
    """A bind mount, or a volume where `source` has no slash: one without a name goes with its container."""

    source: str
    target: str
    read_only: bool

    def option(self) -> str:
        """The value of podman's `--mount`, CSV-quoted: a comma or a quote in a path stays in the path."""
        kind = "bind" if self.source.startswith("/") else "volume"
        source = [_csv(f"src={self.source}")] if self.source else []
        fields = [f"type={kind}", *source, _csv(f"dst={self.target}")]
        return ",".join([*fields, "ro"] if self.read_only else fields)


class SandboxView(NamedTuple):
    """What differs between one sandbox and the next."""

    podman: str
    run: str
    image: str
    network: str
    seccomp: str
    workdir: str
    mounts: tuple[Mount, ...]
    labels: tuple[tuple[str, str], ...]
    stdin: bool
    terminal: bool
    pid_file: str
    command: tuple[str, ...]
    limits: tuple[tuple[str, str], ...] = ()
    read_only: bool = False


def sandbox_argv(view: SandboxView) -> tuple[str, ...]:
    """The whole command line of one sandbox."""
    return (
        "/usr/bin/setpriv", "--pdeathsig", "TERM", "--",
        view.podman, "run", "--rm",
        "--name", container_name(view.run),
        "--pidfile", view.pid_file,
        "--hostname", "sandbox",
        "--pull=never",
        "--network", view.network,
        "--no-hosts",
        "--http-proxy=false",
        "--log-driver", "none",
        "--detach-keys=",
        "--systemd=false",
        "--unsetenv-all",
        "--image-volume=ignore",
        *OWN_NAMESPACES,
        "--userns", "keep-id:uid=1000,gid=1000",
        "--user", "0",
        "--cap-drop", "all",
        *(f"--cap-add={capability}" for capability in CAPABILITIES),
        "--security-opt", "no-new-privileges",
        "--security-opt", f"seccomp={view.seccomp}",
        "--security-opt", LABEL,
        *(READ_ONLY if view.read_only else ()),
        "--sysctl", "net.ipv4.ip_unprivileged_port_start=0",
        *LOCAL_CONGESTION,
        "--preserve-fds", "2",
        *(f"--{name}={value}" for name, value in view.limits),
        *(f"--label={name}={value}" for name, value in view.labels),
        *(f"--mount={mount.option()}" for mount in view.mounts),
        "--workdir", view.workdir,
        *(("--interactive",) if view.stdin else ()),
        *(("--tty",) if view.terminal else ()),
        view.image,
        *view.command,
    )  # fmt: skip


def exec_argv(podman: str, run: str, workdir: str, command: tuple[str, ...], *, terminal: bool) -> tuple[str, ...]:
    """The command line of a later command of a sandbox: root for as long as it takes to drop it, as at the start."""
    return (
        "/usr/bin/setpriv", "--pdeathsig", "TERM", "--",
        podman, "exec",
        "--detach-keys=",
        "--user", "0",
        "--preserve-fds", "3",
        "--workdir", workdir,
        "--interactive",
        *(("--tty",) if terminal else ()),
        container_name(run),
        "/usr/bin/setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
        "--no-new-privs", "--",
        "/usr/bin/python3", "-I", "-S", "-c",
        "import sys; sys.path.insert(0, '/usr/libexec/aisb'); from gate.launcher import main; main()",
        *command,
    )  # fmt: skip


_IN_DIRECTORY = """\
cd -- "$1" 2>/dev/null || { printf 'aisb: --cwd %s: there is no such directory inside\\n' "$1" >&2; exit 2; }
shift
exec "$@"
"""


def in_directory(path: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """
    The command, begun in a directory, a whole path, by a shell inside.

    podman's `--workdir` goes there as root, before anything is dropped, by whatever links lead there.
    """
    return ("/bin/sh", "-c", _IN_DIRECTORY, "sh", path, *command)


def container_name(run: str) -> str:
    """The container's name for a run."""
    return f"aisb-run-{run}"


def session_mounts(session: str, sockets: str | None, *, own_resolver: bool = True) -> tuple[Mount, ...]:
    """
    What aisb itself puts in: the rendered files of this run, and the directory of its gate socket.

    Without `own_resolver`, for a sandbox with a network and no relay, /etc/resolv.conf is podman's: it
    alone knows where pasta or slirp4netns answers questions.
    """
    names = IDENTITY_FILES if own_resolver else tuple(name for name in IDENTITY_FILES if name != "resolv.conf")
    identity = tuple(Mount(f"{session}/{name}", f"/etc/{name}", read_only=True) for name in names)
    gate = (Mount(sockets, SOCKET_TARGET, read_only=True),) if sockets else ()
    return (Mount(session, SESSION_TARGET, read_only=True), *gate, *identity)


def project_mounts(project: str, target: str, *, policy_directory: bool) -> tuple[Mount, ...]:
    """The project, writable, and in it what decides over the sandbox, which is not. `policy_directory`: it is there."""
    if not project:
        return ()
    policy = Mount(f"{project}/{PROJECT_DIRECTORY}", policy_target(target), read_only=True)
    return (Mount(project, target, read_only=False), *((policy,) if policy_directory else ()))


def policy_target(project: str) -> str:
    """
    Where what a project may ask for stands, of a project that is mounted there.

    Read-only inside, so that no agent asks for more in its user's name.
    """
    return f"{project}/{PROJECT_DIRECTORY}"


def cover_mounts(covers: Iterable[Cover], session: str) -> tuple[Mount, ...]:
    """
    Each place over itself, or what is shown instead; and the directories around it, which no rename can move away then.
    """
    return tuple(
        Mount(f"{session}/{cover.shown}" if cover.shown else cover.source, cover.target, cover.read_only)
        for cover in covers
    )


def nothing_of(kind: str) -> str:
    """What is shown in the place of a masked file or directory, by its name in a session."""
    return EMPTY_DIRECTORY if kind == DIRECTORY else EMPTY_FILE


def cover_lines(places: Iterable[tuple[str, str]]) -> str:
    """The file `covers`: the identity (device, inode) and the target of each place, for the launcher to compare."""
    return "".join(f"{identity} {target}\n" for identity, target in places)


def mount_targets(targets: Iterable[str]) -> str:
    """The file `mounts`: the targets that aisb itself asked for, one a line, as the kernel will write them."""
    return "".join(f"{line}\n" for line in sorted({as_in_mountinfo(target) for target in targets}))


def as_in_mountinfo(path: str) -> str:
    """`path` as it stands in /proc/self/mountinfo, where blanks, tabs, newlines and backslashes are octal."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in path)


def _csv(field: str) -> str:
    if any(character in field for character in ',"\n'):
        return '"' + field.replace('"', '""') + '"'
    return field
