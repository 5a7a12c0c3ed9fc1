"""
The long-lived part of a host: the processes that hold its namespaces, started on demand and ended by id.

    holder    the mount namespace, and the network namespace that has the fake internet only ("lab")
    outside   a network namespace that reaches what the machine reaches ("machine"), for image builds
    uplink    slirp4netns, which carries `outside`
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from laboratory import folder, handover, machine
from laboratory.settings import HOME, NAMESERVER, Host, LabError

_OUTSIDE_RULES = f"""
table ip lab {{
    chain resolver {{
        type nat hook output priority -100;
        ip daddr {NAMESERVER} udp dport 53 dnat to 10.0.2.3
        ip daddr {NAMESERVER} tcp dport 53 dnat to 10.0.2.3
    }}
}}
"""
"""Both networks share one resolv.conf, because rootless podman keeps the mounts of its first start."""


class Process(NamedTuple):
    """
    A process that cannot be mistaken for a later one with the same id.
    """

    pid: int
    started: int


def identify(pid: int) -> Process:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return Process(pid, 0 if fields[0] == "Z" else int(fields[19]))


def is_alive(process: Process) -> bool:
    try:
        return identify(process.pid) == process
    except (FileNotFoundError, ProcessLookupError):
        return False


class World(NamedTuple):
    """
    A host that is up.
    """

    host: Host
    processes: dict[str, Process]

    def network(self, net: str) -> int:
        """The process whose network namespace is meant by "lab" or "machine"."""
        return self.processes["outside" if net == "machine" else "holder"].pid

    @property
    def groups(self) -> str:
        """Where the host's control groups are, seen from outside."""
        return f"/proc/{self.processes['holder'].pid}/root/sys/fs/cgroup/{self.host.group}"


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """
    Hold the lock `file` for the length of a `with` block.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find(host: Host) -> World | None:
    """
    The host's world if all of it is up.
    """
    try:
        saved = json.loads(host.state.read_text())
    except FileNotFoundError:
        return None
    processes = {name: Process(*value) for name, value in saved.items()}
    return World(host, processes) if all(map(is_alive, processes.values())) else None


def need(host: Host) -> World:
    """
    The host's world, made on demand.
    """
    if world := find(host):
        return world
    machine.need_root()
    with locked(host.cache / "up.lock"):
        return find(host) or _make(host)


def _make(host: Host) -> World:
    stop(host)
    with locked(host.cache.parent / "machine.lock"):
        machine.install_packages()
        account = machine.need_account()
        machine.open_devices()
    host.cache.chmod(0o755)
    if host.suite == machine.codename():
        root = Path("/")
    else:
        folder.need_folder(host)
        folder.write_account(host.folder, account)
        root = host.folder
    for directory in (host.home, host.home / "calls", host.home / "store"):
        directory.mkdir(exist_ok=True)
        os.chown(directory, account.pw_uid, account.pw_gid)
    starter = _Starter(host)
    try:
        starter.start(
            "holder",
            "unshare", "--mount", "--net", "--propagation", "private",
            str(Path(__file__).with_name("hold.sh")), str(root), str(host.home), str(HOME),
            str(account.pw_uid), str(account.pw_gid), NAMESERVER, str(handover.BUNDLE),
            *map(str, handover.local_paths()),
        )  # fmt: skip
        starter.start("outside", "unshare", "--net", "sh", "-c", "ip link set lo up; echo ready; exec sleep infinity")
        outside = starter.processes["outside"].pid
        starter.start(
            "uplink", "slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback", "--ready-fd=1",
            str(outside), "tap0",
        )  # fmt: skip
        _in_network(outside, "nft", "-f", "-", script=_OUTSIDE_RULES)
        world = World(host, starter.processes)
        for group in ("lab", "kept"):
            os.makedirs(os.path.join(world.groups, group), exist_ok=True)
        for process in starter.processes.values():
            Path(world.groups, "lab", "cgroup.procs").write_text(str(process.pid))
    except BaseException:
        starter.undo()
        raise
    host.state.write_text(json.dumps(starter.processes))
    return world


def stop(host: Host) -> None:
    """
    End everything that runs in the host, by control group, and its holders, by id.
    """
    try:
        saved = json.loads(host.state.read_text())
    except FileNotFoundError:
        return
    processes = [process for process in (Process(*value) for value in saved.values()) if is_alive(process)]
    for process in processes:
        # The group is the same one seen through any process that still has the mounts.
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/root/sys/fs/cgroup/{host.group}/cgroup.kill").write_text("1")
            break
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, 9)
    deadline = time.monotonic() + 10
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    host.state.unlink()


def _in_network(pid: int, *argv: str, script: str = "") -> None:
    done = subprocess.run(
        ("nsenter", "--target", str(pid), "--net", *argv), input=script, text=True, capture_output=True
    )
    if done.returncode:
        raise LabError(f"{' '.join(argv)} exited {done.returncode}: {done.stderr.strip()}")


class _Starter:
    """
    Starts daemons; each writes to its stdout once it is ready, and keeps nothing of the caller's.
    """

    def __init__(self, host: Host) -> None:
        self.log = host.cache / "daemons.log"
        self.processes: dict[str, Process] = {}

    def start(self, name: str, *argv: str) -> None:
        with self.log.open("a") as log:
            daemon = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, cwd="/"
            )
        assert daemon.stdout is not None
        ready, _, _ = select.select([daemon.stdout], [], [], 60)
        if not ready or not os.read(daemon.stdout.fileno(), 64):
            daemon.kill()
            raise LabError(f"{name} ({argv[0]}) did not start; see {self.log}")
        self.processes[name] = identify(daemon.pid)

    def undo(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, 9)
