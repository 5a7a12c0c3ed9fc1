"""The DNS messages of the sandbox's resolver."""

from __future__ import annotations

import pytest

from gate import dns
from gate.names import Names, target_of

QUESTION = b"\x07Allowed\x04test\x00\x00\x01\x00\x01"
ADDRESS = b"\xc6\x12\x01\x00"


def packet(question: bytes = QUESTION, flags: int = 0x0100, questions: int = 1) -> bytes:
    """A message as a resolver sends it."""
    return b"\x12\x34" + flags.to_bytes(2, "big") + questions.to_bytes(2, "big") + b"\0" * 6 + question


def need_query(data: bytes) -> dns.Query:
    """The query in `data`, which has one."""
    query = dns.parse_query(data)
    assert query is not None
    return query


def test_a_question_is_read_with_its_name_in_lower_case() -> None:
    """Names are compared without regard to case."""
    query = need_query(packet())

    assert (query.identity, query.name, query.kind, query.fault) == (0x1234, "allowed.test", dns.TYPE_A, dns.NO_ERROR)


def test_an_answer_repeats_the_question_as_it_was_spelled() -> None:
    """Some resolvers mix the case of letters and drop answers that do not repeat it."""
    answer = dns.answer(need_query(packet()), dns.NO_ERROR, ADDRESS)

    assert answer == (
        b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + QUESTION
        + b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x0a\x00\x04" + ADDRESS
    )  # fmt: skip


def test_a_refusal_repeats_the_question_too() -> None:
    """No such name: the header, the question, no record."""
    answer = dns.answer(need_query(packet()), dns.NO_SUCH_NAME)

    assert answer == b"\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00" + QUESTION


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(packet(flags=0x2900), dns.NOT_IMPLEMENTED, id="an update"),
        pytest.param(packet(questions=0), dns.FORMAT_ERROR, id="no question"),
        pytest.param(packet(questions=2), dns.FORMAT_ERROR, id="two questions"),
        pytest.param(packet(b"\xc0\x0c\x00\x01\x00\x01"), dns.FORMAT_ERROR, id="a compressed name"),
        pytest.param(packet(b"\x07allowed"), dns.FORMAT_ERROR, id="a name that is cut off"),
        pytest.param(packet(b"\x40" + b"a" * 64 + b"\0\0\1\0\1"), dns.FORMAT_ERROR, id="a label of 64"),
        pytest.param(packet((b"\x3f" + b"a" * 63) * 5 + b"\0\0\1\0\1"), dns.FORMAT_ERROR, id="a name of 320"),
        pytest.param(packet(QUESTION[:-1]), dns.FORMAT_ERROR, id="a question that is cut off"),
        pytest.param(packet(QUESTION[:-2] + b"\0\3"), dns.REFUSED, id="another class"),
    ],
)
def test_what_cannot_be_answered_gets_its_code(data: bytes, fault: int) -> None:
    """A faulty question is answered, so that nobody waits for a time-out."""
    assert need_query(data).fault == fault


@pytest.mark.parametrize(
    "data", [pytest.param(b"\0" * 11, id="too short"), pytest.param(packet(flags=0x8180), id="an answer")]
)
def test_what_is_no_question_gets_no_answer(data: bytes) -> None:
    """Answering an answer would make two resolvers talk for ever."""
    assert dns.parse_query(data) is None


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(b"\x03a.b\x04test\0", id="a dot in a label"),
        pytest.param(b"\x03a b\x04test\0", id="a blank"),
        pytest.param(b"\x03a\r\n\x04test\0", id="a line end"),
        pytest.param(b"\x02-a\x04test\0", id="a hyphen in front"),
        pytest.param(b"\x02a-\x04test\0", id="a hyphen behind"),
        pytest.param(b"\x01a\x05t_est\0", id="an underscore in the last label"),
        pytest.param(b"\x03127\x011\0", id="an address"),
        pytest.param(b"\x040x7f\x040x1f\0", id="an address in hexadecimal"),
        pytest.param(b"\x02\xc3\xa9\x04test\0", id="UTF-8"),
        pytest.param(b"\0", id="the root"),
    ],
)
def test_a_name_that_no_host_can_have_is_none(labels: bytes) -> None:
    """Such a name is never put to the bridge: its request line could not hold it."""
    query = need_query(packet(labels + b"\0\1\0\1"))

    assert (query.name, query.fault) == ("", dns.NO_ERROR)


def test_the_probe_reads_the_answer_to_its_question() -> None:
    """What `ask` asks and `answer` answers, `address_in` understands."""
    question = dns.ask(7, "ok.aisb.internal")

    assert dns.address_in(dns.answer(need_query(question), dns.NO_ERROR, ADDRESS), question) == ADDRESS


@pytest.mark.parametrize("code", [dns.NO_SUCH_NAME, dns.SERVER_FAILURE, dns.NO_ERROR])
def test_the_probe_takes_nothing_else_for_an_address(code: int) -> None:
    """No address, another question's answer, or a longer message is no proof."""
    question = dns.ask(7, "ok.aisb.internal")
    other = dns.answer(need_query(dns.ask(8, "ok.aisb.internal")), dns.NO_ERROR, ADDRESS)
    right = dns.answer(need_query(question), dns.NO_ERROR, ADDRESS)
    answers = [dns.answer(need_query(question), code), other, right + b"\0", b""]

    assert [dns.address_in(answer, question) for answer in answers] == [None] * 4


def test_each_name_has_an_address_of_its_own_that_says_which_name_it_was() -> None:
    """The first is 198.18.1.0; a name that is asked for again keeps its address."""
    names = Names()
    addresses = [names.address_of(name) for name in ("a.test", "b.test", "a.test")]

    assert addresses == [b"\xc6\x12\x01\x00", b"\xc6\x12\x01\x01", b"\xc6\x12\x01\x00"]
    assert [target_of(names, address) for address in addresses if address] == ["a.test", "b.test", "a.test"]


def test_addresses_end_and_are_never_used_twice() -> None:
    """A client may remember an address for ever, so there is none for the name that comes too late."""
    names = Names(2)

    assert [names.address_of(name) for name in ("a", "b", "c", "a")] == [
        b"\xc6\x12\x01\x00",
        b"\xc6\x12\x01\x01",
        None,
        b"\xc6\x12\x01\x00",
    ]


def test_the_last_address_is_the_last_of_198_18_0_0_15() -> None:
    """The ruleset knows where the made-up addresses end."""
    names = Names()
    names._names = ["x"] * ((1 << 17) - 257)

    assert names.address_of("last.test") == b"\xc6\x13\xff\xff"
    assert names.address_of("one.more.test") is None


@pytest.mark.parametrize(
    ("address", "target"),
    [
        pytest.param(b"\xcb\x00\x71\x0b", "203.0.113.11", id="v4"),
        pytest.param(b"\xc6\x12\x01\x00", "198.18.1.0", id="not made up yet"),
        pytest.param(b"\xc6\x12\x00\x01", "198.18.0.1", id="the resolver's"),
        pytest.param(b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\x11", "[2001:db8::11]", id="v6"),
    ],
)
def test_any_other_address_is_asked_for_as_it_is(address: bytes, target: str) -> None:
    """The gate judges it, and says no by its own reason."""
    assert target_of(Names(), address) == target
