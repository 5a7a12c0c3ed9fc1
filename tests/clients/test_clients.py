"""What people run in a sandbox, against servers of the real kind: everything that the matrix in docs/compatibility.md says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients import matrix
from tests.clients.table import ALL, LOCAL, PACKAGES
from tests.clients.world import RULES, all_served, build
from tests.e2e.legs import arrived, asked, needs_sinks
from tests.e2e.programs import KEYS, REFUSED, UNREAD, astray, by_name, say, tell

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# The image alone takes a quarter of an hour. The ways out of it are the same on both hosts: one is enough.
pytestmark = [needs_sinks, pytest.mark.timeout(3600), pytest.mark.parametrize("lab", ["debian13"], indirect=True)]


def test_every_client_of_the_matrix_works_as_it_is(lab: Lab) -> None:
    """
    By name and with rules, with proxy variables and without; a host that is refused ends soon, and says why.

    (B01, B02, B04, B11, B12, B14, B17-B19, B21, B23-B27, B32, B36, B40) What was measured goes into docs/compatibility.md.
    """
    build(lab)
    with all_served(lab), by_name(lab) as (options, env):
        told = tell(lab, f"--install {PACKAGES} {RULES} {options}", ALL, 2700, before=KEYS, env=env)
        reached, names = set(arrived(lab)), asked(lab)
    local, _ = say(lab, f"-q --install {PACKAGES} --allow allowed.test", LOCAL, (UNREAD,), 600)
    got_out = lab.sinks()

    assert astray({**told, **local}, {**ALL, **LOCAL}) == {}
    assert {site.partition(" ")[0] for site in reached} == {"allowed.test", "cdn.test"}
    assert [name for name in names if name.endswith(REFUSED)] == []
    assert got_out == []
    matrix.write(matrix.render({**told, **local}))
    assert matrix.faults(matrix.committed()) == []
