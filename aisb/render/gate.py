"""
podman's argv for a gate. A value, like a sandbox's: compared whole in a test, run as it is.

Kept apart from the templates: the start of a gate whose files are there renders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.names import OWN_SUFFIX
from aisb.render.argv import CAPABILITIES, LABEL, LOCAL_CONGESTION, OWN_NAMESPACES, Mount

if TYPE_CHECKING:
    from collections.abc import Iterable

GATE_TARGET = "/run/aisb"
# Where squid keeps the one thing that it writes, its throw-away certificate.
SCRATCH_TARGET = "/run/squid"
OWN_NAME = f"gate.{OWN_SUFFIX}"

# Helpers of squid listen on loopback at a port that the kernel chooses from this range.
FIRST_EPHEMERAL_PORT = 32768
LAST_EPHEMERAL_PORT = 60999

# Explicit, so that a default of the user's containers.conf cannot open the host's loopback again.
# Any other text is the name of a podman network.
NETWORKS = {
    "pasta": "pasta:--no-map-gw,-t,none,-u,none,-T,none,-U,none",
    "slirp4netns": "slirp4netns:allow_host_loopback=false,enable_ipv6=true",
}


class GateView(NamedTuple):
    """What differs between one gate and the next."""

    podman: str
    image: str
    key: str
    network: str
    directory: str
    # The run that the gate belongs to, "" where it is shared.
    owner: str = ""
    holds_secrets: bool = False


def gate_name(key: str, owner: str = "") -> str:
    """The container's name: enough of the key to tell gates apart at a glance; the whole key is a label."""
    return f"aisb-gate-{key[:12]}{'-' if owner else ''}{owner}"


def gate_argv(view: GateView) -> tuple[str, ...]:
    """
    The whole command line that starts a gate.

    Descriptor 3 is where it says that it is ready. One that belongs to a run is told a password on descriptor 4, and
    secrets to put into requests on 5.
    """
    return (
        view.podman, "run", "--detach", "--rm",
        "--name", gate_name(view.key, view.owner),
        "--hostname", OWN_NAME,
        "--pull=never",
        "--network", NETWORKS.get(view.network, view.network),
        "--no-hosts",
        "--http-proxy=false",
        "--log-driver", "none",
        "--systemd=false",
        "--unsetenv-all",
        "--image-volume=ignore",
        *OWN_NAMESPACES,
        "--user", "0",
        "--cap-drop", "all",
        *(f"--cap-add={capability}" for capability in CAPABILITIES),
        "--security-opt", "no-new-privileges",
        "--security-opt", f"seccomp={view.directory}/conf/seccomp.json",
        "--security-opt", LABEL,
        "--sysctl", f"net.ipv4.ip_local_port_range={FIRST_EPHEMERAL_PORT} {LAST_EPHEMERAL_PORT}",
        "--sysctl", "net.ipv4.ip_unprivileged_port_start=0",
        *LOCAL_CONGESTION,
        "--read-only",
        "--read-only-tmpfs=false",
        "--preserve-fds", str(1 + bool(view.owner) + view.holds_secrets),
        "--label=aisb.role=gate",
        f"--label=aisb.key={view.key}",
        f"--mount={Mount(view.directory, GATE_TARGET, read_only=False).option()}",
        # squid keeps its tables in shared memory, which is read-only here on podman 5 unless it is named.
        "--tmpfs", "/dev/shm:rw,nosuid,nodev,noexec,size=64m,mode=1777",
        "--tmpfs", f"{SCRATCH_TARGET}:rw,nosuid,nodev,noexec,size=1m,mode=1777",
        view.image,
    )  # fmt: skip


def program_argv(podman: str, container: str, uid: int, command: Iterable[str]) -> tuple[str, ...]:
    """podman's argv for a program in a gate, as one of its users, with our stdin."""
    return (podman, "exec", "--interactive", "--user", f"{uid}:{uid}", container, *command)
