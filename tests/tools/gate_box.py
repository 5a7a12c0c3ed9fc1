"""
A gate without podman: namespaces, a root of its own, the four capabilities and the seccomp profile, made by
hand, so that the real entrypoint, nft, squid, helper and bridge run in it, before a small internet.

`GateBox` is for tests, as root. The module run as a program is the first process of the box.
"""

from __future__ import annotations

import compileall
import contextlib
import ctypes
import json
import os
import py_compile
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, ROOT)

from aisb.domain.egress import EgressPolicy  # noqa: E402  # found by the path above
from aisb.domain.entries import parse_entry  # noqa: E402  # found by the path above
from aisb.domain.gather import gather  # noqa: E402  # found by the path above
from aisb.domain.images import GATE_PROGRAMS  # noqa: E402  # found by the path above
from aisb.effects.sealed import sealed  # noqa: E402  # found by the path above
from tests.lab.laboratory.settings import HOSTS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.domain.gather import SourcedHost
    from aisb.domain.rules import NameEntry
    from aisb.render.gate_upstream import WayOut

# The machine itself, and the laboratory's other host: squid 5.7 and 6.13.
SYSTEMS = {"debian12": "/", "debian13": str(HOSTS["debian13"].folder)}
CAPABILITIES = (6, 7, 8, 12)
LAST_CAPABILITY = 63
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "HOSTNAME": "gate.aisb.internal",
    "TERM": "xterm",
    "container": "podman",
}
# What this box is made of and podman's is not.
BOX_MOUNTS = ("/etc", "/run/aisb", "/run/squid", "/usr", "/usr/libexec", "/sys")
PROGRAMS = tuple(program.source for program in GATE_PROGRAMS if program.source.startswith("aisb/"))

PUBLIC = ("203.0.113.1", "203.0.113.10", "203.0.113.11", "203.0.113.12", "203.0.113.53")
PUBLIC6 = ("2001:db8::1", "2001:db8::10", "2001:db8::11", "2001:db8::12")
PRIVATE = ("10.0.0.5", "169.254.169.254", "192.168.1.1", "100.64.0.1", "172.16.0.1", "198.18.0.9")
PRIVATE6 = ("fd00:ec2::254", "64:ff9b::a00:5")
ZONE = {
    "allowed.test": ["203.0.113.10", "2001:db8::10"],
    "sub.allowed.test": ["203.0.113.10"],
    "evil.test": ["203.0.113.11", "2001:db8::11"],
    "cdn.test": ["203.0.113.12"],
    "v6.test": ["2001:db8::10"],
}


def allowing(*entries: str, hosts: Iterable[SourcedHost] = ()) -> EgressPolicy:
    """The policy of `--allow` entries and of hosts with rules."""
    return gather(((parse_entry(entry), "--allow") for entry in entries), hosts).policy


