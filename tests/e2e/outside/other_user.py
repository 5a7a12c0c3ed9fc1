"""
Make, as root and among a host's files, a user of another number, to whom the account's images are her own.

Its arguments: the user's number, her group's, and a program to run as her by `sh -c`. All of it is undone at the end.
"""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys

NAME, PLACE = "aisb-two", "/tmp/aisb-two"
FIRST, COUNT = 500_000_000, 65536
ACCOUNT = pwd.getpwnam("aisb-lab")
# What of the account's is shown to her as her own: podman's images, and what aisb has looked up and built.
SHOWN = {"/home/aisb-lab/store": f"{PLACE}/store", "/home/aisb-lab/cache/ai-sandbox": f"{PLACE}/home/.cache/ai-sandbox"}
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH, CLONE, IDMAP, CLONE_NEWUSER = -100, 0x1000, 1, 0x100000, 0x10000000
LIBC = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    """As the kernel takes them."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def call(*arguments: object) -> int:
    """A call of the kernel's, or OSError."""
    result = LIBC.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def namespace(uid: int, gid: int) -> int:
    """A descriptor of a user namespace in which the account's numbers are the other user's."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if LIBC.unshare(CLONE_NEWUSER):
            os._exit(1)
        os.write(writing, b"1")
        signal.pause()
    os.read(reading, 1)
    for kind, own, other in (("uid", ACCOUNT.pw_uid, uid), ("gid", ACCOUNT.pw_gid, gid)):
        with open(f"/etc/sub{kind}") as file:
            first = next(int(line.split(":")[1]) for line in file if line.startswith(f"{ACCOUNT.pw_name}:"))
        with open(f"/proc/{child}/{kind}_map", "w") as file:
            file.write(f"{own} {other} 1\n{first} {FIRST} {COUNT}\n")
    descriptor = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return descriptor


def show(own: str, place: str, users: int) -> None:
    """Mount a directory of the account's as one of the other user's."""
    tree = call(OPEN_TREE, AT_FDCWD, own.encode(), CLONE)
    attributes = Attributes(IDMAP, 0, 0, users)
    call(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(attributes), ctypes.sizeof(attributes))
    call(MOVE_MOUNT, tree, b"", AT_FDCWD, place.encode(), 4)


def add_user(uid: int, gid: int) -> None:
    """In the files that say who there is, as this host's mounts show them."""
    lines = {
        "passwd": f"{NAME}:x:{uid}:{gid}::{PLACE}/home:/bin/sh",
        "group": f"{NAME}:x:{gid}:",
        "subuid": f"{NAME}:{FIRST}:{COUNT}",
        "subgid": f"{NAME}:{FIRST}:{COUNT}",
    }
    for name, line in lines.items():
        with open(f"/etc/{name}") as old, open(f"{PLACE}/{name}", "w") as new:
            # Hers are the first of that number.
            new.write(f"{line}\n{old.read()}")
        subprocess.run(["mount", "--bind", f"{PLACE}/{name}", f"/etc/{name}"], check=True)


def make_home(uid: int) -> None:
    """Her home, with podman's settings."""
    os.makedirs(f"{PLACE}/home/.config/containers")
    os.makedirs(f"{PLACE}/home/project")
    with open(f"{PLACE}/home/.config/containers/storage.conf", "w") as file:
        file.write(f'[storage]\ndriver = "overlay"\ngraphroot = "{PLACE}/home/graph"\nrunroot = "/run/user/{uid}/c"\n')
        file.write(f'[storage.options]\nadditionalimagestores = ["{PLACE}/store"]\n')
    for place in SHOWN.values():
        os.makedirs(place)


def run(uid: int, gid: int, program: str) -> int:
    """Run the program as her, in her project; what she started does not outlive it."""
    variables = {
        "HOME": f"{PLACE}/home", "USER": NAME, "LOGNAME": NAME, "XDG_RUNTIME_DIR": f"/run/user/{uid}", "LANG": "C.UTF-8",
        "PATH": "/home/aisb-lab/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TERM": "dumb",
        "AISB_BASE_IMAGE": "bootstrap:trixie", "AISB_CA_BUNDLE": "/home/aisb-lab/ca.pem",
    }  # fmt: skip
    user = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--")
    where = {"cwd": f"{PLACE}/home/project", "env": variables, "stdin": subprocess.DEVNULL}
    try:
        return subprocess.run([*user, "sh", "-c", program], **where, check=False).returncode
    finally:
        subprocess.run([*user, "podman", "system", "migrate"], **where, check=False, capture_output=True)


def main() -> int:
    """Everything in its turn, and back."""
    uid, gid, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # Somebody who was killed may have left her there.
    take_back(uid)
    os.makedirs(PLACE)
    try:
        add_user(uid, gid)
        make_home(uid)
        os.makedirs(f"/run/user/{uid}", mode=0o700)
        subprocess.run(["chown", "-R", f"{uid}:{gid}", f"{PLACE}/home", f"/run/user/{uid}"], check=True)
        users = namespace(uid, gid)
        for own, place in SHOWN.items():
            show(own, place, users)
        return run(uid, gid, program)
    finally:
        take_back(uid)


def take_back(uid: int) -> None:
    """Leave nothing of her."""
    for name in ("passwd", "group", "subuid", "subgid"):
        with contextlib.suppress(FileNotFoundError):
            if os.path.samefile(f"{PLACE}/{name}", f"/etc/{name}"):
                subprocess.run(["umount", f"/etc/{name}"], check=False)
    for place in SHOWN.values():
        subprocess.run(["umount", "--lazy", place], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(f"/run/user/{uid}", ignore_errors=True)
    # One file system: what podman's own namespace still has mounted there is not looked into.
    subprocess.run(["rm", "-rf", "--one-file-system", PLACE], check=False)


sys.exit(main())
