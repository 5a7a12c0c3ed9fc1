"""What holds for whatever is said of a run, in whatever order."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.addresses import AddressEntry
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.live import LiveEntry, live_entry, live_json, read_live, said
from aisb.domain.names import WEB_PORTS, NameEntry, covering_lines
from aisb.domain.rules import Engine

TEXTS = [
    "a.test", "b.a.test", "exact:b.a.test", "below:a.test", "c.test:22", "a.test:443", "exact:a.test:80", "10.1.0.0/16:80",
    "10.1.2.3", "10.1.2.3:80", "[2001:db8::5]:443", "d.test:22",
]  # fmt: skip
texts = st.sampled_from(TEXTS)
RULES = "GET d.test/**"
policies = st.lists(st.sampled_from([*TEXTS, RULES]), max_size=4)
actions = st.sampled_from(["allow", "deny"])
hosts = st.sampled_from(
    ["a.test", "b.a.test", "c.test", "x.c.test", "d.test", "evil.test", "10.1.2.3", "10.1.9.9", "2001:db8::5"]
)
ports = st.sampled_from([22, 80, 443, 8080])


def entry_of(action: str, text: str) -> LiveEntry:
    entry = parse_entry(text)
    assert isinstance(entry, NameEntry | AddressEntry)
    return live_entry(action, entry)


words = st.lists(st.builds(entry_of, actions, texts), max_size=5).map(lambda spoken: sum_up(spoken))


def sum_up(spoken: list[LiveEntry]) -> tuple[LiveEntry, ...]:
    result: tuple[LiveEntry, ...] = ()
    for entry in spoken:
        result = said(result, [entry])
    return result


def engine(entries: list[str]) -> Engine:
    return Engine(*gather((parse_entry(entry), "--allow") for entry in entries).policy)


def is_about(entry: LiveEntry, host: str, port: int) -> bool:
    """Word for word: the name, the names below it, or the addresses; at its ports, or at all."""
    if entry.ports and port not in entry.ports:
        return False
    if entry.match == "address":
        return not host[-1].isalpha() and ip_address(host) in ip_network(entry.host)
    is_below = host.endswith("." + entry.host)
    return {"exact": host == entry.host, "below": is_below, "tree": host == entry.host or is_below}[entry.match]


@given(policies, words, hosts, ports)
def test_the_last_word_about_a_connection_decides(
    entries: list[str], spoken: tuple[LiveEntry, ...], host: str, port: int
) -> None:
    before = engine(entries).judge(host, port)
    about = [entry for entry in spoken if is_about(entry, host, port)]

    after = engine(entries).with_live(spoken).judge(host, port)

    may_be_opened = host[-1].isalpha() and not (host == "d.test" and RULES in entries)
    last = about[-1].action if about else ""
    assert after.allowed is (last != "deny" and (before.allowed or (last == "allow" and may_be_opened)))


@given(policies, words, hosts.filter(lambda host: host[-1].isalpha()))
def test_a_name_resolves_where_some_port_is_open(entries: list[str], spoken: tuple[LiveEntry, ...], host: str) -> None:
    after = engine(entries).with_live(spoken)

    assert after.judge_name(host).allowed is any(after.judge(host, port).allowed for port in (22, 80, 443, 8080))


@given(words)
def test_what_is_written_is_read(spoken: tuple[LiveEntry, ...]) -> None:
    assert read_live(live_json(spoken)) == spoken


@given(policies, words, hosts, ports)
def test_squid_hears_of_every_name_that_is_opened(
    entries: list[str], spoken: tuple[LiveEntry, ...], host: str, port: int
) -> None:
    opened = [
        NameEntry(item.host, item.match, item.ports) for item in spoken if item.allows and item.match != "address"
    ]
    before, after = engine(entries), engine(entries).with_live(spoken)
    lines = covering_lines(opened)

    if after.judge(host, port).allowed and not before.judge(host, port).allowed:
        assert any(host == line.lstrip(".") or (line[0] == "." and host.endswith(line)) for line in lines)
        assert port in {*WEB_PORTS, *(number for item in opened for number in item.ports)}
    trees = [line for line in lines if line[0] == "."]
    assert not [line for line in lines for tree in trees if line != tree and f".{line.lstrip('.')}".endswith(tree)]