def run(*argv: str) -> str:
    """Run a program that has to succeed; what it printed."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def sweep() -> None:
    """Take back what worlds have left whose tests were killed."""
    for line in run("ip", "netns", "list").splitlines():
        match = re.fullmatch(r"aisb-[gi]-(\d+)-[0-9a-f]{4}", line.split()[0])
        if match and not os.path.exists(f"/proc/{match[1]}"):
            subprocess.run(["ip", "netns", "del", match[0]], check=False, stderr=subprocess.DEVNULL)


class World:
    """Two network namespaces, `gate` and `internet`, and the servers in the second."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="aisb-world-")
        suffix = f"{os.getpid()}-{os.urandom(2).hex()}"
        self.gate = f"aisb-g-{suffix}"
        self.internet = f"aisb-i-{suffix}"
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        sweep()
        try:
            self._make_namespaces()
            self.answer(ZONE)
            self._make_certificate()
            self._server = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "--",
                    "ip",
                    "netns",
                    "exec",
                    self.internet,
                    sys.executable,
                    f"{HERE}/internet.py",
                    self.directory,
                ],
                stdin=subprocess.DEVNULL,
            )
            wait_for(lambda: os.path.exists(f"{self.directory}/ready"), "the internet listens")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Take everything back."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        for name in (self.gate, self.internet):
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def answer(self, zone: dict[str, list[str]]) -> None:
        """What the name server says from now on."""
        temporary = f"{self.directory}/zone.json.new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(zone, file)
        os.replace(temporary, f"{self.directory}/zone.json")

    def seen(self) -> list[dict[str, Any]]:
        """What has reached the servers so far."""
        path = f"{self.directory}/sink.jsonl"
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def forget(self) -> None:
        """Begin a new record."""
        with contextlib.suppress(FileNotFoundError):
            os.truncate(f"{self.directory}/sink.jsonl", 0)

    def arrived(self) -> list[tuple[str, int, str]]:
        """Address, port and kind of all that has reached a server, questions for names apart."""
        return [(line["address"], line["port"], line["kind"]) for line in self.seen() if line["kind"] != "dns"]

    def asked(self) -> set[tuple[str, str]]:
        """Names and types that the name server was asked for."""
        return {(line["name"], line["type"]) for line in self.seen() if line["kind"] == "dns"}

    def reaches(self, address: str, port: int) -> bool:
        """Whether a program in the gate's network gets through to a server. To be asked before there is a gate."""
        family = "AF_INET6" if ":" in address else "AF_INET"
        program = (
            f"import socket; s = socket.socket(socket.{family}); s.settimeout(3); s.connect(({address!r}, {port}))"
        )
        return (
            subprocess.run(
                [*self.in_gate(sys.executable, "-c", program)], check=False, stderr=subprocess.DEVNULL
            ).returncode
            == 0
        )

    def certificate(self) -> str:
        """The authority that made what all servers there show."""
        with open(f"{self.directory}/ca.pem", encoding="ascii") as file:
            return file.read()

    def in_gate(self, *argv: str) -> list[str]:
        """`argv` run in the gate's network."""
        return ["ip", "netns", "exec", self.gate, *argv]

    def _make_certificate(self) -> None:
        """A certificate for all servers there, and the authority that it is from."""
        _write(f"{self.directory}/openssl.conf", "[req]\ndistinguished_name = subject\n[subject]\n")
        request = ("openssl", "req", "-x509", "-config", f"{self.directory}/openssl.conf", "-days", "30", "-nodes",
                   "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")  # fmt: skip
        authority = (f"{self.directory}/ca-key.pem", f"{self.directory}/ca.pem")
        for (key, certificate), name, extensions, signed in (
            (authority, "authority", ("basicConstraints=critical,CA:TRUE", "subjectKeyIdentifier=hash"), ()),
            (
                (f"{self.directory}/key.pem", f"{self.directory}/cert.pem"),
                "test",
                ("subjectAltName=DNS:*.test,DNS:*.allowed.test,DNS:allowed.test,DNS:evil.test,DNS:v6.test",),
                ("-CA", authority[1], "-CAkey", authority[0]),
            ),
        ):
            more = [word for extension in extensions for word in ("-addext", extension)]
            run(*request, "-subj", f"/CN={name}", *more, *signed, "-keyout", key, "-out", certificate)

    def _make_namespaces(self) -> None:
        for name in (self.gate, self.internet):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run(
            "ip", "link", "add", "out", "netns", self.gate, "type", "veth", "peer", "name", "in", "netns", self.internet
        )
        for name, device, addresses in (
            (self.gate, "out", ("203.0.113.2/24", "2001:db8::2/64")),
            (self.internet, "in", (*(f"{a}/24" for a in PUBLIC), *(f"{a}/64" for a in PUBLIC6))),
            (self.internet, "lo", (*(f"{a}/32" for a in PRIVATE), *(f"{a}/128" for a in PRIVATE6))),
        ):
            for address in addresses:
                run("ip", "-n", name, "addr", "add", address, "dev", device, *(("nodad",) if ":" in address else ()))
            run("ip", "-n", name, "link", "set", device, "up")
        run("ip", "-n", self.gate, "route", "add", "default", "via", "203.0.113.1")
        run("ip", "-n", self.gate, "-6", "route", "add", "default", "via", "2001:db8::1")


