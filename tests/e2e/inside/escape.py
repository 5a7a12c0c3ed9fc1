"""
Runs inside a sandbox as its command: everything that it may not do, tried, and how each attempt ended.

Prints one JSON object. Only the standard library; `--net allow` with allowed.test in the list.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GATE = "/run/aisb/gate/gate.sock"
STATUS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
EVIL = ("203.0.113.11", "2001:db8::11")

libc = ctypes.CDLL(None, use_errno=True)
# The numbers on x86-64 and on 64-bit Arm: the C library has no function for these, or refuses them itself.
NUMBERS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fchmodat2": (452, 452),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "setns": (308, 268),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
NAMESPACES = {
    "CLONE_NEWNS": 0x20000,
    "CLONE_NEWCGROUP": 0x2000000,
    "CLONE_NEWUTS": 0x4000000,
    "CLONE_NEWIPC": 0x8000000,
    "CLONE_NEWUSER": 0x10000000,
    "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}
FAMILIES = {
    "AF_AX25": 3, "AF_KEY": 15, "AF_PACKET": 17, "AF_CAN": 29, "AF_TIPC": 30, "AF_BLUETOOTH": 31, "AF_ALG": 38,
    "AF_VSOCK": 40, "AF_QIPCRTR": 42, "AF_XDP": 44,
}  # fmt: skip


def call(name: str, *arguments: Any) -> str:
    """What the kernel says to a system call."""
    number = NUMBERS[name][platform.machine() == "aarch64"]
    ctypes.set_errno(0)
    padded = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = libc.syscall(ctypes.c_long(number), *padded)
    if name == "clone" and result == 0:
        os._exit(0)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"


def attempt(action: Callable[[], object]) -> str:
    """The name of the error that the action ends in, or `done`."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return "done"


def program(*argv: str) -> str:
    """Whether a program succeeds, fails, or is not there."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except FileNotFoundError:
        return "missing"
    except PermissionError:
        return "EACCES"
    return "done" if done.returncode == 0 else "failed"


def status_of(process: int | str) -> list[str]:
    """Who a process is and what it may do."""
    with open(f"/proc/{process}/status", encoding="utf-8") as file:
        return read_status(file.read())


def read_status(text: str) -> list[str]:
    """The lines of a `status` that matter, in the order of STATUS."""
    lines = dict(line.split(":", 1) for line in text.splitlines())
    return [" ".join(lines[name].split()) for name in STATUS]


def command_line(process: int) -> str:
    """A process's arguments."""
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode(errors="replace")


def find_relay() -> int:
    """The relay's process id."""
    return next(int(name) for name in os.listdir("/proc") if name.isdigit() and "gate.relay" in command_line(int(name)))


def dial(address: str, port: int, kind: int = socket.SOCK_STREAM) -> str:
    """How far a connection to an address gets: an error, or what comes back for a request."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as client:
        client.settimeout(5)
        try:
            client.connect((address, port))
            client.sendall(b"GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n")
            return client.recv(12).decode(errors="replace")
        except TimeoutError:
            return "nothing"
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, "?")


def ask_gate(line: str) -> str:
    """The first line that the gate answers."""
    with socket.socket(socket.AF_UNIX) as gate:
        gate.settimeout(10)
        gate.connect(GATE)
        gate.sendall(line.encode() + b"\r\n\r\n")
        return gate.recv(4096).partition(b"\r\n")[0].decode()


def reach() -> dict[str, str]:
    """What can be reached: nothing of evil.test's by its address, allowed.test without any proxy variable."""
    curl = ("curl", "-sS", "--noproxy", "*", "--max-time", "20", "https://allowed.test/")
    bare = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    found = subprocess.run(curl, env=bare, capture_output=True, text=True, check=False).stdout
    tries = {f"{address} {port}": dial(address, port) for address in EVIL for port in (22, 80, 443, 8443)}
    tries |= {f"{address} udp": dial(address, 443, socket.SOCK_DGRAM) for address in EVIL}
    return {
        "allowed.test": found,
        **tries,
        "RESOLVE evil.test": ask_gate("RESOLVE evil.test AISB/1"),
        "CONNECT evil.test": ask_gate("CONNECT evil.test:443 HTTP/1.1"),
    }


