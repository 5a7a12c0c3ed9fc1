"""
The checks of `aisb doctor`, in the order in which a run meets their faults.

Where a run refuses by a function of its own, the check calls that function: what is red here is red there, in the same
words.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.base_image import BOOTSTRAP, DEFAULT_BASE, LOCAL, parse_base_image
from aisb.domain.containers_conf import settings_in_the_way
from aisb.domain.doctor import FAIL, OK, WARN, Finding
from aisb.domain.freshness import age, is_stale, parse_freshness, stale_words
from aisb.domain.images import GATE, SANDBOX
from aisb.domain.limits import BUILT_IN_CAPS, Limit
from aisb.effects.cgroups import ROOT, SYSTEMD, unenforced
from aisb.effects.host import (
    name_servers,
    namespace_fix,
    need_network,
    need_ordinary_user,
    need_own_home,
    need_subordinate_ids,
)
from aisb.effects.imports import need_own_imports_here
from aisb.effects.make_plan import SECCOMP_HINT
from aisb.effects.pins import read_base_pin
from aisb.effects.process import Finished
from aisb.effects.situation import find_seccomp
from aisb.effects.state import make_private
from aisb.errors import Unavailable, UsageError
from aisb.render.doctor import ownership_argv, squid_argv

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.base_image import BaseImage
    from aisb.effects.machine import Machine

# Both images, podman's second copy of the larger one, and what a build needs meanwhile.
_ROOM_TO_BUILD = 6 << 30
_ROOM_TO_RUN = 200 << 20
# Where version 2 lies beside the controllers of version 1.
_HYBRID = f"{ROOT}/unified"
_ONE_HIERARCHY = "boot with systemd.unified_cgroup_hierarchy=1"
_LEAST_IDS = 65536
# podman's own codes for a program that cannot be run, or is not there.
_NOT_IN_IMAGE = (126, 127)
_MOST_IMAGES = 3
_NOT_LOCAL = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre", "ceph", "afs")
# podman keeps one of these alive to hold the namespace open.
_HOLDS_NAMESPACE = ("catatonit", "podman", "podman pause")
# As the account of the namespace: asks the kernel for its generation of nftables rules.
_ASK_NF_TABLES = """
import socket, struct, sys
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
kernel.settimeout(5)
kernel.send(struct.pack("=IHHIIBBH", 20, 10 << 8 | 16, 1, 1, 0, 0, 0, 0))
answer = kernel.recv(4096)
kind, = struct.unpack_from("=H", answer, 4)
sys.exit(-struct.unpack_from("=i", answer, 16)[0] if kind == 2 else 0)
"""


class Check(NamedTuple):
    """A thing to look at. `look` raises Unavailable for what a run would refuse; `needs` are checks that come first."""

    name: str
    look: Callable[[Machine], Finding]
    needs: tuple[str, ...] = ()


def _ok(evidence: str) -> Finding:
    return Finding("", OK, evidence)


def _warn(evidence: str, fix: str = "") -> Finding:
    return Finding("", WARN, evidence, fix)


def _fail(evidence: str, fix: str) -> Finding:
    return Finding("", FAIL, evidence, fix)


def _user(machine: Machine) -> Finding:
    need_ordinary_user(machine.uids)
    return _ok(f"uid {os.getuid()}")


def _imports(_machine: Machine) -> Finding:
    need_own_imports_here("")
    return _ok("nothing is imported from the current directory")


def _home(machine: Machine) -> Finding:
    need_own_home(machine.environ)
    return _ok(machine.environ.get("HOME", ""))


def _runtime(machine: Machine) -> Finding:
    return _ok(f"{machine.directories.runtime}, yours alone")


def _configuration(machine: Machine) -> Finding:
    is_there = machine.configured(machine.environ)
    return _ok("config.yaml says what a run can do" if is_there else "no config.yaml: the defaults hold")


def _podman(machine: Machine) -> Finding:
    major, minor = machine.host.version
    return _ok(f"{major}.{minor}, rootless ({machine.podman})")


def _storage(machine: Machine) -> Finding:
    place, driver = str(machine.info["store"].get("graphRoot", "")), machine.host.storage_driver
    kind = _filesystem_of(place, machine.read("/proc/self/mountinfo"))
    if kind in _NOT_LOCAL:
        return _fail(
            f"podman's store {place} is on {kind}, where it cannot give files to subordinate ids",
            'write [storage] graphroot = "/a/local/directory" to ~/.config/containers/storage.conf',
        )
    if driver == "vfs":
        return _warn(
            "the driver is vfs: it copies the image for every run (5-16 s)",
            'write [storage] driver = "overlay" to ~/.config/containers/storage.conf, then: podman system reset',
        )
    return _ok(f"{driver} on {kind or 'an unknown file system'} ({place})")


def _filesystem_of(path: str, mountinfo: str) -> str:
    """The type of the file system that a path lies on, "" where it is not known."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        point = words[4].encode("ascii", "replace").decode("unicode_escape") if len(words) > 4 else ""
        within = path == point or path.startswith(f"{point.rstrip('/')}/")
        if point and within and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind


def _subordinate_ids(machine: Machine) -> Finding:
    need_subordinate_ids(machine.root)
    return _ok("a range of 65536 or more in /etc/subuid and /etc/subgid")


def _id_mappers(machine: Machine) -> Finding:
    powerless = []
    for name in ("newuidmap", "newgidmap"):
        path = machine.program(name)
        if path is None:
            return _fail(f"{name} was not found: podman cannot use subordinate ids", "sudo apt-get install uidmap")
        if not os.stat(path).st_mode & stat.S_ISUID and "security.capability" not in os.listxattr(path):
            powerless.append(path)
    if powerless:
        evidence = f"without a setuid bit and without capabilities: {', '.join(powerless)}"
        return _fail(evidence, f"sudo chmod u+s {' '.join(powerless)}")
    return _ok("newuidmap and newgidmap may map ids")


def _user_namespace(machine: Machine) -> Finding:
    said = machine.ask(machine.podman, "unshare", "cat", "/proc/self/uid_map")
    if said.code != 0:
        return _fail(
            f"no user namespace can be made: {_last_line(said.stderr) or f'podman unshare exited {said.code}'}",
            namespace_fix(machine.root) or "see what it says: podman unshare true",
        )
    lengths = [int(words[2]) for words in map(bytes.split, said.stdout.splitlines()) if len(words) == 3]
    if sum(lengths) < _LEAST_IDS:
        return _fail(
            f"podman's namespace has {sum(lengths)} ids: it was made before there was a range for it",
            "podman system migrate",
        )
    return _ok(f"podman's has {sum(lengths)} ids")


def _pause(machine: Machine) -> Finding:
    path = f"{machine.environ.get('XDG_RUNTIME_DIR', '')}/libpod/tmp/pause.pid"
    pid = machine.read(path).strip()
    name = machine.read(f"/proc/{pid}/comm").strip() if pid.isdecimal() else ""
    if not name:
        return _ok("none is kept")
    if name not in _HOLDS_NAMESPACE:
        return _fail(f"{path} names process {pid}, which is {name} and none of podman's", "podman system migrate")
    return _ok(f"process {pid} ({name})")


def _runtime_program(machine: Machine) -> Finding:
    runtime = machine.info["host"].get("ociRuntime") or {}
    name = str(runtime.get("name", ""))
    if not os.access(str(runtime.get("path", "")), os.X_OK):
        return _fail(f"podman's runtime {name or '(none)'} is not there", "sudo apt-get install crun")
    # It says so itself, once it is to start a container.
    kinds = [_filesystem_of(place, machine.read("/proc/self/mountinfo")) for place in (ROOT, _HYBRID)]
    if name == "crun" and kinds[0] != kinds[1] == "cgroup2":
        return _fail(f"crun starts nothing under hybrid control groups ({_HYBRID})", _ONE_HIERARCHY)
    return _ok(f"{name} ({runtime['path']})")


def _control_groups(machine: Machine) -> Finding:
    caps = [Limit(name, value, "built in") for name, value in BUILT_IN_CAPS.items()]
    missing = unenforced(caps, machine.host.cgroup_manager, f"{machine.root}{ROOT}")
    if not missing.names:
        return _ok("version 2, with memory, cpu and pids handed down to your user")
    return _warn(missing.sentence(), _control_group_fix(machine))