class GateBox:
    """
    One gate in a world, from its start to its end.

    `replaced` takes a protection out: (file, old, new), where the file is one of `conf`, `entrypoint`, or a
    program such as `gate/bridge.py`. `system` is the folder with the programs: a host of the laboratory.
    """

    def __init__(
        self,
        world: World,
        allowed: tuple[NameEntry, ...] | EgressPolicy,
        *,
        replaced: tuple[tuple[str, str, str], ...] = (),
        system: str = "/",
        idle_seconds: float = 600,
        capabilities: tuple[int, ...] = CAPABILITIES,
        extra_mounts: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        resolv_conf: str = "nameserver 203.0.113.53\n",
        host_addresses: tuple[str, ...] = ("203.0.113.2", "2001:db8::2"),
        way_out: WayOut | None = None,
        login: str = "",
        secrets: bytes = b"",
    ) -> None:
        self.world = world
        self._resolv_conf = resolv_conf
        self._egress = allowed if isinstance(allowed, EgressPolicy) else EgressPolicy(allowed)
        self._replaced = list(replaced)
        self._system = system
        self._idle_seconds = idle_seconds
        self._plan = {
            "capabilities": capabilities,
            "extra_mounts": extra_mounts,
            "environment": environment or ENVIRONMENT,
            "system": system,
        }
        self._host_addresses = host_addresses
        self._way_out = way_out
        self._login = login
        self._secrets = secrets
        self._process: subprocess.Popen[bytes] | None = None
        self.scratch = tempfile.mkdtemp(prefix="aisb-gate-")
        self.directory = f"{self.scratch}/g"
        self.ready = ""
        self.ready_seconds = 0.0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the gate and wait until it says that it is ready, or why not."""
        self._write_files()
        reader, writer = os.pipe()
        told, telling = os.pipe()
        if self._login:
            os.write(telling, f"{self._login}\n".encode())
        os.close(telling)
        # bash puts the descriptors where podman would.
        memory = sealed(self._secrets)
        aside = f"exec 197<&{memory} 198>&{writer} 199<&{told}; exec {memory}<&- {writer}>&- {told}<&-"
        five = "5<&197" if self._secrets else "5<&-"
        shell = f'{aside}; exec 3>&198 4<&199 {five}; exec 197<&- 198>&- 199<&-; exec "$@"'
        argv = ["bash", "-c", shell, "bash", "nsenter", f"--net=/run/netns/{self.world.gate}"]
        argv += ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        begun = time.monotonic()
        self._process = subprocess.Popen(
            [*argv, sys.executable, os.path.abspath(__file__), f"{self.scratch}/plan.json"],
            stdin=subprocess.DEVNULL,
            pass_fds=(writer, told, memory),
        )
        os.close(writer)
        os.close(told)
        os.close(memory)
        self._pipe = os.fdopen(reader, "rb", buffering=0)
        self.ready = self._pipe.readline().decode().strip()
        self.ready_seconds = time.monotonic() - begun

    def holders(self) -> set[str]:
        """The programs of the gate that still have the pipe on which it said that it is ready."""
        pipe = os.readlink(f"/proc/self/fd/{self._pipe.fileno()}")
        return {name for name, pid in self.processes().items() if pipe in _open_files(pid)}

    def close(self) -> None:
        """End the gate, whatever state it is in, and remove its files."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def wait(self, seconds: float = 10) -> int:
        """The exit status of the gate, once it has ended."""
        assert self._process is not None
        return self._process.wait(seconds)

    def log(self) -> str:
        """What the gate's programs said."""
        with open(f"{self.directory}/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def ask(self, question: dict[str, object], seconds: float = 10) -> Any:
        """One question on the control socket."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(seconds)
            control.connect(f"{self.directory}/ctl.sock")
            control.sendall(json.dumps(question).encode() + b"\n")
            return json.loads(control.makefile("rb").readline())

    def open(self, run: str = "1a2b3c4d") -> str:
        """Open a run; the path of its socket."""
        os.makedirs(f"{self.directory}/r/{run}/s", mode=0o711, exist_ok=True)
        answer = self.ask({"op": "open", "run": run})
        assert answer == {"ok": True}, answer
        return f"{self.directory}/r/{run}/s/gate.sock"

    def audit(self, run: str = "1a2b3c4d") -> list[dict[str, Any]]:
        """The run's record."""
        with open(f"{self.directory}/r/{run}/audit.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def processes(self) -> dict[str, int]:
        """The gate's own processes: `bridge`, `squid` and `helper`, and the id of each here."""
        assert self._process is not None
        parents = [line.split(None, 3) for line in run("ps", "-ww", "-eo", "pid=,ppid=,comm=,args=").splitlines()]
        ours = {self._process.pid}
        while more := {int(pid) for pid, parent, *_ in parents if int(parent) in ours} - ours:
            ours |= more
        marks = {"bridge": "gate.bridge", "helper": "gate/helper.py", "squid": "/usr/sbin/squid"}
        return {
            name: int(pid)
            for pid, _, _, args in (fields for fields in parents if len(fields) == 4)
            for name, mark in marks.items()
            if int(pid) in ours and mark in args
        }

    def _write_files(self) -> None:
        from aisb.render.argv import mount_targets
        from aisb.render.gate_files import gate_entrypoint, gate_files
        from aisb.render.seccomp import seccomp_json

        os.chmod(self.scratch, 0o755)
        with open("/usr/share/containers/seccomp.json", encoding="utf-8") as file:
            seccomp = seccomp_json(file.read())
        files = gate_files(
            egress=self._egress,
            host_addresses=self._host_addresses,
            seccomp=seccomp,
            idle_seconds=600,
            roots=self.world.certificate(),
            way_out=self._way_out,
        )
        files["idle"] = f"{self._idle_seconds}\n"
        files["mounts"] = mount_targets(BOX_MOUNTS)
        programs = f"{self.scratch}/libexec/aisb"
        shutil.copytree(f"{ROOT}/gate", f"{programs}/gate", ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
        for name in PROGRAMS:
            os.makedirs(os.path.dirname(f"{programs}/{name}"), exist_ok=True)
            shutil.copy(f"{ROOT}/{name}", f"{programs}/{name}")
        os.makedirs(f"{self.directory}/conf")
        os.makedirs(f"{self.directory}/r", mode=0o711)
        texts = {f"{self.directory}/conf/{name}": text for name, text in files.items()}
        texts[f"{programs}/entrypoint"] = gate_entrypoint()
        for path, text in texts.items():
            _write(path, text)
        for name, old, new in self._replaced:
            path = f"{self.directory}/conf/{name}" if name in files else f"{programs}/{name}"
            with open(path, encoding="utf-8") as file:
                text = file.read()
            assert old in text, f"{old!r} is not in {name}"
            _write(path, text.replace(old, new))
        os.chmod(f"{programs}/entrypoint", 0o755)
        if self._system == "/":
            compileall.compile_dir(programs, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        _write(f"{self.scratch}/resolv.conf", self._resolv_conf)
        _write(f"{self.scratch}/seccomp.json", seccomp)
        _write(f"{self.scratch}/plan.json", json.dumps(self._plan))


def _open_files(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def wait_for(condition: Any, what: str, seconds: float = 10) -> None:
    """Wait until `condition()` holds."""
    for _ in poll(seconds):
        if condition():
            return
    raise AssertionError(f"not within {seconds} s: {what}")


def poll(seconds: float) -> Iterator[None]:
    """Come back every hundredth of a second, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.01)


# --- the first process of a box -------------------------------------------------------------------


def _mount(*argv: str) -> None:
    subprocess.run(["mount", *argv], check=True)


def _enter_root(plan: dict[str, Any], scratch: str) -> None:
    root = f"{scratch}/root"
    system = plan["system"].rstrip("/")
    os.mkdir(root)
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for name in ("usr", "etc", "proc", "sys", "dev", "run/aisb", "run/squid", "tmp", "old", "root"):
        os.makedirs(f"{root}/{name}")
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink(f"usr/{name}", f"{root}/{name}")
    for name in ("usr", "etc"):
        _mount("--bind", f"{system}/{name}", f"{root}/{name}")
    _mount("--bind", f"{scratch}/resolv.conf", f"{root}/etc/resolv.conf")
    _mount("--rbind", "/dev", f"{root}/dev")
    # A gate of its own has its own: two squids that begin at once would meet there.
    _mount("-t", "tmpfs", "-o", "nosuid,nodev,noexec,size=64m,mode=1777", "tmpfs", f"{root}/dev/shm")
    _mount("--bind", f"{scratch}/libexec", f"{root}/usr/libexec")
    _mount("--bind", f"{scratch}/g", f"{root}/run/aisb")
    _mount("-t", "tmpfs", "-o", "nosuid,nodev,noexec,size=1m,mode=1777", "tmpfs", f"{root}/run/squid")
    _mount("-t", "proc", "proc", f"{root}/proc")
    _mount("-t", "sysfs", "-o", "ro", "sysfs", f"{root}/sys")
    for target in plan["extra_mounts"]:
        os.makedirs(root + target, exist_ok=True)
        _mount("-t", "tmpfs", "tmpfs", root + target)
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "old"], check=True)
    os.chdir("/")
    # As often as something is mounted there: the old root may have been covered itself.
    while not subprocess.run(["umount", "-l", "/old"], check=False, stderr=subprocess.DEVNULL).returncode:
        pass
    os.rmdir("/old")
    _mount("-o", "remount,ro", "/")


def main() -> None:
    """Make the box and become its entrypoint."""
    from tests.tools.confine import confine

    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    scratch = os.path.dirname(sys.argv[1])
    with open(f"{scratch}/seccomp.json", encoding="utf-8") as file:
        profile = json.load(file)
    # Found here, before the root changes: the box may be another system.
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.CDLL("libseccomp.so.2")
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="utf-8") as setting:
        setting.write("0")
    _enter_root(plan, scratch)
    for number in range(LAST_CAPABILITY + 1):
        if number not in plan["capabilities"]:
            libc.prctl(24, number, 0, 0, 0)
    confine(profile)
    os.execve("/usr/libexec/aisb/entrypoint", ["/usr/libexec/aisb/entrypoint"], plan["environment"])


if __name__ == "__main__":
    main()