def undo_the_rules() -> dict[str, str]:
    """Programs that change routes, rules and kernel settings."""
    nft, ip = "/usr/sbin/nft", "/usr/sbin/ip"
    tries = [
        (nft, "flush", "ruleset"),
        (nft, "delete", "table", "inet", "aisb"),
        (nft, "insert rule inet aisb guard accept"),
        (nft, "add", "table", "inet", "mine"),
        (ip, "route", "flush", "table", "local"),
        (ip, "route", "add", "default", "dev", "lo"),
        (ip, "rule", "add", "from", "all", "lookup", "main"),
        (ip, "link", "set", "lo", "down"),
        (ip, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1"),
        (ip, "link", "add", "name", "d0", "type", "dummy"),
        (ip, "addr", "add", "203.0.113.77/24", "dev", "lo"),
        (ip, "netns", "add", "mine"),
        ("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
        ("sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet"),
        ("sh", "-c", "echo 1 >/proc/sys/kernel/ns_last_pid"),
        ("sh", "-c", "echo b >/proc/sysrq-trigger"),
    ]
    return {" ".join(argv): program(*argv) for argv in tries}


def fresh_namespaces() -> dict[str, str]:
    """Ways to namespaces and mounts of one's own, or into another's."""
    tries = {f"unshare {name}": call("unshare", flag) for name, flag in NAMESPACES.items()}
    tries |= {f"clone {name}": call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0) for name, flag in NAMESPACES.items()}
    with open("/proc/1/ns/net", encoding="ascii") as other:
        tries["setns"] = call("setns", other.fileno(), 0)
    tries["clone3"] = call("clone3", ctypes.create_string_buffer(64), 64)
    tries["openat2"] = call("openat2", -100, b"/etc/passwd", ctypes.create_string_buffer(24), 24)
    tries["mount tmpfs on /etc"] = call("mount", b"none", b"/etc", b"tmpfs", 0, 0)
    tries["mount --bind /proc"] = call("mount", b"/proc", b"/project", b"", 4096, 0)
    tries["mount -o remount,rw /run/aisb"] = call("mount", b"", b"/run/aisb", b"", 32 | 4096, 0)
    tries["umount /run/aisb"] = call("umount2", b"/run/aisb", 2)
    tries["pivot_root"] = call("pivot_root", b"/project", b"/project")
    tries["chroot"] = call("chroot", b"/project")
    for name in ("open_tree", "fsopen", "move_mount", "mount_setattr", "bpf", "perf_event_open", "keyctl", "add_key"):
        tries[name] = call(name, 0, 0, 0, 0, 0)
    for name in ("request_key", "io_uring_setup", "userfaultfd"):
        tries[name] = call(name, 1, 0, 0, 0)
    tries["unshare -Urn nft flush ruleset"] = program("unshare", "-Urn", "/usr/sbin/nft", "flush", "ruleset")
    tries["nsenter -t 1 -n"] = program("nsenter", "-t", "1", "-n", "true")
    return tries


def sockets() -> dict[str, str]:
    """Sockets that pass by every rule, or bring a kernel's worth of code within reach."""
    tries: dict[str, str] = {}
    for name, number in FAMILIES.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            ended = attempt(lambda number=number, kind=kind: socket.socket(number, kind).close())  # type: ignore[misc]  # mypy infers no lambda with defaults
            tries[name] = ended if tries.get(name, ended) == ended else f"{tries[name]} {ended}"
    raw = {"raw IPv4": (socket.AF_INET, 1), "raw IPv6": (socket.AF_INET6, 58), "raw any": (socket.AF_INET, 255)}
    for name, (family, protocol) in raw.items():
        tries[name] = attempt(lambda f=family, p=protocol: socket.socket(f, socket.SOCK_RAW, p).close())  # type: ignore[misc]  # mypy infers no lambda with defaults
    tries["ping socket"] = attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).close())
    for number, name in ((3, "selinux"), (6, "xfrm"), (9, "audit"), (21, "rdma")):
        ended = attempt(lambda n=number: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, n).close())  # type: ignore[misc]  # mypy infers no lambda with defaults
        tries[f"netlink {name}"] = ended
    return tries


