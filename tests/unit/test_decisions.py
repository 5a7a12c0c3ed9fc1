"""What the client of a session is told of what its gate decides."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING

import pytest

from aisb.domain.lasting import lasting
from aisb.domain.live import ADDRESS, ALLOW, DENY, LiveEntry, live_json
from aisb.domain.records import read_record
from aisb.effects.decisions import denied_meanwhile, follow_decisions, news_of
from aisb.effects.session import open_session
from aisb.render.denials import denial_lines

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.effects.decisions import News

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


A, BELOW_A = LiveEntry(ALLOW, "a.test", "tree", (80, 443)), LiveEntry(ALLOW, "x.a.test", "tree", (80, 443))


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        pytest.param([A, LiveEntry(ALLOW, "b.test", "exact", (99,))], ["a.test", "exact:b.test:99"], id="names"),
        pytest.param([A._replace(until=9.0)], [], id="for a time"),
        pytest.param([A, LiveEntry(DENY, "a.test", "tree")], [], id="closed"),
        pytest.param([A, LiveEntry(DENY, "x.a.test", "exact", (99,))], [], id="closed in part"),
        pytest.param([BELOW_A, LiveEntry(DENY, "a.test", "tree")], [], id="closed with more"),
        pytest.param([A, BELOW_A._replace(until=9.0)], [], id="a part for a time"),
        pytest.param([LiveEntry(DENY, "a.test", "tree"), A], ["a.test"], id="opened again"),
        pytest.param([A, LiveEntry(DENY, "nota.test", "tree")], ["a.test"], id="another is closed"),
        pytest.param([LiveEntry(ALLOW, "10.0.0.0/8", ADDRESS)], [], id="addresses"),
        pytest.param([A._replace(host="x.aisb.internal")], [], id="aisb's own"),
    ],
)
def test_what_is_open_until_the_run_ends_and_was_not_narrowed_since(entries: list[LiveEntry], names: list[str]) -> None:
    assert lasting(entries) == names


def test_a_client_is_told_what_would_hold_in_another_run_whenever_that_changes(tmp_path: Path) -> None:
    """At the end of the run it stays what it was; a file that says nothing is as good as nothing allowed."""
    session = open_session(str(tmp_path), "1a2b3c4d", {}, "{}")
    live = tmp_path / "1a2b3c4d/live.json"
    told: queue.Queue[News] = queue.Queue()
    ended = threading.Event()
    thread = threading.Thread(target=follow_decisions, args=(session, told.put, ended))
    thread.start()

    found = []
    for text in (live_json([A]), live_json([A, LiveEntry(DENY, "a.test", "tree")]), live_json([A]), "x"):
        new = tmp_path / "new"
        new.write_text(text)
        new.rename(live)
        found.append(told.get(timeout=30).told)
    live.unlink()
    ended.set()
    thread.join()

    assert found == [(("opened", {"entries": names}),) for names in (["a.test"], [], ["a.test"], [])]
    assert told.empty()
