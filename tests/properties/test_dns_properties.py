"""The DNS codec against dnslib, and against bytes that no resolver would send."""

from __future__ import annotations

import dnslib
from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.hosts import canonical_name
from gate import dns

LABEL = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=1, max_size=63)
NAME = st.lists(LABEL, min_size=1, max_size=6).map(".".join).filter(lambda name: len(name) <= 253)
CODES = st.sampled_from([dns.NO_ERROR, dns.SERVER_FAILURE, dns.NO_SUCH_NAME, dns.REFUSED])
WORD = st.integers(0, 0xFFFF)


def asked(name: str, kind: int, identity: int) -> bytes:
    """The question as dnslib writes it."""
    record = dnslib.DNSRecord(dnslib.DNSHeader(id=identity, rd=1), q=dnslib.DNSQuestion(name, kind))
    packed: bytes = record.pack()
    return packed


@given(NAME, WORD, WORD)
def test_a_question_means_what_dnslib_meant_by_it(name: str, kind: int, identity: int) -> None:
    """Name, type and identity survive; a name is given where the gate's own rule has one, in the same form."""
    query = dns.parse_query(asked(name, kind, identity))
    try:
        expected = canonical_name(name)
    except ValueError:
        expected = ""

    assert query is not None
    assert (query.identity, query.name, query.kind, query.fault) == (identity, expected, kind, dns.NO_ERROR)


@given(NAME, st.sampled_from([dns.TYPE_A, dns.TYPE_AAAA]), WORD, CODES, st.lists(st.integers(1, 255), max_size=8))
def test_dnslib_reads_every_answer_as_it_was_meant(
    name: str, kind: int, identity: int, code: int, hosts: list[int]
) -> None:
    """Code, question and records, with nothing else in the message."""
    query = dns.parse_query(asked(name, kind, identity))
    assert query is not None
    network, shown = (
        (b"\xc6\x12\x01", "198.18.1.{}") if kind == dns.TYPE_A else (b"\x20\x01" + b"\0" * 13, "2001::{:x}")
    )

    read = dnslib.DNSRecord.parse(dns.answer(query, code, *(network + bytes((host,)) for host in hosts)))

    assert (read.header.id, read.header.qr, read.header.rd, read.header.ra, read.header.rcode) == (
        identity,
        1,
        1,
        1,
        code,
    )
    assert [(str(question.qname), question.qtype) for question in read.questions] == [(f"{name}.", kind)]
    assert [str(record.rdata) for record in read.rr] == [shown.format(host) for host in hosts]
    assert (read.auth, read.ar) == ([], [])


@given(NAME, WORD)
def test_dnslib_reads_the_probes_question(name: str, identity: int) -> None:
    """`ask` writes what a resolver would."""
    read = dnslib.DNSRecord.parse(dns.ask(identity, name))

    assert (read.header.id, read.header.rd, str(read.q.qname), read.q.qtype) == (identity, 1, f"{name}.", dns.TYPE_A)


def mutated(packet: bytes, position: int, byte: int, cut: int) -> bytes:
    """A packet with one byte changed and its end cut off."""
    changed = bytearray(packet)
    changed[position % len(changed)] = byte
    return bytes(changed[: len(changed) - cut % len(changed)])


@given(
    st.one_of(
        st.binary(max_size=600), st.builds(mutated, st.builds(asked, NAME, WORD, WORD), WORD, st.integers(0, 255), WORD)
    )
)
def test_no_packet_makes_the_codec_raise_or_answer_garbage(packet: bytes) -> None:
    """Whatever comes, there is no answer, or one that a resolver can read and that belongs to the question."""
    query = dns.parse_query(packet)
    if query is None:
        return
    answer = dns.answer(query, query.fault)
    count = 1 if query.question else 0

    assert answer[:2] + answer[4:] == packet[:2] + bytes((0, count)) + b"\0" * 6 + query.question
    assert (answer[2] >> 7, answer[3] & 0xF) == (1, query.fault)
    assert query.question in packet
    assert len(answer) <= 512
    assert not query.name or canonical_name(query.name) == query.name
    # dnslib knows names of ASCII only.
    if query.name:
        assert str(dnslib.DNSRecord.parse(answer).q.qname).lower() == f"{query.name}."


@given(st.binary(max_size=600))
def test_no_packet_is_taken_for_the_answer_to_the_probe(packet: bytes) -> None:
    """Unless it repeats identity and question it proves nothing."""
    question = dns.ask(0x1234, "ok.aisb.internal")

    assert dns.address_in(packet, question) is None or packet[:2] == question[:2]