def _control_group_fix(machine: Machine) -> str:
    if not machine.read(f"{ROOT}/cgroup.controllers"):
        return _ONE_HIERARCHY
    if machine.host.cgroup_manager != SYSTEMD:
        return "log in by a session of systemd's own, or: sudo loginctl enable-linger $USER"
    return "sudo systemctl set-property user@$(id -u).service Delegate='cpu cpuset io memory pids'"


def _network(machine: Machine) -> Finding:
    return _ok(need_network(machine.host))


def _nf_tables(machine: Machine) -> Finding:
    said = machine.ask(machine.podman, "unshare", "unshare", "--net", sys.executable, "-I", "-S", "-c", _ASK_NF_TABLES)
    if said.code == 0:
        return _ok("the kernel takes rules in a namespace of yours")
    why = os.strerror(said.code) if 0 < said.code < 125 and not said.stderr else _last_line(said.stderr)
    return _fail(f"no nftables in a namespace of yours: {why}", "sudo modprobe nf_tables")


def _seccomp(machine: Machine) -> Finding:
    path = find_seccomp(machine.root)
    return _ok(path) if path else _fail("podman's seccomp profile was not found", SECCOMP_HINT)


def _selinux(machine: Machine) -> Finding:
    mode = machine.read("/sys/fs/selinux/enforce").strip()
    if mode == "1":
        return _warn("it is enforcing; containers run unconfined by it (label=disable), which nobody has tried here")
    return _ok("permissive" if mode == "0" else "not there")


def _settings(machine: Machine) -> Finding:
    found = settings_in_the_way(machine.podman_settings(), machine.host.version)
    if not found:
        return _ok("nothing in podman's settings is added to every container")
    named, fix = ", ".join(map(str, found)), f"take it out: {found[0]}"
    if found[0].counts:
        return _fail(f"every run finds what nobody asked for: {named}", fix)
    return _warn(f"a newer podman will heed what refuses every run: {named}", fix)


def _names(machine: Machine) -> Finding:
    servers = name_servers(f"{machine.root}/etc/resolv.conf")
    if not servers:
        return _warn("/etc/resolv.conf names no server: a gate will resolve nothing", "see: man resolv.conf")
    return _ok(f"a gate asks {', '.join(servers)}")


def _room(machine: Machine) -> Finding:
    place = str(machine.info["store"].get("graphRoot", ""))
    found = os.statvfs(place if os.path.isdir(place) else "/")
    is_built = bool(machine.images(SANDBOX) and machine.images(GATE))
    return room_found(found.f_bavail * found.f_frsize, place, is_built=is_built)


def room_found(free: int, place: str, *, is_built: bool) -> Finding:
    """What so many free bytes are enough for."""
    text = f"{free / (1 << 30):.1f} GB free in {place}"
    if free < _ROOM_TO_RUN:
        return _fail(text, "podman system df, then: podman image prune")
    return _ok(text) if is_built or free >= _ROOM_TO_BUILD else _warn(f"{text}: too little for a build", "make room")


def _base_image(machine: Machine) -> BaseImage:
    return parse_base_image(machine.environ.get("AISB_BASE_IMAGE") or DEFAULT_BASE)


def _base(machine: Machine) -> Finding:
    freshness, now = parse_freshness(machine.environ), time.time()
    base = _base_image(machine)
    pin = read_base_pin(machine.directories.cache, base)
    if pin is None:
        return _ok(f"{base.text}: not looked up yet")
    if pin.unpinned or (base.kind not in (BOOTSTRAP, LOCAL) and is_stale(pin, freshness, now)):
        return _warn(stale_words(pin, now), "aisb build --refresh-base")
    return _ok(f"{base.text} is {pin.digest[:19]}, looked up {age(pin, now)}")


def _images(machine: Machine) -> Finding:
    counts = {role: len(machine.images(role)) for role in (SANDBOX, GATE)}
    if all(counts.values()):
        return _ok(f"{counts[SANDBOX]} for sandboxes, {counts[GATE]} for gates")
    base = _base_image(machine)
    needed = {BOOTSTRAP: ["mmdebstrap"], LOCAL: []}.get(base.kind, ["skopeo"])
    missing = [name for name in needed if machine.program(name) is None]
    if missing:
        return _fail(f"not built yet, and {missing[0]} was not found", f"sudo apt-get install {missing[0]}")
    return _warn("not built yet: the first run builds them, in minutes", "aisb build")


