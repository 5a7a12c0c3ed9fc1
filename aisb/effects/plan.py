"""
A plan: everything about a run that follows from what was asked for and what this machine is.

Making one parses entries and renders templates, which costs a third of a second in imports alone. The
same question has the same answer, so plans are kept, each under a hash of all that it was made from.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.assets import asset_path, package_path
from aisb.effects.state import make_private, read_if_there, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable


class Plan(NamedTuple):
    """What a run is made of, as text and names only."""

    net: str
    policy_lines: str
    names: int
    sandbox_image: str
    gate_image: str
    seccomp: str
    session_files: dict[str, str]
    gate_files: dict[str, str]
    gate_key: str


class Question(NamedTuple):
    """All that decides a plan. Two equal questions have equal plans."""

    net: str
    allow: tuple[tuple[str, str], ...]
    environment: tuple[str, ...]
    install: tuple[str, ...]
    base_image: str
    ca_bundle: str
    ca_text: str
    project: str
    home_volume: str
    user: str
    pin: str
    host_version: tuple[int, int]
    host_addresses: tuple[str, ...]
    podman_seccomp: str
    programs: str


def digest(question: Question) -> str:
    """The hash that a plan is kept under."""
    return hashlib.sha256(json.dumps(question).encode("utf-8", "surrogateescape")).hexdigest()


def kept_plan(cache: str, question: Question, make: Callable[[Question], Plan]) -> Plan:
    """The plan for this question: from the cache, or made and kept."""
    path = f"{cache}/plans/{digest(question)}.json"
    text = read_if_there(path)
    if text is not None:
        try:
            return Plan(*json.loads(text))
        except (ValueError, TypeError):
            os.unlink(path)
    plan = make(question)
    make_private(f"{cache}/plans")
    write_whole(path, json.dumps(plan).encode("utf-8", "surrogateescape"))
    return plan


def fingerprint() -> str:
    """A hash that changes when a template, a program or aisb's own code does: names, sizes and times of files."""
    trees = (asset_path("templates"), asset_path("gate"), package_path("domain"), package_path("render"))
    lines = [line for tree in trees for line in _listing(tree)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _listing(tree: str) -> list[str]:
    with os.scandir(tree) as entries:
        files = sorted((entry.name, entry.stat()) for entry in entries if entry.is_file())
    return [f"{tree}/{name} {status.st_size} {status.st_mtime_ns} {status.st_ino}" for name, status in files]