def privileges() -> dict[str, Any]:
    """Set-id copies and devices: what became of them, and as whom a copy runs."""
    here = os.getcwd()
    copy = f"{here}/id"
    with open("/usr/bin/id", "rb") as source, open(copy, "wb") as target:
        target.write(source.read())
    os.chmod(copy, 0o755)
    flags = os.O_CREAT | os.O_WRONLY
    tries: dict[str, Any] = {
        "chmod u+s": attempt(lambda: os.chmod(copy, 0o4755)),
        "chmod g+s": attempt(lambda: os.chmod(copy, 0o2755)),
        "fchmod u+s": attempt(lambda: os.fchmod(os.open(copy, os.O_RDONLY), 0o4755)),
        "fchmodat2 u+s": call("fchmodat2", -100, copy.encode(), 0o4755, 0),
        "open u+s": attempt(lambda: os.open(f"{here}/new", flags, 0o4755)),
        "mknod u+s": attempt(lambda: os.mknod(f"{here}/made", stat.S_IFREG | 0o4755)),
        "mknod device": attempt(lambda: os.mknod(f"{here}/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))),
        "chown": attempt(lambda: os.chown(copy, 0, 0)),
        "setuid": attempt(lambda: os.setuid(0)),
        "setgroups": attempt(lambda: os.setgroups([0])),
    }
    tries["mode of the copy"] = f"{stat.S_IMODE(os.stat(copy).st_mode):04o}"
    tries["runs as"] = subprocess.run((copy, "-u"), capture_output=True, text=True, check=False).stdout
    tries["su"] = program("su", "-c", "true")
    search = ("find", "/", "-xdev", "-type", "f", "-perm", "/6000")
    tries["set-id files"] = subprocess.run(search, capture_output=True, text=True, check=False).stdout
    return tries


def the_relay(relay: int) -> dict[str, str]:
    """What can be done to the relay."""
    tries = {
        name: attempt(lambda n=name: os.kill(relay, getattr(signal, n)))  # type: ignore[misc]  # mypy infers no lambda with defaults
        for name in ("SIGTERM", "SIGKILL", "SIGSTOP", "SIGHUP")
    }
    tries |= {
        "prlimit": attempt(lambda: resource.prlimit(relay, resource.RLIMIT_NOFILE, (3, 3))),
        "ptrace": call("ptrace", 16, relay, 0, 0),
        "process_vm_readv": read_memory(relay),
        "fd": attempt(lambda: os.listdir(f"/proc/{relay}/fd")),
        "mem": attempt(lambda: os.open(f"/proc/{relay}/mem", os.O_RDWR)),
        "environ": attempt(lambda: open(f"/proc/{relay}/environ", "rb").read()),  # noqa: SIM115  # this process ends soon
        "root": attempt(lambda: os.listdir(f"/proc/{relay}/root/")),
    }
    for port in (3128, 3129, 3130):
        tries[f"bind {port}"] = attempt(lambda p=port: take_port(p))  # type: ignore[misc]  # mypy infers no lambda with defaults
    return tries


def read_memory(process: int) -> str:
    """Read a page of another process; whether there is one is looked at after whether one may."""
    with open("/proc/self/maps", encoding="ascii") as file:
        start = int(file.readline().partition("-")[0], 16)
    page = ctypes.create_string_buffer(4096)
    mine = (ctypes.c_size_t * 2)(ctypes.addressof(page), 4096)
    theirs = (ctypes.c_size_t * 2)(start, 4096)
    return call("process_vm_readv", process, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)


def take_port(port: int) -> None:
    """Listen beside, or instead of, the relay."""
    with socket.socket() as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        mine.bind(("127.0.0.1", port))
        mine.listen()


def the_gate() -> dict[str, str]:
    """What can be done to the gate's socket and to the files that aisb mounted."""
    directory = os.path.dirname(GATE)

    def bind() -> None:
        with socket.socket(socket.AF_UNIX) as mine:
            mine.bind(f"{directory}/other.sock")

    tries = {
        "unlink": lambda: os.unlink(GATE),
        "rename": lambda: os.rename(GATE, f"{directory}/old"),
        "bind beside": bind,
        "chmod": lambda: os.chmod(GATE, 0),
        "link": lambda: os.symlink("/tmp/x", f"{directory}/x"),
        "rmdir": lambda: os.rmdir(directory),
        "policy.json": lambda: os.open("/run/aisb/policy.json", os.O_WRONLY),
        "sandbox.nft": lambda: os.unlink("/run/aisb/sandbox.nft"),
        "/etc/resolv.conf": lambda: os.open("/etc/resolv.conf", os.O_WRONLY),
        "/etc/passwd": lambda: os.open("/etc/passwd", os.O_WRONLY),
        "/etc/hosts": lambda: os.open("/etc/hosts", os.O_WRONLY),
        "/usr/libexec/aisb": lambda: os.open("/usr/libexec/aisb/x", os.O_CREAT | os.O_WRONLY),
        "/usr/bin": lambda: os.open("/usr/bin/x", os.O_CREAT | os.O_WRONLY),
        "/sys": lambda: os.mkdir("/sys/fs/cgroup/x"),
    }
    return {name: attempt(action) for name, action in tries.items()}


def own_servers() -> dict[str, str]:
    """Servers of one's own on ports below 1024: each answers its own client."""
    tries = {}
    for address, port, to in (
        ("127.0.0.1", 80, "127.0.0.1"),
        ("127.0.0.1", 443, "127.0.0.1"),
        ("0.0.0.0", 81, "127.0.0.1"),
        ("::1", 80, "::1"),
        ("::", 444, "::1"),
        ("127.0.0.1", 53, "127.0.0.1"),
        ("127.0.0.2", 22, "127.0.0.2"),
    ):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as server:
            ended = attempt(lambda s=server, a=address, p=port: s.bind((a, p)))  # type: ignore[misc]  # mypy infers no lambda with defaults
            if ended == "done":
                server.listen()
                with socket.create_connection((to, port), 5) as client:
                    served = server.accept()[0]
                    served.sendall(b"mine")
                    ended = client.recv(4).decode()
                    served.close()
        tries[f"{address} {port}"] = ended
    return tries


def no_trace_outside() -> dict[str, Any]:
    """What of the host is in sight."""
    processes = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    with open("/proc/net/unix", encoding="utf-8") as file:
        bound = sorted(line.split()[7] for line in file.read().splitlines()[1:] if len(line.split()) > 7)
    with open("/proc/net/dev", encoding="ascii") as file:
        devices = sorted(line.partition(":")[0].strip() for line in file.read().splitlines()[2:])
    return {
        "users": sorted({status_of(process)[0].split()[0] for process in processes}),
        "bound unix sockets": bound,
        "devices": devices,
        "gate's directory": os.listdir(os.path.dirname(GATE)),
        "/dev": sorted(os.listdir("/dev")),
    }


def main() -> None:
    """Try everything, and look before and after at what can be reached."""
    relay = find_relay()
    before = reach()
    started = time.monotonic()
    report: dict[str, Any] = {
        "status": {
            "the command": status_of("self"),
            "a child": read_status(subprocess.check_output(("cat", "/proc/self/status"), text=True)),
            "the init": status_of(1),
            "the relay": status_of(relay),
        },
        "rules": undo_the_rules(),
        "namespaces": fresh_namespaces(),
        "sockets": sockets(),
        "privileges": privileges(),
        "relay": the_relay(relay),
        "gate": the_gate(),
        "own servers": own_servers(),
        "in sight": no_trace_outside(),
    }
    report["seconds"] = time.monotonic() - started
    report["before"], report["after"] = before, reach()
    report["relay is the same"] = relay == find_relay()
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
