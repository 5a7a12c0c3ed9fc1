"""
What a command finds when it runs as the laboratory's account: its environment and its home directory.
"""

from __future__ import annotations

import os
import pwd

from laboratory import handover
from laboratory.settings import ACCOUNT, HOME

CA = f"{HOME}/ca.pem"
"""The fake internet's certificate authority, as the account sees it."""


def environment(home: str) -> dict[str, str]:
    """
    The environment of a login on a host, and nothing of the caller's but the terminal's kind.
    """
    passed = {name: os.environ[name] for name in ("TERM", "COLORTERM") if name in os.environ}
    return passed | {
        "HOME": home,
        "USER": ACCOUNT,
        "LOGNAME": ACCOUNT,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "PATH": f"{HOME}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "XDG_RUNTIME_DIR": f"/run/user/{pwd.getpwnam(ACCOUNT).pw_uid}",
        # Pins, downloads and plans outlive a call; the home does not.
        "XDG_CACHE_HOME": f"{HOME}/cache",
        "LAB_TREE": f"{HOME}/tree",
        "LAB_CA": CA,
        "AISB_CA_BUNDLE": CA,
        "AISB_BASE_IMAGE": "bootstrap:trixie",
    }


def write_home(home: str, *, settings: bool) -> None:
    """
    The files of the home directory `home`: podman's storage, and with `settings` root's own for package registries.
    """
    account = pwd.getpwnam(ACCOUNT)
    # One store and one runroot for all homes of a host; without the driver Debian 12's podman takes vfs.
    storage = (
        f'[storage]\ndriver = "overlay"\ngraphroot = "{HOME}/store"\n'
        f'runroot = "/run/user/{account.pw_uid}/containers"\n'
    )
    registry = '[[registry]]\nlocation = "127.0.0.1:5000"\ninsecure = true\n'
    files = {
        ".config/containers/storage.conf": storage,
        ".config/containers/registries.conf.d/laboratory.conf": registry,
    }
    if settings:
        files |= {".config/pip/pip.conf": handover.pip_settings(), ".npmrc": handover.npm_settings()}
    made = {home}
    for name, text in files.items():
        path = os.path.join(home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        while path not in made:
            made.add(path)
            path = os.path.dirname(path)
    for path in made:
        os.chown(path, account.pw_uid, account.pw_gid)
