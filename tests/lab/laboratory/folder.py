"""
A host in a folder: another Debian release, made by mmdebstrap from the machine's own apt sources.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from laboratory import machine
from laboratory.settings import ACCOUNT, FOLDER_PACKAGES, Host, LabError

if TYPE_CHECKING:
    import pwd
    from collections.abc import Sequence

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_APT_SETTING = re.compile(r"Acquire::(Check-|Retries|https?::).*")


def sources(suite: str) -> str:
    """
    The machine's apt sources, however they are written down, for another release.
    """
    here = machine.codename()
    listed = machine.output(
        "apt-get",
        "indextargets",
        "--format",
        "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
    )
    lines = {line for line in listed.splitlines() if line.split()[2].split("-")[0] == here}
    if not lines:
        raise LabError(f"apt knows no source of {here or 'this system'} to take {suite} from")
    return "".join(re.sub(rf" {here}\b", f" {suite}", line) + "\n" for line in sorted(lines))


def need_folder(host: Host) -> None:
    """
    Make the folder once (about a minute); it is there whole or not at all.
    """
    wanted = f"{host.suite}\n{' '.join(FOLDER_PACKAGES)}\n"
    stamp = host.cache / "root.stamp"
    if host.folder.is_dir() and stamp.is_file() and stamp.read_text() == wanted:
        return
    started = time.monotonic()
    machine.say(f"making {host.name} in a folder with mmdebstrap (about a minute)")
    fresh = host.cache / "root.new"
    for old in (fresh, host.folder):
        if old.exists():
            shutil.rmtree(old)
    make_folder(host.suite, FOLDER_PACKAGES, fresh)
    fresh.rename(host.folder)
    stamp.write_text(wanted)
    machine.say(f"made {host.name} in {time.monotonic() - started:.0f} s")


def make_folder(suite: str, packages: Sequence[str], fresh: Path) -> None:
    """
    A Debian release with these packages in the new folder `fresh`.
    """
    settings = fresh.with_name("apt.conf")
    dump = machine.output("apt-config", "dump", "--no-empty").splitlines()
    settings.write_text("".join(line + "\n" for line in dump if _APT_SETTING.fullmatch(line)))
    # mmdebstrap mounts /proc and /sys into the folder: a namespace of its own keeps that from the machine.
    done = subprocess.run(
        (
            "unshare", "--mount", "--propagation", "private",
            "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=directory",
            f"--aptopt={settings}", f"--keyring={KEYRING}", f"--include={','.join(packages)}",
            suite, str(fresh), "-",
        ),
        input=sources(suite), text=True, stdout=sys.stderr,
    )  # fmt: skip
    if done.returncode:
        raise LabError(f"mmdebstrap exited {done.returncode}; see above")


def write_account(root: Path, account: pwd.struct_passwd) -> None:
    """
    The machine's account, with the same ids and ranges, in the folder's own files.
    """
    for file in ("passwd", "group", "subuid", "subgid"):
        lines = [line for line in (Path("/etc") / file).read_text().splitlines() if line.startswith(f"{ACCOUNT}:")]
        target = root / "etc" / file
        kept = target.read_text().splitlines() if target.exists() else []
        kept = [line for line in kept if not line.startswith(f"{ACCOUNT}:")]
        target.write_text("\n".join((*kept, *lines)) + "\n")
    (root / account.pw_dir.lstrip("/")).mkdir(parents=True, exist_ok=True)
