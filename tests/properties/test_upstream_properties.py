"""What is said of a proxy is one line of squid's configuration, whatever is in it."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.upstream import Upstream, encoded_login, parse_upstream
from aisb.errors import UsageError
from aisb.render.gate_upstream import WayOut, peer_lines

PEER = re.compile(
    r"cache_peer [0-9a-f.:]+ parent [0-9]+ 0 no-query no-digest no-netdb-exchange"
    r"( tls tls-options=[A-Za-z0-9_,]+ ssldomain=[a-z0-9_.:-]+( tls-cafile=/run/aisb/conf/roots\.pem)?)? name=upstream_[1-9]"
)
urls = st.from_regex(r"https?://[^\x00]{0,20}:[0-9]{1,5}/?", fullmatch=True) | st.text(max_size=30)


@given(st.binary(max_size=140))
def test_a_password_comes_to_squid_as_it_is_or_not_at_all(value: bytes) -> None:
    """In letters, digits and percent signs: no blank, no quote and no end of a line that squid or a shell could read."""
    try:
        encoded = encoded_login(value, "")
    except UsageError:
        return
    assert unquote_to_bytes(encoded) == value
    assert re.fullmatch(r"(?:[A-Za-z0-9]|%[0-9A-F]{2})+", encoded)
    assert len(value) <= 128


@given(urls, st.booleans())
def test_what_was_accepted_as_a_url_is_one_word_of_safe_letters(text: str, own_roots: bool) -> None:
    try:
        upstream = parse_upstream(text, "")
    except UsageError:
        return
    assert parse_upstream(upstream.url, "") == upstream
    lines = peer_lines(WayOut(upstream, ("10.0.0.5", "2001:db8::5"), own_roots=own_roots)).splitlines()
    assert [line for line in lines if not PEER.fullmatch(line)] == []
    assert len(lines) == 2


def test_the_lines_of_a_proxy_behind_tls_hold_its_name() -> None:
    (line,) = peer_lines(WayOut(Upstream("https", "proxy.test", 8443), ("10.0.0.5",), own_roots=True)).splitlines()

    assert PEER.fullmatch(line)
    assert " ssldomain=proxy.test " in line
