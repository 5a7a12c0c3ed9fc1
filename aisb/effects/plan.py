"""
A plan: everything about a run that follows from what was asked for and what this machine is.

Making one parses entries and renders templates, which costs a third of a second in imports alone. The
same question has the same answer, so plans are kept, each under a hash of all that it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.assets import asset_path, package_path
from aisb.effects.state import make_private, read_if_there, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.source_files import SourceFile
    from aisb.domain.wanted import Wanted


class Plan(NamedTuple):
    """What a run is made of, as text and names only. `notes` are what its user has to be told at the start."""

    net: str
    user: str
    home_volume: str
    policy_lines: str
    names: int
    addresses: int
    host_ports: tuple[int, ...]
    sandbox_image: str
    gate_image: str
    seccomp: str
    session_files: dict[str, str]
    gate_files: dict[str, str]
    gate_key: str
    origins: str
    learn: bool
    notes: tuple[str, ...]
    # The gate holds a password: it belongs to one run.
    own_gate: bool = False


class Question(NamedTuple):
    """
    All that decides a plan. Two equal questions have equal plans.

    The files are here with their contents: what was trusted is what is parsed, and no change is missed.
    """

    wanted: Wanted
    ca_text: str
    project: str
    home_volume: str
    user: str
    pin: str
    network: str
    host_addresses: tuple[str, ...]
    podman_seccomp: str
    programs: str
    allow_files: tuple[SourceFile, ...] = ()
    policy_files: tuple[SourceFile, ...] = ()
    proxy_addresses: tuple[str, ...] = ()
    name_servers: tuple[str, ...] = ()
    # The user's own part of the Containerfile.
    fragment: str = ""


def digest(question: Question) -> str:
    """The hash that a plan is kept under."""
    return hashlib.sha256(json.dumps(question).encode("utf-8", "surrogateescape")).hexdigest()


def find_plan(cache: str, question: Question) -> Plan | None:
    """The plan that was kept for this question."""
    path = _path(cache, question)
    text = read_if_there(path)
    if text is None:
        return None
    try:
        return Plan(*json.loads(text))
    except (ValueError, TypeError):
        os.unlink(path)
        return None


def keep_plan(cache: str, question: Question, plan: Plan) -> None:
    """Remember the plan for the next time that the same is asked."""
    path = _path(cache, question)
    make_private(os.path.dirname(path))
    write_whole(path, json.dumps(plan).encode("utf-8", "surrogateescape"))


def _path(cache: str, question: Question) -> str:
    return f"{cache}/plans/{digest(question)}.json"


def fingerprint() -> str:
    """A hash that changes when a template, a program or aisb's own code does: names, sizes and times of files."""
    trees = (asset_path("templates"), asset_path("gate"), package_path("domain"), package_path("render"))
    lines = [line for tree in trees for line in _listing(tree)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _listing(tree: str) -> list[str]:
    with os.scandir(tree) as entries:
        files = sorted((entry.name, entry.stat()) for entry in entries if entry.is_file())
    return [f"{tree}/{name} {status.st_size} {status.st_mtime_ns} {status.st_ino}" for name, status in files]


def images_noted(cache: str, images: Iterable[str]) -> bool:
    """Whether these images were there when last looked at: spares podman a question for each."""
    return all(os.path.exists(_note(cache, image)) for image in images)


def note_images(cache: str, images: Iterable[str]) -> None:
    """Remember that these images are there."""
    make_private(f"{cache}/built")
    for image in images:
        write_whole(_note(cache, image), b"")


def forget_images(cache: str, plan: Plan) -> None:
    """What was remembered turned out to be wrong."""
    for image in images_of(plan):
        forget_image(cache, image)


def forget_image(cache: str, image: str) -> None:
    """Whether the image is there has to be looked at again."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_note(cache, image))


def images_of(plan: Plan) -> tuple[str, ...]:
    """The images that a run of this plan starts."""
    return (plan.sandbox_image, plan.gate_image) if plan.net == "allow" else (plan.sandbox_image,)


def _note(cache: str, image: str) -> str:
    return f"{cache}/built/{image.rpartition('/')[2].replace(':', '-')}"
