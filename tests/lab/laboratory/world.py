"""
The long-lived part of a host: the processes that hold its namespaces, started on demand and ended by id.

    internet  the fake internet's servers, in a network namespace of their own
    holder    the host's mounts, and the network namespace that has the fake internet only ("lab")
    canaries  servers on the host itself
    outside   a network namespace that reaches what the machine reaches ("machine"), for image builds
    uplink    slirp4netns, which carries `outside`
    registry  an image registry on the host, only where it is asked for
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from laboratory import enter, folder, handover, machine, network, registry
from laboratory.account import environment, write_home
from laboratory.daemons import Process, Starter, is_alive, kill
from laboratory.locks import locked
from laboratory.settings import HOME, HOSTS, NAMESERVER, Host, LabError

if TYPE_CHECKING:
    import pwd

PARTS = Path(__file__).parent
ON_DEMAND = {"registry"}


class World(NamedTuple):
    """
    A host that is up.
    """

    host: Host
    processes: dict[str, Process]

    @property
    def holder(self) -> int:
        return self.processes["holder"].pid

    def network(self, net: str) -> int:
        """The process whose network namespace is meant by "lab" or "machine"."""
        return self.processes["outside"].pid if net == "machine" else self.holder

    @property
    def groups(self) -> str:
        """Where the host's control groups are, seen from outside."""
        return f"/proc/{self.holder}/root/sys/fs/cgroup/{self.host.group}"


def _saved(host: Host) -> dict[str, Process]:
    try:
        return {name: Process(*value) for name, value in json.loads(host.state.read_text()).items()}
    except FileNotFoundError:
        return {}


def find(host: Host) -> World | None:
    """
    The host's world if all of it is up.
    """
    processes = _saved(host)
    needed = [process for name, process in processes.items() if name not in ON_DEMAND]
    return World(host, processes) if needed and all(map(is_alive, needed)) else None


def need(host: Host) -> World:
    """
    The host's world, made on demand.
    """
    machine.need_root()
    if world := find(host):
        return world
    with locked(host.cache / "up.lock"):
        return find(host) or _make(host)


def stop(host: Host) -> None:
    """
    End everything that runs in the host, by control group; what it left in the cache stays.
    """
    machine.need_root()
    end = str(PARTS / "end.sh")
    machine.output("unshare", "--mount", "--propagation", "private", end, host.group)
    kill(_saved(host).values())
    host.state.unlink(missing_ok=True)


def need_registry(host: Host) -> None:
    """
    An empty image registry on the host's 127.0.0.1:5000, started on demand.
    """
    world = need(host)
    with locked(host.cache / "up.lock"):
        if "registry" in world.processes and is_alive(world.processes["registry"]):
            return
        place = HOSTS["debian13"]
        with locked(place.cache / "folder.lock"):
            folder.need_folder(place)
        starter = Starter(host.cache / "daemons.log")
        starter.start("registry", *registry.command(place.folder, host.name, world.holder))
        _keep(world, starter.processes)


def _make(host: Host) -> World:
    stop(host)
    with locked(host.cache.parent / "machine.lock"):
        machine.install_packages()
        account = machine.need_account()
        machine.open_devices()
    host.cache.chmod(0o755)
    root = Path("/")
    if host.suite != machine.codename():
        with locked(host.cache / "folder.lock"):
            folder.need_folder(host)
        folder.write_account(host.folder, account)
        root = host.folder
    for directory in (host.home, host.home / "calls", host.home / "store"):
        directory.mkdir(exist_ok=True)
        os.chown(directory, account.pw_uid, account.pw_gid)
    starter = Starter(host.cache / "daemons.log")
    try:
        return _start(host, starter, root, account)
    except BaseException:
        kill(starter.processes.values())
        raise


def _start(host: Host, starter: Starter, root: Path, account: pwd.struct_passwd) -> World:
    serve = str(PARTS / "internet/serve.py")
    internet = starter.start("internet", "unshare", "--net", serve, "internet", str(host.cache))
    shutil.copy(host.cache / "authority/ca.pem", host.home / "ca.pem")
    holder = starter.start(
        "holder",
        "unshare", "--mount", "--net", "--propagation", "private",
        str(PARTS / "hold.sh"), str(root), str(host.home), str(HOME), str(account.pw_uid), str(account.pw_gid),
        NAMESERVER, str(handover.BUNDLE), *map(str, handover.local_paths()),
    )  # fmt: skip
    network.connect(holder, internet)
    starter.start("canaries", "nsenter", "--target", str(holder), "--net", serve, "canaries", str(host.cache))
    outside = starter.start(
        "outside", "unshare", "--net", "sh", "-c", "ip link set lo up; echo ready; exec sleep infinity"
    )
    starter.start(
        "uplink",
        "slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback", "--ready-fd=1", str(outside), "tap0",
    )  # fmt: skip
    network.redirect_resolver(outside)
    world = World(host, {})
    _keep(world, starter.processes)
    _start_podman(world)
    return world


def _keep(world: World, processes: dict[str, Process]) -> None:
    """
    Put the daemons into the host's control group, and write them down.
    """
    world.processes.update(processes)
    for group in ("lab", "kept"):
        os.makedirs(os.path.join(world.groups, group), exist_ok=True)
    for process in processes.values():
        Path(world.groups, "lab", "cgroup.procs").write_text(str(process.pid))
    world.host.state.write_text(json.dumps(world.processes))


def _start_podman(world: World) -> None:
    """
    Start podman's pause process and take away what an earlier life has left in the store.

    Rootless podman keeps the namespaces of its first start in that process; no call may take it along at its end.
    """
    write_home(str(world.host.home / "login"), settings=False)
    child = enter.start(
        ("sh", "-c", "podman rm --all --force >/dev/null && podman volume prune --force >/dev/null"),
        mounts_of=world.holder,
        network_of=world.holder,
        group=os.path.join(world.groups, "lab"),
        environment=environment(f"{HOME}/login"),
        directory="/",
    )
    if os.waitpid(child, 0)[1]:
        raise LabError(f"podman does not start as the account on {world.host.name}; see above")
