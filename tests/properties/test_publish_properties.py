"""Whatever is written after `--publish` is a pair of ports that may be had, on the loopback alone, or an error with a way out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.layers import Setting
from aisb.domain.publish import TAKEN_INSIDE, Published, parse_published
from aisb.errors import UsageError

hosts = st.integers(1024, 65535)
ports = st.integers(1, 65535).filter(lambda port: port not in TAKEN_INSIDE)
numbers = st.integers(0, 70000)
addresses = st.sampled_from(["", "0.0.0.0", "127.0.0.2", "192.168.1.7", "localhost", "::", "[::]", "::1", "[::1]", "*"])
texts = (
    st.text()
    | st.text(alphabet="0123456789:.[]-/ tcpu١²")
    | st.builds("{}:{}".format, numbers, numbers)
    | st.builds("{}:{}:{}".format, addresses | st.just("127.0.0.1"), numbers, numbers)
    | st.builds("{}:{}".format, addresses, numbers)
)


def parse(*flags: str) -> tuple[Published, ...]:
    return parse_published([Setting(text, "--publish") for text in flags])


@given(hosts, ports)
def test_every_form_says_what_it_means(host: int, port: int) -> None:
    for text in (f"{host}:{port}", f"127.0.0.1:{host}:{port}"):
        assert parse(text) == (Published(host, port),)
    assert parse(Published(host, port).text()) == (Published(host, port),)


@given(hosts.filter(lambda port: port not in TAKEN_INSIDE))
def test_one_number_is_for_both_sides(port: int) -> None:
    assert parse(str(port)) == parse(f"{port}:{port}") == (Published(port, port),)


@given(texts)
def test_what_is_taken_may_be_had_and_what_is_not_comes_with_what_may(text: str) -> None:
    hints = ""
    try:
        items = parse(text)
    except UsageError as error:
        items, hints = (), error.hint or ""
    for right in re.findall(r"--publish ([^ ,]+)", hints):
        assert len(parse(right)) == 1
    for item in items:
        assert 1024 <= item.host <= 65535
        assert 1 <= item.port <= 65535
        assert item.port not in TAKEN_INSIDE
        assert re.fullmatch(r"(127\.0\.0\.1:)?[0-9]+(:[0-9]+)?", text)


@given(st.lists(st.tuples(hosts, ports), min_size=1, max_size=6))
def test_flags_add_up_and_no_port_of_either_side_is_had_twice(pairs: list[tuple[int, int]]) -> None:
    flags = [f"{host}:{port}" for host, port in pairs]
    if len({host for host, _ in pairs}) == len({port for _, port in pairs}) == len(pairs):
        assert parse(*flags) == tuple(Published(*pair) for pair in pairs)
    else:
        with pytest.raises(UsageError, match="already"):
            parse(*flags)
