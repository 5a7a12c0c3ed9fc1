"""What the client of a session is told of what its gate decides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aisb.domain.records import read_record
from aisb.effects.decisions import denied_meanwhile, news_of
from aisb.effects.session import open_session
from aisb.render.denials import denial_lines

if TYPE_CHECKING:
    from pathlib import Path

WHERE = {"time": "t", "host": "evil.test", "port": 443, "method": "CONNECT", "path": ""}
NOT_COVERED = {"message": "no entry of the policy covers this host", "entry": "evil.test"}
CLOSED = {"message": "the user has closed it for this run", "entry": None, "closed": "evil.test"}


@pytest.mark.parametrize(("rule", "told"), [("", NOT_COVERED), ("aisb deny evil.test", CLOSED)])
def test_what_the_user_has_closed_is_no_entry_that_is_missing(rule: str, told: dict[str, object]) -> None:
    record = read_record(json.dumps({**WHERE, "decision": "deny", "reason": "not-listed", "rule": rule}))
    assert record is not None

    assert news_of([record]).told == (("denied", {**WHERE, "reason": "not-listed", **told, "count": 1}),)


@pytest.mark.parametrize("earlier", [["old.test"], []])
def test_what_was_denied_while_a_command_ran_is_told_at_its_end(tmp_path: Path, earlier: list[str]) -> None:
    """Also where nothing had been decided before, and where the run has ended meanwhile."""
    session = open_session(str(tmp_path), "1a2b3c4d", {}, "{}")
    audit = tmp_path / "1a2b3c4d" / "audit.jsonl"
    lines = [json.dumps({**WHERE, "host": host, "decision": "deny", "reason": "not-listed"}) for host in earlier]
    if lines:
        audit.write_text("".join(f"{line}\n" for line in lines))

    with denied_meanwhile(session) as found, audit.open("a") as file:
        file.write(json.dumps({**WHERE, "decision": "deny", "reason": "not-listed"}) + "\n")

    said = "denied evil.test:443: no entry of the policy covers this host; to allow it, add: --allow evil.test"
    assert list(denial_lines(found)) == [said]
