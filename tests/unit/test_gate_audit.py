"""The record of a run."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from gate.audit import Audit, Decision

if TYPE_CHECKING:
    from pathlib import Path

ALLOWED = Decision(
    "a.test", 443, "CONNECT", "", allowed=True, reason="", rule="a.test", bytes_out=7, bytes_in=9, seconds=1.23456
)
DENIED = Decision("b.test", 80, "GET", "/x?secret=1", allowed=False, reason="name-mismatch", rule="", named="c.test")


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_a_decision_is_one_line_with_all_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(str(path), "1a2b3c4d")
    audit.write(ALLOWED)
    audit.write(DENIED)
    audit.write(ALLOWED._replace(failed="unresolved"))
    audit.write(ALLOWED._replace(origin=".ai-sandbox/allow:3"))

    allowed, denied, failed, written = lines_of(path)
    assert written.pop("origin") == ".ai-sandbox/allow:3"
    assert written.keys() == allowed.keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(allowed.pop("time")))
    denied.pop("time")
    assert failed.pop("failed") == "unresolved"
    assert failed.keys() == {"time", *allowed}
    assert (allowed, denied) == (
        {
            "run": "1a2b3c4d", "host": "a.test", "port": 443, "method": "CONNECT", "path": "", "decision": "allow",
            "reason": "", "rule": "a.test", "bytes_out": 7, "bytes_in": 9, "seconds": 1.235,
        },
        {
            "run": "1a2b3c4d", "host": "b.test", "port": 80, "method": "GET", "path": "/x", "decision": "deny",
            "reason": "name-mismatch", "rule": "", "named": "c.test", "bytes_out": 0, "bytes_in": 0, "seconds": 0.0,
        },
    )  # fmt: skip
    assert (audit.allowed, audit.denied) == (3, 1)


def test_only_the_caller_can_read_it(tmp_path: Path) -> None:
    Audit(str(tmp_path / "audit.jsonl"), "1a2b3c4d").close()

    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_it_is_ascii_without_control_characters_whatever_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    Audit(str(path), "1a2b3c4d").write(DENIED._replace(host="\x1b[2J\x7f\u202e\n", path="/\x9b"))

    data = path.read_bytes()
    assert re.fullmatch(rb"[\x20-\x7e]+\n", data)
    assert json.loads(data)["host"] == "\x1b[2J\x7f\u202e\n"


def test_it_stops_growing_and_says_so_once_but_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(str(path), "1a2b3c4d", largest=1000)
    for _ in range(100):
        audit.write(DENIED)

    *_, last = lines_of(path)
    assert (last["method"], last["reason"]) == ("AUDIT", "limit")
    assert [line["method"] for line in lines_of(path)].count("AUDIT") == 1
    assert path.stat().st_size < 1500
    assert audit.denied == 100


def test_a_record_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        audit = Audit(str(path), "1a2b3c4d", largest=400)
        audit.write(ALLOWED)
        audit.close()

    assert [line["method"] for line in lines_of(path)] == ["CONNECT", "AUDIT"]


def test_no_link_is_followed(tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", tmp_path / "audit.jsonl")

    with pytest.raises(OSError, match="symbolic"):
        Audit(str(tmp_path / "audit.jsonl"), "1a2b3c4d")


def test_a_full_disk_costs_the_record_and_nothing_else(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path / "audit.jsonl"), "1a2b3c4d")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, audit._descriptor)
    os.close(full)
    for _ in range(3):
        audit.write(ALLOWED)

    assert audit.allowed == 3


def test_nothing_follows_half_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may be full in the middle of one: the next would be one with it, and neither could be read. (C64)"""
    path = tmp_path / "audit.jsonl"
    audit = Audit(str(path), "1a2b3c4d")
    audit.write(ALLOWED)
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:10]))
    audit.write(ALLOWED)
    monkeypatch.undo()
    audit.write(ALLOWED)

    first, rest = path.read_bytes().split(b"\n")
    assert (json.loads(first)["host"], rest, audit.allowed) == ("a.test", first[:10], 3)
