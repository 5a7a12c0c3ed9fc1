"""
What the laboratory needs of the machine: packages, an unprivileged account, two open devices.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from laboratory.settings import ACCOUNT, HOME, MACHINE_PACKAGES, LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLICY = Path("/usr/sbin/policy-rc.d")
"""What Debian's packages ask whether a service may be started."""


def say(text: str) -> None:
    """
    The laboratory's own words go to stderr: stdout belongs to the command.
    """
    print(f"lab: {text}", file=sys.stderr, flush=True)


def output(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{' '.join(argv)} exited {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def need_root() -> None:
    if os.geteuid() != 0:
        raise LabError(
            "the laboratory needs root: it makes namespaces and an account (as a user, run the tests directly)"
        )


def codename() -> str:
    match = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    return match[1] if match else ""


def install_packages(names: Sequence[str] = MACHINE_PACKAGES) -> None:
    """
    Install what is missing, with the machine's own apt and its own sources.
    """
    shown = subprocess.run(
        ("dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *names),
        capture_output=True,
        text=True,
    ).stdout
    present = {line.split()[0] for line in shown.splitlines() if line.endswith(" installed")}
    if missing := [name for name in names if name not in present]:
        say(f"installing {' '.join(missing)}")
        apt = ("apt-get", "-q", "-o", "DPkg::Lock::Timeout=300")
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        with _no_services():
            for step in (("update",), ("install", "--yes", "--no-install-recommends", *missing)):
                argv = (*apt, *step)
                if subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment).returncode:
                    raise LabError(f"apt-get {step[0]} failed; see above")


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """
    A package that starts a service when it is installed starts none meanwhile.
    """
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def need_account() -> pwd.struct_passwd:
    """
    The account, made where it is missing; `useradd` gives it its range in /etc/subuid and /etc/subgid.
    """
    try:
        account = pwd.getpwnam(ACCOUNT)
    except KeyError:
        output("useradd", "--create-home", "--home-dir", str(HOME), "--shell", "/bin/bash", ACCOUNT)
        account = pwd.getpwnam(ACCOUNT)
    for file in ("/etc/subuid", "/etc/subgid"):
        if not re.search(rf"^{ACCOUNT}:", Path(file).read_text(), re.MULTILINE):
            raise LabError(f"{ACCOUNT} has no range in {file}; `userdel -r {ACCOUNT}` and try again")
    return account


def open_devices() -> None:
    """
    slirp4netns and pasta open /dev/net/tun, fuse-overlayfs opens /dev/fuse, as the account.
    """
    for device in (Path("/dev/net/tun"), Path("/dev/fuse")):
        if not device.exists():
            raise LabError(f"{device} is not there; the kernel needs it for rootless podman")
        device.chmod(0o666)
