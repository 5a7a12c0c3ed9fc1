"""
What shells, editors and a login obey in the user's home, where that leads elsewhere: whoever keeps such files in a
repository has links to it, and then an agent of that project would write what the next shell runs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OF_HOME = (
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".emacs",
    ".emacs.d",
    ".gdbinit",
    ".inputrc",
    ".kshrc",
    ".lldbinit",
    ".npmrc",
    ".profile",
    ".screenrc",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".ssh/rc",
    ".tmux.conf",
    ".vim",
    ".vimrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
)
_OF_CONFIGURATION = ("emacs", "helix", "i3", "nvim", "pip/pip.conf", "sway", "tmux/tmux.conf", "zsh/.zshrc")
# Of these each file may be a link of its own.
_IN_CONFIGURATION = ("autostart", "environment.d", "fish", "fish/conf.d", "i3", "nvim", "sway", "systemd/user")
_MOST = 300


def led_to(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where what is a link, or lies behind one, is in truth."""
    home = environ.get("HOME", "")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = (*(f"{home}/{name}" for name in _OF_HOME), *(f"{config}/{name}" for name in _OF_CONFIGURATION))
    inner = (path for name in _IN_CONFIGURATION for path in _links_in(f"{config}/{name}"))
    found = ((path, os.path.realpath(path)) for path in (*named, *inner))
    return tuple(dict.fromkeys(real for path, real in found if real != path))


def _links_in(directory: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(directory) as entries:
        yield from [entry.path for entry in islice(entries, _MOST) if entry.is_symlink()]
