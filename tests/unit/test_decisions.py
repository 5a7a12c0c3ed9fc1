"""What the client of a session is told of what its gate decides."""

from __future__ import annotations

import json

import pytest

from aisb.domain.records import read_record
from aisb.effects.decisions import news_of

WHERE = {"time": "t", "host": "evil.test", "port": 443, "method": "CONNECT", "path": ""}
NOT_COVERED = {"message": "no entry of the policy covers this host", "entry": "evil.test"}
CLOSED = {"message": "the user has closed it for this run", "entry": None, "closed": "evil.test"}


@pytest.mark.parametrize(("rule", "told"), [("", NOT_COVERED), ("aisb deny evil.test", CLOSED)])
def test_what_the_user_has_closed_is_no_entry_that_is_missing(rule: str, told: dict[str, object]) -> None:
    record = read_record(json.dumps({**WHERE, "decision": "deny", "reason": "not-listed", "rule": rule}))
    assert record is not None

    assert news_of([record]).told == (("denied", {**WHERE, "reason": "not-listed", **told, "count": 1}),)
