"""The virtual machine as a test sees it: started, and told by ssh what to run."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from tests.e2e.lab import Result
from tests.vm.disks import ACCOUNT, ADDRESS, KEY, PLACE, Disks, need_disks

if TYPE_CHECKING:
    from collections.abc import Iterator

BOOT_SECONDS = 900
RUN_SECONDS = 600
CONSOLE = PLACE / "console.log"
# On a busy machine a disk is found after more than the minute and a half that systemd waits for one.
_PATIENT = f"systemd.default_device_timeout_sec={BOOT_SECONDS} systemd.default_timeout_start_sec={BOOT_SECONDS}"
# What aisb asks podman about the host is kept; the first time, from a cold disk, it takes longer here than aisb waits.
_FIRST = """
import sys
from aisb.cli.main import main
from aisb.effects import host
host._PROBE_SECONDS = 600.0
sys.exit(main(["-q", "--net", "none", "--no-cwd", "--ephemeral-home", "--", "true"]))
"""


class Machine:
    """A machine that runs. Commands are texts for `sh -c`, run as the account, in its home."""

    def __init__(self, port: int) -> None:
        options = {
            "IdentityFile": str(KEY), "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR", "ConnectTimeout": "20", "Port": str(port), "BatchMode": "yes",
        }  # fmt: skip
        self._ssh = (
            "ssh",
            "-F",
            "none",
            *(f"-o{key}={value}" for key, value in options.items()),
            f"{ACCOUNT}@127.0.0.1",
        )

    def run(self, command: str, *, timeout: float = RUN_SECONDS) -> Result:
        """Run a command to its end."""
        began = time.monotonic()
        argv = (*self._ssh, command)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def aisb(self, flags: str, *command: str) -> Result:
        """Run a command in a sandbox, in a fresh project. What came of it is shown by `pytest -s`."""
        result = self.run(_in_a_sandbox(flags, command))
        _show(flags, command, result.text, result.errors, result.code)
        return result

    @contextlib.contextmanager
    def start_aisb(self, flags: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start one with pipes to it; at the end of the block nobody listens to it any more."""
        pipe = subprocess.PIPE
        argv = (*self._ssh, f"echo $$ >~/started; {_in_a_sandbox(flags, command)}")
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                yield process
            finally:
                process.kill()

    def end_aisb(self) -> None:
        """Tell the one that was started to end, as its user would."""
        assert self.run("kill -TERM $(cat ~/started)").code == 0


def _in_a_sandbox(flags: str, command: tuple[str, ...]) -> str:
    return f'cd "$(mktemp --directory --tmpdir=$HOME p.XXXX)" && exec aisb {flags} -- {shlex.join(command)}'


def _show(flags: str, command: tuple[str, ...], text: str, errors: str, code: int) -> None:
    last = command[-1] if "\n" not in command[-1] else "..."
    print(f"\n$ aisb {flags} -- {shlex.join((*command[:-1], last))}\n{text}{errors}(exit code {code})")


@contextlib.contextmanager
def started() -> Iterator[Machine]:
    """A machine with two processors and 3 GB of memory; what it writes to its disks is gone with it."""
    disks = need_disks()
    port = _free_port()
    CONSOLE.unlink(missing_ok=True)
    CONSOLE.touch()
    argv = ("setpriv", "--pdeathsig", "KILL", "--", *_argv(disks, port))
    with (PLACE / "qemu.log").open("w") as log:
        qemu = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"TMPDIR": str(PLACE)}
        )
    try:
        machine = Machine(port)
        _wait(machine, qemu)
        first = machine.run(f"~/venv/bin/python -I -c {shlex.quote(_FIRST)}", timeout=BOOT_SECONDS)
        assert first.code == 0, first.errors
        yield machine
    finally:
        qemu.kill()
        qemu.wait()


def _argv(disks: Disks, port: int) -> tuple[str, ...]:
    return (
        "qemu-system-x86_64",
        # Emulated: it runs where there is no /dev/kvm, as in most laboratories.
        "-accel", "tcg,thread=multi",
        "-cpu", "max", "-smp", "2", "-m", "3072",
        "-nodefaults", "-no-user-config", "-display", "none", "-serial", f"file:{CONSOLE}",
        "-kernel", str(disks.kernel), "-initrd", str(disks.initrd), "-append", f"root=/dev/vda rw console=ttyS0 {_PATIENT}",
        *(word for disk in (disks.system, disks.home) for word in (
            "-drive", f"file={disk},format=raw,if=virtio,snapshot=on")),
        # Nothing outside can be reached from in there.
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-{ADDRESS}:22",
        "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
    )  # fmt: skip


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait(machine: Machine, qemu: subprocess.Popen[bytes]) -> None:
    """Until somebody can log in."""
    deadline = time.monotonic() + BOOT_SECONDS
    while (answer := machine.run("systemctl is-system-running --wait")).text.strip() != "running":
        is_stuck = b"emergency mode" in CONSOLE.read_bytes()
        if is_stuck or qemu.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the machine does not start: {answer.errors} {answer.text}; see {CONSOLE}")
