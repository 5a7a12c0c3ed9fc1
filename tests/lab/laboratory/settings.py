"""
Names, addresses and places of the laboratory.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

ACCOUNT = "aisb-lab"
HOME = Path("/home") / ACCOUNT
"""The account's directory as it sees it: a bind mount of the host's own `home` in the cache."""

TREE = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("AISB_LAB_CACHE") or "/var/cache/aisb-lab")
DEFAULT_HOST = "debian13"

NAMESERVER = "203.0.113.53"
HOST_ADDRESSES = ("203.0.113.2", "2001:db8::2")
SITES = {
    "router": ("203.0.113.1", "2001:db8::1"),
    "allowed.test": ("203.0.113.10", "2001:db8::10"),
    "evil.test": ("203.0.113.11", "2001:db8::11"),
    "cdn.test": ("203.0.113.12", "2001:db8::12"),
    "llm.test": ("203.0.113.13", "2001:db8::13"),
    "api.anthropic.com": ("203.0.113.14", "2001:db8::14"),
    "platform.claude.com": ("203.0.113.15", "2001:db8::15"),
    "dns": (NAMESERVER, "2001:db8::53"),
}
"""The fake internet's names and addresses. All other addresses are there too, as "elsewhere"."""

CANARIES = (
    ("127.0.0.1", 22), ("127.0.0.1", 5432), ("127.0.0.1", 6379), ("127.0.0.1", 11434), ("::1", 8000),
    ("203.0.113.2", 8000), ("2001:db8::2", 8000),
)  # fmt: skip
"""Servers on the host itself."""

MACHINE_PACKAGES = (
    "podman", "uidmap", "slirp4netns", "crun", "netavark", "aardvark-dns", "skopeo", "nftables", "iptables",
    "mmdebstrap", "debian-archive-keyring", "ca-certificates", "openssl", "iproute2", "util-linux", "procps",
    "python3", "python3-venv", "git", "curl", "tmux", "busybox-static", "dropbear-bin",
    "openssh-sftp-server", "nginx", "fcgiwrap",
)  # fmt: skip
"""What the machine itself needs: it is the Debian 12 host, and it makes the other one."""

FOLDER_PACKAGES = (
    "podman", "passt", "uidmap", "crun", "netavark", "aardvark-dns", "skopeo", "nftables", "iptables", "squid-openssl",
    "iproute2", "python3", "python3-venv", "git", "curl", "procps", "docker-registry", "mmdebstrap", "slirp4netns",
    "strace", "tmux", "ca-certificates", "openssl", "busybox-static", "postgresql",
)  # fmt: skip


class Host(NamedTuple):
    """
    A host of the laboratory and its places in the cache.
    """

    name: str
    suite: str

    @property
    def cache(self) -> Path:
        return CACHE / self.name

    @property
    def folder(self) -> Path:
        return self.cache / "root"

    @property
    def home(self) -> Path:
        return self.cache / "home"

    @property
    def state(self) -> Path:
        return self.cache / "state"

    @property
    def use(self) -> Path:
        """A lock: shared by calls, exclusive for a test."""
        return self.cache / "use.lock"

    @property
    def life(self) -> Path:
        """A lock: shared by all that runs in the host, exclusive for ending it."""
        return self.cache / "life.lock"

    @property
    def log(self) -> Path:
        """What reached the fake internet, one JSON object a line."""
        return self.cache / "sinks.jsonl"

    @property
    def group(self) -> str:
        """The host's control group: two caches are two laboratories."""
        return f"aisb-lab/{self.name}-{hashlib.sha256(os.fsencode(CACHE)).hexdigest()[:8]}"


HOSTS = {host.name: host for host in (Host("debian12", "bookworm"), Host("debian13", "trixie"))}


class UsageError(Exception):
    """
    A program of the laboratory was called in a way that it does not know.
    """


class LabError(Exception):
    """
    The laboratory cannot be had; the message says why and what to do.
    """


def need_host(name: str | None) -> Host:
    if (host := HOSTS.get(name or DEFAULT_HOST)) is None:
        raise LabError(f"LAB_HOST={name} is not a host; there are {' and '.join(HOSTS)}")
    return host
