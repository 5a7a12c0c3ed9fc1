"""Which directory may be a project: not the whole disk, not a home, not what aisb itself lives in."""

from __future__ import annotations

import hashlib
import re

from aisb.errors import UsageError

# Nothing below these is anybody's project.
_SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
# These hold many people's things; what is below them may well be a project.
_SYSTEM_TOPS = ("/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp")
_SECRET_TREES = (".ssh", ".gnupg", ".aws", ".kube", ".password-store", ".mozilla", ".config/gcloud", ".config/gh")


def check_project(path: str, *, home: str, own: tuple[str, ...]) -> str:
    """
    `path`, which is absolute and resolved, if it may be mounted; otherwise a UsageError with the reason.

    `own` are the directories of aisb and of podman themselves and of what runs as the user, resolved. There is no
    override: mount a directory below instead.
    """
    hint = "change to the project's own directory, or name it: --project DIR"
    if not is_mountable(path):
        what = f"the project's path {path!r} has a line break or is not UTF-8, which podman cannot mount"
        raise UsageError(what, hint="rename the directory")
    if path in _SYSTEM_TOPS or any(_is_within(path, tree) for tree in _SYSTEM_TREES):
        raise UsageError(f"{path} is a system directory, not a project", hint)
    if _is_within(home, path):
        raise UsageError(f"{path} holds your home directory: everything in it would be the agent's", hint)
    if any(_is_within(path, f"{home}/{tree}") for tree in _SECRET_TREES):
        raise UsageError(f"{path} holds credentials, not a project", hint)
    for directory in own:
        if _is_within(path, directory) or _is_within(directory, path):
            what = "" if path == directory else f"holds or lies in {directory}, which "
            raise UsageError(f"{path} {what}decides what a sandbox may do or what runs outside of it", hint)
    return path


def is_mountable(path: str) -> bool:
    """Whether podman can mount a path of that form."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return not any(character in path for character in "\n\r\0")


def _is_within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree.rstrip("/") + "/")


# One home for every project that asks for it.
SHARED_HOME = "aisb-home"
# A home without a name goes with its run.
EPHEMERAL_HOME = ""


def home_volume(project: str) -> str:
    """
    The name of the project's home volume: readable, and unique by the path's hash.

    That is too long for a directory to be named so that it would have another project's home.
    """
    name = re.sub(r"[^a-z0-9]+", "-", project.rpartition("/")[2].lower()).strip("-")[:24] or "project"
    digest = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()
    return f"aisb-home-{name}-{digest[:16]}"


def directories_around(project: str) -> list[str]:
    """The directories that hold the project, an absolute path, the nearest first, without the root."""
    return [project.rsplit("/", depth)[0] for depth in range(1, project.count("/"))]
