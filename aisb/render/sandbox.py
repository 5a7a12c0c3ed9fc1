"""
What closes a sandbox from inside: the ruleset, the entrypoint, and the mount targets it expects.

The entrypoint belongs to the image and knows nothing of a run; what differs between runs is
rendered into the run's own directory and mounted read-only at /run/aisb.
"""

from __future__ import annotations

from typing import NamedTuple

from aisb.domain.net import HOST_V4, HOST_V6
from aisb.render.environment import render

ALLOW = "allow"
NONE = "none"
FULL = "full"
MODES = (ALLOW, NONE, FULL)

RELAY_UID = 999
COMMAND_UID = 1000
LAUNCHER_MODULE = "gate.launcher"
RELAY_MODULE = "gate.relay"
# What answers questions for names where there is no gate.
PINS_MODULE = "gate.pins"
# What leads clients of published ports in where there is no relay at all.
OFFERS_MODULE = "gate.offers"

# Where the relay listens; gate/relay.py and gate/names.py hold the same numbers, and a test compares them.
TRANSPARENT_PORT = 3129
DNS_PORT = 3130
FIRST_ADDRESS = "198.18.1.0"
LAST_ADDRESS = "198.19.255.255"

RESOLVERS_V4 = ("10.0.2.3", "169.254.1.1")
RESOLVERS_V6 = ("fd00::3",)

# CAP_SETGID, CAP_SETUID, CAP_SETPCAP and CAP_NET_ADMIN, as /proc/self/status writes them.
CAPABILITY_MASK = f"{1 << 6 | 1 << 7 | 1 << 8 | 1 << 12:016x}"

# What podman puts into the environment of a container that asked for nothing.
KNOWN_VARIABLES = ("HOME", "HOSTNAME", "PATH", "PWD", "TERM", "container")

# Where podman 4.3 to 5.x mount something in a container that asked for nothing: the pseudo file
# systems, device files, what it masks below /proc and /sys, and its own files.
KNOWN_MOUNTS = (
    "/",
    "/dev",
    "/dev/console",
    "/dev/full",
    "/dev/mqueue",
    "/dev/null",
    "/dev/pts",
    "/dev/random",
    "/dev/shm",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/proc",
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/run/.containerenv",
    "/sys",
    "/sys/dev/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/cgroup",
    "/sys/fs/selinux",
)


class RulesetView(NamedTuple):
    """What sandbox.nft.j2 sees."""

    mode: str
    transparent_port: int = TRANSPARENT_PORT
    dns_port: int = DNS_PORT
    first_address: str = FIRST_ADDRESS
    last_address: str = LAST_ADDRESS
    host_v4: tuple[str, ...] = HOST_V4
    host_v6: tuple[str, ...] = HOST_V6
    resolvers_v4: tuple[str, ...] = RESOLVERS_V4
    resolvers_v6: tuple[str, ...] = RESOLVERS_V6


class EntrypointView(NamedTuple):
    """What entrypoint.sh.j2 sees: nothing of a run, so that the image stays the same for all."""

    capability_mask: str = CAPABILITY_MASK
    known_mounts: tuple[str, ...] = KNOWN_MOUNTS
    known_variables: tuple[str, ...] = KNOWN_VARIABLES
    relay_uid: int = RELAY_UID
    command_uid: int = COMMAND_UID
    relay_module: str = RELAY_MODULE
    pins_module: str = PINS_MODULE
    offers_module: str = OFFERS_MODULE
    launcher_module: str = LAUNCHER_MODULE


def ruleset(mode: str) -> str:
    """The nft ruleset of a sandbox whose `--net` is `mode`."""
    if mode not in MODES:
        raise ValueError(f"{mode!r} is no network mode")
    return render("sandbox.nft.j2", RulesetView(mode))


def entrypoint() -> str:
    """The sandbox image's entrypoint."""
    return render("entrypoint.sh.j2", EntrypointView())
