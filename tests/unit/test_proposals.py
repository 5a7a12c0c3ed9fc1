"""The entry that is proposed for what was refused."""

from __future__ import annotations

import pytest

from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.proposals import entry_for
from aisb.domain.rules import Engine


@pytest.mark.parametrize(
    ("host", "port", "entry"),
    [
        ("a.test", 443, "a.test"),
        ("a.test", 22, "a.test:22"),
        ("10.0.0.5", 443, "10.0.0.5:443"),
        ("2001:db8:0::5", 22, "[2001:db8::5]:22"),
        ("host.aisb.internal", 11434, "host:11434"),
    ],
)
def test_what_is_proposed_is_an_entry_that_allows_it(host: str, port: int, entry: str) -> None:
    assert entry_for(host, port) == entry
    assert Engine(*gather([(parse_entry(entry), "--allow")]).policy).judge(host, port).allowed


@pytest.mark.parametrize(
    "host",
    ["ok.aisb.internal", "aisb.internal", "localhost", "x.localhost", "127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "ff02::1",
     "::ffff:10.0.0.1", "198.18.0.7", "169.254.169.254", "fd00:ec2::254"],
)  # fmt: skip
def test_where_no_entry_would_help_none_is_proposed(host: str) -> None:
    """Nor where nobody should paste one: a metadata service (A37)."""
    assert entry_for(host, 443) == ""
