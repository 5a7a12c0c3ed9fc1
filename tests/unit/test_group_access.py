"""What is open to its user as a member of a group is not open in a sandbox, and that is said."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.effects.group_access import access_notes, need_access
from aisb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

NOT_READ = (
    "DIR is open to you as a member of the group 4242 only, which no sandbox is; "
    "give yourself access of your own: setfacl -R -m u:6:rwX,d:u:6:rwX DIR"
)
NOT_WRITTEN = "DIR cannot be written inside: you may as a member of the group 4242, which no sandbox is"


@pytest.mark.parametrize(
    ("mode", "groups", "owner", "expected"),
    [
        pytest.param(0o2770, [4242], 5, NOT_READ, id="the group alone"),
        pytest.param(0o2775, [4242], 5, NOT_WRITTEN, id="others may read"),
        pytest.param(0o777, [4242], 5, "", id="everybody"),
        pytest.param(0o2770, [7], 5, "", id="of another group: nobody here can tell"),
        pytest.param(0o2770, [4242], 6, "", id="one's own"),
        pytest.param(0o700, [4242], 5, "", id="not even the group"),
    ],
)
def test_it_is_told_by_the_directorys_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, groups: list[int], owner: int, expected: str
) -> None:
    """(C31) One may be read without being writable, which is no error."""
    status = os.stat_result((0o040000 | mode, 1, 1, 1, owner, 4242, 0, 0, 0, 0))
    monkeypatch.setattr(os, "stat", lambda _path: status)
    monkeypatch.setattr(os, "getuid", lambda: 6)
    monkeypatch.setattr(os, "getgid", lambda: 6)
    monkeypatch.setattr(os, "getgroups", lambda: groups)

    assert _told(str(tmp_path)) == expected


def _told(path: str) -> str:
    try:
        need_access(path)
    except UsageError as error:
        return f"{error.message}; {error.hint}".replace(path, "DIR")
    return "; ".join(access_notes(path)).replace(path, "DIR")
