"""The profile made of this machine's own podman profile, put to the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.render.seccomp import seccomp_json
from tests.tools.box import PODMAN_SECCOMP

if TYPE_CHECKING:
    from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of a sandbox on this machine."""
    path = tmp_path_factory.mktemp("seccomp") / "seccomp.json"
    with open(PODMAN_SECCOMP, encoding="utf-8") as file:
        path.write_text(seccomp_json(file.read()))
    return path


def confined(profile: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """
    Run a command under the profile, with mounts of its own.

    Were the profile to let a mount through, nobody else would see it.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = [
        "unshare",
        *user,
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        os.path.join(HERE, "confine.py"),
        str(profile),
        *command,
    ]
    return subprocess.run(argv, capture_output=True, timeout=60, check=False, cwd=cwd)


def test_the_kernel_answers_as_the_profile_says(profile: Path, tmp_path: Path) -> None:
    """Each call with an argument on either side of the line, upper halves of arguments included."""
    done = confined(profile, sys.executable, os.path.join(HERE, "syscalls.py"), cwd=tmp_path)
    assert not done.returncode, done.stderr.decode()
    answers = json.loads(done.stdout)

    assert {name: answer for name, answer in answers.items() if answer == "ok"} == dict.fromkeys(
        [
            "chmod 755",
            "chmod 1755",
            "fchmod 644",
            "fchmodat 644",
            "creat 644",
            "mknod 644",
            "mknodat 644",
            "mkdir 6777",
            "open to read, 7777",
            "open O_CREAT 644",
            "openat to read, 7777",
            "openat O_CREAT 644",
            "openat O_TMPFILE 644",
            "socket UNIX",
            "socket INET",
            "socket INET6",
            "socket NETLINK 0",
            "socket NETLINK 4",
            "socket NETLINK 12",
            "socket NETLINK 15",
            "socket NETLINK 16",
            "socketpair UNIX",
            "ptrace TRACEME",
        ],
        "ok",
    )
    assert {name: answer for name, answer in answers.items() if answer != "ok"} == {
        **dict.fromkeys(
            [
                "chmod 4755",
                "chmod 2755",
                "chmod 4755 with an upper half",
                "fchmod 4644",
                "fchmod 2644",
                "fchmodat 6644",
                "creat 4755",
                "mknod 4755",
                "mknodat 2755",
                "open O_CREAT 4755",
                "openat O_CREAT 2755",
                "openat O_TMPFILE 4755",
                "clone NEWNS",
                "clone NEWCGROUP",
                "clone NEWUTS",
                "clone NEWIPC",
                "clone NEWUSER",
                "clone NEWPID",
                "clone NEWNET",
                "unshare",
                "setns",
                "mount",
                "umount2",
                "pivot_root",
                "chroot",
                "fsopen",
                "open_tree",
                "move_mount",
                "mount_setattr",
                "keyctl",
                "add_key",
                "request_key",
                "bpf",
                "perf_event_open",
                "userfaultfd",
            ],
            "EPERM",
        ),
        **dict.fromkeys(["clone3", "openat2", "io_uring_setup"], "ENOSYS"),
        **dict.fromkeys(
            [
                "socket AX25",
                "socket KEY",
                "socket PACKET",
                "socket RDS",
                "socket CAN",
                "socket TIPC",
                "socket BLUETOOTH",
                "socket ALG",
                "socket VSOCK",
                "socket XDP",
                "socket VSOCK with an upper half",
                "socket UNIX with an upper half",
                "socketpair INET",
                "socketpair NETLINK",
                "socketpair TIPC",
            ],
            "EAFNOSUPPORT",
        ),
        **dict.fromkeys(
            ["socket NETLINK 2", "socket NETLINK 9", "socket NETLINK 9 with an upper half", "socket NETLINK 21"],
            "EINVAL",
        ),
        # The kernel drops the bits itself.
        "mkdir 6777 made": "755",
    }


def test_the_programs_of_every_day_work(profile: Path, tmp_path: Path) -> None:
    """git, tar, threads, install, and what root needs before the drop."""
    script = """
        git init -q .
        echo x >a
        git add a
        git -c user.name=a -c user.email=b commit -qm x
        tar cf x.tar a
        mkdir d
        tar xf x.tar -C d
        cp -a a d/b
        install -m 755 a d/c
        python3 -c 'import threading; t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()'
        setpriv --no-new-privs -- unshare --help >/dev/null
        ip -batch - <<END
address show dev lo
END
    """
    done = confined(profile, "sh", "-euc", script, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"thread\n" in done.stdout
    assert sorted(os.listdir(tmp_path / "d")) == ["a", "b", "c"]