def _ownership(machine: Machine) -> Finding:
    if not machine.images(SANDBOX):
        return _warn("not tried: there is no image yet", "aisb build")
    cache = make_private(machine.directories.cache)
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=cache) as directory:
        said = _in_newest(machine, SANDBOX, lambda image: ownership_argv(machine.podman, image, directory))
        if said.code in _NOT_IN_IMAGE:
            return _warn("not tried: no image of the newest has what it takes", "aisb build")
        if said.code != 0:
            return _fail(f"a container did not make a file: {_last_line(said.stderr)}", "podman system migrate")
        owner = os.stat(f"{directory}/file").st_uid
    if owner != os.getuid():
        return _fail(f"a file that is made inside belongs to uid {owner} here", "podman system migrate")
    return _ok("a file that is made inside is yours")


def _in_newest(machine: Machine, role: str, argv_of: Callable[[str], tuple[str, ...]]) -> Finished:
    """How it ended in the newest image that can: one may be built on a base that holds very little."""
    said = Finished(_NOT_IN_IMAGE[0])
    for image in machine.images(role)[:_MOST_IMAGES]:
        said = machine.ask(*argv_of(image))
        if said.code not in _NOT_IN_IMAGE:
            break
    return said


def _squid(machine: Machine) -> Finding:
    if not machine.images(GATE):
        return _warn("not tried: there is no image yet", "aisb build")
    said = _in_newest(machine, GATE, lambda image: squid_argv(machine.podman, image))
    lines = said.stdout.decode("utf-8", "replace").splitlines()
    if said.code != 0 or not any("--with-openssl" in line for line in lines):
        return _fail(f"the gate's squid has no OpenSSL: {_last_line(said.stderr) or 'it says so'}", "aisb build")
    return _ok(lines[0])


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


CHECKS = (
    Check("user", _user),
    Check("python", _imports),
    Check("home", _home),
    Check("runtime directory", _runtime),
    Check("configuration", _configuration, ("home", "runtime directory")),
    Check("podman", _podman, ("user", "home", "runtime directory")),
    Check("podman's settings", _settings, ("podman",)),
    Check("storage", _storage, ("podman",)),
    Check("subordinate ids", _subordinate_ids, ("user",)),
    Check("id mappers", _id_mappers),
    Check("user namespace", _user_namespace, ("podman",)),
    Check("pause process", _pause),
    Check("runtime", _runtime_program, ("podman",)),
    Check("control groups", _control_groups, ("podman",)),
    Check("network", _network, ("podman",)),
    Check("nf_tables", _nf_tables, ("podman", "user namespace")),
    Check("seccomp profile", _seccomp),
    Check("SELinux", _selinux),
    Check("name servers", _names),
    Check("disk space", _room, ("podman",)),
    Check("base image", _base, ("runtime directory",)),
    Check("images", _images, ("podman",)),
    Check("ownership", _ownership, ("podman", "user namespace", "runtime directory")),
    Check("squid", _squid, ("podman", "user namespace")),
)


def examine(machine: Machine, checks: tuple[Check, ...] = CHECKS) -> list[Finding]:
    """What each check finds. One whose ground is missing cannot tell, and says so: that ground is red already."""
    found: list[Finding] = []
    # The check that is red -> itself; one that cannot tell for it -> that one.
    blame: dict[str, str] = {}
    for check in checks:
        missing = next((blame[name] for name in check.needs if name in blame), "")
        finding = _unknown(check, missing) if missing else _look(check, machine)._replace(check=check.name)
        if missing or finding.level == FAIL:
            blame[check.name] = missing or check.name
        found.append(finding)
    return found


def _unknown(check: Check, missing: str) -> Finding:
    return Finding(check.name, WARN, f"not known: see {missing}")


def _look(check: Check, machine: Machine) -> Finding:
    try:
        return check.look(machine)
    except (Unavailable, UsageError) as error:
        return _fail(error.message, error.hint)
