"""
What the virtual machine is made of: Debian 13 with systemd, and the account's home with aisb and its images.

Each is made of the laboratory's own parts, and made again when these have changed.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.e2e.lab import LABORATORY

sys.path.insert(0, LABORATORY)

from laboratory import folder, handover, job, machine, prepare, world
from laboratory.account import environment, write_home
from laboratory.locks import locked
from laboratory.settings import ACCOUNT, CACHE, HOME, HOSTS, TREE, LabError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ACCOUNT", "ADDRESS", "KEY", "PLACE", "Disks", "need_disks"]

PLACE = CACHE / "vm"
KEY = PLACE / "key"
ADDRESS = "10.0.2.15"
MACHINE_PACKAGES = ("qemu-system-x86", "openssh-client", "e2fsprogs")
PACKAGES = (
    "linux-image-cloud-amd64", "systemd-sysv", "dbus-user-session", "libpam-systemd", "openssh-server", "podman", "passt",
    "uidmap", "crun", "netavark", "nftables", "iproute2", "procps", "python3", "git", "ca-certificates",
)  # fmt: skip
HOME_SECONDS = 600
_FREE = 600 << 20

# As the account, in the laboratory's Debian 13: podman makes something of an image for its first run, here in seconds
# and in the machine in minutes. Its database says where it lies, and that is elsewhere later.
_STORE = """
mkdir -p "$1/project" "$1/.config/containers"
podman save --quiet --multi-image-archive $(aisb build) |
    podman --root "$1/store" --runroot "$XDG_RUNTIME_DIR/vm" load >&2
printf '[storage]\\ndriver = "overlay"\\ngraphroot = "%s/store"\\nrunroot = "%s/vm"\\n' \\
    "$1" "$XDG_RUNTIME_DIR" >"$1/.config/containers/storage.conf"
cd "$1/project"
HOME=$1 aisb -q --net none --ephemeral-home -- true
cd "$1"
rm -r store/db.sql project .local
"""


class Disks(NamedTuple):
    """What the machine is started with."""

    kernel: Path = PLACE / "kernel"
    initrd: Path = PLACE / "initrd"
    system: Path = PLACE / "system.ext4"
    home: Path = PLACE / "home.ext4"


def need_disks() -> Disks:
    """The disks, made where they are missing or old: some minutes, and 3 GB."""
    machine.need_root()
    PLACE.mkdir(parents=True, exist_ok=True)
    # By a process of its own: the laboratory's servers outlive it.
    brought_up = subprocess.run((f"{LABORATORY}/up", "debian13"), stdin=subprocess.DEVNULL, check=False)
    running = world.find(HOSTS["debian13"])
    if brought_up.returncode or running is None:
        raise LabError("there is no aisb for the virtual machine; see above")
    disks = Disks()
    with locked(PLACE / "disks.lock"):
        machine.install_packages(MACHINE_PACKAGES)
        own = Path(__file__).read_bytes()
        _once("system", own, lambda: _make_system(disks))
        inputs = [name for name in sorted(prepare.list_tree(str(TREE))) if name.split("/")[0] in prepare.IMAGE_INPUTS]
        _once(
            "home",
            b"".join([own, *((TREE / name).read_bytes() for name in inputs)]),
            lambda: _make_home(running, disks),
        )
    return disks


def _once(name: str, made_of: bytes, make: Callable[[], None]) -> None:
    stamp = PLACE / f"{name}.stamp"
    digest = hashlib.sha256(made_of).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    machine.say(f"making the virtual machine's disk: {name}")
    started = time.monotonic()
    stamp.unlink(missing_ok=True)
    make()
    stamp.write_text(digest)
    machine.say(f"made it in {time.monotonic() - started:.0f} s")


def _make_system(disks: Disks) -> None:
    """Debian 13 as an ordinary user's machine: a session of systemd's for whoever logs in, with what it hands down."""
    root = PLACE / "root"
    shutil.rmtree(root, ignore_errors=True)
    folder.make_folder("trixie", PACKAGES, root)
    folder.write_account(root, pwd.getpwnam(ACCOUNT))
    with (root / "etc/shadow").open("a") as shadow:
        shadow.write(f"{ACCOUNT}:*:20000:0:99999:7:::\n")
    KEY.unlink(missing_ok=True)
    machine.output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEY))
    known = environment(str(HOME))
    for name, text in {
        "etc/fstab": f"/dev/vda / ext4 defaults 0 0\n/dev/vdb {HOME} ext4 defaults 0 0\n",
        "etc/environment": "".join(
            f"{key}={known[key]}\n" for key in ("LANG", "PATH", "XDG_CACHE_HOME", "AISB_BASE_IMAGE")
        ),
        "etc/systemd/network/all.network": f"[Match]\nType=ether\n[Network]\nAddress={ADDRESS}/24\n",
        "etc/ssh/sshd_config.d/all.conf": f"AuthorizedKeysFile /etc/ssh/{ACCOUNT}.pub\nUseDNS no\n",
        f"etc/ssh/{ACCOUNT}.pub": KEY.with_suffix(".pub").read_text(),
        # The user's systemd is there before the first login.
        f"var/lib/systemd/linger/{ACCOUNT}": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    machine.output("chroot", str(root), "systemctl", "enable", "systemd-networkd")
    for place in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(root / place, ignore_errors=True)
    for mark in ("etc/.updated", "var/.updated"):
        # Later than /usr: nothing is to be brought up to date at the first boot, which every one is here.
        (root / mark).touch()
    shutil.copy(next((root / "boot").glob("vmlinuz-*")), disks.kernel)
    shutil.copy(next((root / "boot").glob("initrd.img-*")), disks.initrd)
    _make_disk(root, disks.system)


def _make_home(running: world.World, disks: Disks) -> None:
    """The account's home as the laboratory has it, with a store that holds the two images alone."""
    host = running.host
    home = host.home / "vm"
    shutil.rmtree(home, ignore_errors=True)
    write_home(str(home), settings=False)
    with (PLACE / "home.log").open("w") as log:
        code = job.run(
            running,
            ("sh", "-ec", _STORE, "sh", f"{HOME}/vm"),
            name="vm",
            net="machine",
            environment=environment(f"{HOME}/login") | handover.variables(),
            directory=f"{HOME}/login",
            seconds=HOME_SECONDS,
            output=log.fileno(),
        )
    if code:
        raise LabError(f"there is no store for the virtual machine; see {PLACE}/home.log")
    for name in ("tree", "venv", "cache"):
        machine.output("cp", "--archive", str(host.home / name), str(home))
    write_home(str(home), settings=False)
    _make_disk(home, disks.home)


def _make_disk(content: Path, disk: Path) -> None:
    """A file system with all of `content`, which is taken away, and some room."""
    used = int(machine.output("du", "--summarize", "--bytes", str(content)).split()[0])
    disk.unlink(missing_ok=True)
    size = f"{(used + used // 4 + _FREE) >> 10}k"
    owner = content.stat()
    owned = f"root_owner={owner.st_uid}:{owner.st_gid}"
    machine.output("/sbin/mkfs.ext4", "-q", "-E", owned, "-d", str(content), str(disk), size)
    os.sync()
    shutil.rmtree(content)
