"""
A sandbox without podman: namespaces, a root of its own, the four capabilities and the seccomp profile,
made by hand, so that the real entrypoint, nft, ip, relay and launcher run in it.

`run_box` is for tests. The module run as a program is the first process of the box.
"""

from __future__ import annotations

import compileall
import contextlib
import ctypes
import fcntl
import json
import os
import py_compile
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pexpect.fdpexpect import fdspawn

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, ROOT)

PODMAN_SECCOMP = "/usr/share/containers/seccomp.json"
CAPABILITIES = (6, 7, 8, 12)
LAST_CAPABILITY = 63
HOME = "/home/sandbox"
# What podman puts there.
ENTRYPOINT_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "HOSTNAME": "sandbox",
    "TERM": "xterm",
    "container": "podman",
}
# What this box is made of and podman's is not.
BOX_MOUNTS = ("/etc", "/run/aisb", "/usr", "/usr/libexec", "/sys")
VARIABLES = {
    b"HOME": HOME.encode(),
    b"PATH": b"/usr/local/bin:/usr/bin:/bin",
    b"USER": b"sandbox",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What differs between one box and the next. The defaults are what aisb would give."""

    command: tuple[str | bytes, ...]
    mode: str = "allow"
    gate: str | None = None
    variables: bytes | None = None
    environment: dict[str, str] = field(default_factory=lambda: dict(ENTRYPOINT_ENVIRONMENT))
    capabilities: tuple[int, ...] = CAPABILITIES
    has_seccomp: bool = True
    has_no_new_privileges: bool = True
    expected_mounts: tuple[str, ...] = ()
    extra_mounts: tuple[str, ...] = ()
    programs: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    before: str = ""
    has_v6: bool = True
    has_descriptors: bool = True
    replaced: tuple[tuple[str, str, str], ...] = ()
    home_owner: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a box ended."""

    code: int
    stdout: bytes
    stderr: str
    phases: list[str]


def run_box(box: Box, timeout_seconds: float = 30.0, stdin: int | None = None) -> Ended:
    """Run `box.command` in a box, to its end."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        process, phases = start_box(box, scratch, stdin=stdin)
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        finally:
            end_box(process)
        with os.fdopen(phases, "rb") as file:
            lines = file.read().decode().splitlines()
    return Ended(code=process.returncode, stdout=stdout, stderr=stderr.decode("utf-8", "replace"), phases=lines)


@contextlib.contextmanager
def terminal_box(box: Box, rows: int, columns: int) -> Iterator[tuple[fdspawn, subprocess.Popen[bytes]]]:
    """A box on a terminal of its own, and what a person at it would see."""
    screen, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        process, phases = start_box(box, scratch, stdin=terminal, output=terminal)
        os.close(terminal)
        try:
            yield watch_screen(screen), process
        finally:
            end_box(process)
            os.close(screen)
            os.close(phases)


def end_box(process: subprocess.Popen[bytes]) -> None:
    """
    End a box, whatever it is doing.

    Its first process is killed, and with it all others: the death signal that unshare asks for is
    forgotten when a process changes its user.
    """
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file,
    ):
        for child in file.read().split():
            os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.communicate()


def watch_screen(screen: int) -> fdspawn:
    """What reads and types at the other end of a terminal. The first process of a box does without its library."""
    from pexpect.fdpexpect import fdspawn

    return fdspawn(screen, timeout=30)


def start_box(
    box: Box, scratch: str, stdin: int | None = None, output: int = subprocess.PIPE
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a box; its files lie in `scratch`. Returns the process and the reading end of the phases."""
    variables = os.memfd_create("variables")
    block = box.variables
    if block is None:
        block = b"".join(name + b"=" + value + b"\0" for name, value in VARIABLES.items())
    os.write(variables, block)
    reader, writer = os.pipe()
    # Out of the way of 3 and 4, where the first process of the box will put them.
    variables, writer = _high(variables), _high(writer)
    plan = _write_plan(box, scratch, (variables, writer))
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user", "--map-auto"]
    argv = ["unshare", *user, "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    process = subprocess.Popen(
        [*argv, sys.executable, os.path.abspath(__file__), plan, *box.command],
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=output,
        stderr=output,
        pass_fds=(variables, writer),
        start_new_session=True,
    )
    os.close(variables)
    os.close(writer)
    return process, reader


def _high(descriptor: int) -> int:
    """The same file under a number that is out of the way of 3 and 4."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return high


def _write_plan(box: Box, scratch: str, descriptors: tuple[int, int]) -> str:
    from aisb.render.argv import mount_targets
    from aisb.render.sandbox import entrypoint, ruleset
    from aisb.render.seccomp import seccomp_json

    session = os.path.join(scratch, "session")
    os.makedirs(os.path.join(session, "gate"))
    programs = os.path.join(scratch, "libexec", "aisb")
    shutil.copytree(os.path.join(ROOT, "gate"), os.path.join(programs, "gate"), ignore=shutil.ignore_patterns("*.pyc"))
    text = entrypoint()
    for file, old, new in box.replaced:
        if file == "entrypoint":
            assert old in text
            text = text.replace(old, new)
        else:
            path = os.path.join(programs, file)
            with open(path, encoding="utf-8") as source:
                program = source.read()
            assert old in program
            _write(path, program.replace(old, new))
    compileall.compile_dir(programs, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    _write(os.path.join(programs, "entrypoint"), text)
    os.chmod(os.path.join(programs, "entrypoint"), 0o755)
    with open(PODMAN_SECCOMP, encoding="utf-8") as profile:
        _write(os.path.join(scratch, "seccomp.json"), seccomp_json(profile.read()))
    gate = ("/run/aisb/gate",) if box.gate else ()
    own = {
        "mode": f"{box.mode}\n",
        "sandbox.nft": box.files.get("sandbox.nft") or ruleset(box.mode),
        "mounts": mount_targets(
            (*BOX_MOUNTS, *gate, *(f"/usr/sbin/{name}" for name in box.programs), *box.expected_mounts)
        ),
        **box.files,
    }
    for name, content in own.items():
        _write(os.path.join(session, name), content)
    for name, content in box.programs.items():
        _write(os.path.join(scratch, name), content)
        os.chmod(os.path.join(scratch, name), 0o755)
    plan = os.path.join(scratch, "plan.json")
    fields = ("environment", "capabilities", "has_seccomp", "has_no_new_privileges", "extra_mounts", "before", "gate",
              "has_v6", "home_owner", "has_descriptors")  # fmt: skip
    _write(
        plan,
        json.dumps(
            {name: getattr(box, name) for name in fields} | {"programs": list(box.programs), "descriptors": descriptors}
        ),
    )
    return plan


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# --- the first process of a box -------------------------------------------------------------------


def _mount(*argv: str) -> None:
    subprocess.run(["mount", *argv], check=True, close_fds=True)


def _enter_root(plan: dict[str, Any], scratch: str) -> None:
    root = os.path.join(scratch, "root")
    os.mkdir(root)
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for name in (
        "usr",
        "etc",
        "proc",
        "sys",
        "dev",
        "run/aisb",
        "run/user/1000",
        "tmp",
        "project",
        "old",
        HOME[1:],
        "root",
    ):
        os.makedirs(os.path.join(root, name))
    for target in plan["extra_mounts"]:
        os.makedirs(root + target, exist_ok=True)
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    os.chown(os.path.join(root, "project"), 1000, 1000)
    os.chown(os.path.join(root, HOME[1:]), plan["home_owner"], 1000)
    os.chown(os.path.join(root, "run/user/1000"), 1000, 1000)
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink(f"usr/{name}", os.path.join(root, name))
    for name in ("usr", "etc"):
        _mount("--bind", f"/{name}", f"{root}/{name}")
    _mount("--rbind", "/dev", f"{root}/dev")
    _mount("--bind", os.path.join(scratch, "libexec"), f"{root}/usr/libexec")
    _mount("--bind", os.path.join(scratch, "session"), f"{root}/run/aisb")
    if plan["gate"]:
        _mount("--bind", plan["gate"], f"{root}/run/aisb/gate")
    for name in plan["programs"]:
        _mount("--bind", os.path.join(scratch, name), f"{root}/usr/sbin/{name}")
    _mount("-t", "proc", "proc", f"{root}/proc")
    _mount("-t", "sysfs", "-o", "ro", "sysfs", f"{root}/sys")
    for target in plan["extra_mounts"]:
        _mount("-t", "tmpfs", "tmpfs", root + target)
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "old"], check=True)
    os.chdir("/")
    # More than one thing may be mounted on the machine's root.
    while os.path.ismount("/old"):
        subprocess.run(["umount", "-l", "/old"], check=True)
    os.rmdir("/old")
    os.chdir("/project")


def main() -> None:
    """Make the box and become its entrypoint."""
    from tests.tools.confine import confine

    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    scratch = os.path.dirname(sys.argv[1])
    with open(os.path.join(scratch, "seccomp.json"), encoding="utf-8") as file:
        profile = json.load(file)
    if os.isatty(0):
        # As the container's runtime does: the first process leads the session of its terminal.
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _enter_root(plan, scratch)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="utf-8") as file:
        file.write("0")
    if not plan["has_v6"]:
        with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="utf-8") as file:
            file.write("1")
    if plan["before"]:
        subprocess.run(["sh", "-euc", plan["before"]], check=True)
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(LAST_CAPABILITY + 1):
        if number not in plan["capabilities"]:
            libc.prctl(24, number, 0, 0, 0)
    if plan["has_seccomp"]:
        confine(profile)
    elif plan["has_no_new_privileges"]:
        libc.prctl(38, 1, 0, 0, 0)
    for number, descriptor in zip((3, 4), plan["descriptors"], strict=True):
        if plan["has_descriptors"]:
            os.dup2(descriptor, number)
        os.close(descriptor)
    command = [os.fsencode(word) for word in sys.argv[2:]]
    os.execve("/usr/libexec/aisb/entrypoint", [b"/usr/libexec/aisb/entrypoint", *command], plan["environment"])


if __name__ == "__main__":
    main()
