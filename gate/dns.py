"""
The few DNS messages that a sandbox needs: a question is read, and answered from what is known here.

One question a message, class IN. Answers hold A or AAAA records or nothing; no packet is ever passed on.
Reading never raises: whatever the bytes, there is a Query with the fault to answer it with, or None
where no answer is due.
"""

from __future__ import annotations

import struct

NO_ERROR = 0
FORMAT_ERROR = 1
SERVER_FAILURE = 2
NO_SUCH_NAME = 3
NOT_IMPLEMENTED = 4
REFUSED = 5

TYPE_A = 1
TYPE_AAAA = 28
CLASS_IN = 1
# Short, so that what is allowed or denied while a run lasts is noticed soon.
TTL_SECONDS = 10

_HEADER = struct.Struct("!HHHHHH")
_IS_ANSWER = 0x8000
_OPCODE = 0x7800
_RECURSION_DESIRED = 0x0100
_RECURSION_AVAILABLE = 0x0080
_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_NAME_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")


class Query:
    """
    A question as it was asked.

    `question` holds its bytes, letter case included, to be repeated in the answer. `name` is the
    lower-case name, empty where it could be no host's. `fault` is the code of what is wrong with it.
    """

    __slots__ = ("fault", "flags", "identity", "kind", "name", "question")

    def __init__(
        self, identity: int, flags: int, question: bytes = b"", name: str = "", kind: int = 0, fault: int = NO_ERROR
    ) -> None:
        self.identity = identity
        self.flags = flags
        self.question = question
        self.name = name
        self.kind = kind
        self.fault = fault


def parse_query(packet: bytes) -> Query | None:
    """The question in `packet`. None for what is no question at all: it gets no answer."""
    if len(packet) < _HEADER.size:
        return None
    identity, flags, questions, _, _, _ = _HEADER.unpack_from(packet)
    if flags & _IS_ANSWER:
        return None
    if flags & _OPCODE:
        return Query(identity, flags, fault=NOT_IMPLEMENTED)
    labels, end = _labels(packet, _HEADER.size)
    if questions != 1 or labels is None or end + 4 > len(packet):
        return Query(identity, flags, fault=FORMAT_ERROR)
    kind, family = struct.unpack_from("!HH", packet, end)
    question = packet[_HEADER.size : end + 4]
    fault = NO_ERROR if family == CLASS_IN else REFUSED
    return Query(identity, flags, question, _host_name(labels), kind, fault)


def answer(query: Query, code: int, *addresses: bytes) -> bytes:
    """The answer to `query`: the code, and an A or AAAA record for each address."""
    flags = _IS_ANSWER | (query.flags & (_OPCODE | _RECURSION_DESIRED)) | _RECURSION_AVAILABLE | code
    header = _HEADER.pack(query.identity, flags, 1 if query.question else 0, len(addresses), 0, 0)
    return header + query.question + b"".join(_record(query.kind, address) for address in addresses)


def _record(kind: int, address: bytes) -> bytes:
    # 0xc00c points at the name in the question.
    return struct.pack("!HHHIH", 0xC00C, kind, CLASS_IN, TTL_SECONDS, len(address)) + address


def ask(identity: int, name: str, kind: int = TYPE_A) -> bytes:
    """The question for `name`, as a resolver would send it."""
    labels = b"".join(bytes((len(label),)) + label for label in name.encode("ascii").split(b"."))
    return _HEADER.pack(identity, _RECURSION_DESIRED, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, CLASS_IN)


def address_in(packet: bytes, question: bytes) -> bytes | None:
    """The one A record in the answer to `question` (made by `ask`), or None where there is none."""
    expected = len(question) + 16
    if len(packet) != expected or packet[:2] != question[:2] or packet[12 : len(question)] != question[12:]:
        return None
    _, flags, _, answers, _, _ = _HEADER.unpack_from(packet)
    if not flags & _IS_ANSWER or flags & 0xF or answers != 1:
        return None
    return packet[-4:]


def is_no_such_name(packet: bytes, question: bytes) -> bool:
    """Whether this is the answer to `question` (made by `ask`) that there is no such name."""
    if len(packet) != len(question) or packet[:2] != question[:2] or packet[12:] != question[12:]:
        return False
    flags = _HEADER.unpack_from(packet)[1]
    return bool(flags & _IS_ANSWER) and flags & 0xF == NO_SUCH_NAME


def _labels(packet: bytes, start: int) -> tuple[list[bytes] | None, int]:
    """The labels of the name at `start` and where it ends; None for a name that is cut off, too long or compressed."""
    labels: list[bytes] = []
    position = start
    while position < len(packet):
        length = packet[position]
        position += 1
        if not length:
            return labels, position
        if length > _LONGEST_LABEL or position + length > len(packet) or position - start > _LONGEST_NAME + 1:
            break
        labels.append(packet[position : position + length])
        position += length
    return None, position


def _host_name(labels: list[bytes]) -> str:
    """The name in lower case, or nothing where it is no host's: the same rule as the gate's `canonical_name`."""
    lowered = [label.lower() for label in labels]
    if not lowered or sum(map(len, lowered)) + len(lowered) - 1 > _LONGEST_NAME:
        return ""
    last = lowered[-1]
    if not all(map(_is_label, lowered)) or b"_" in last or _is_number(last):
        return ""
    return b".".join(lowered).decode("ascii")


def _is_label(label: bytes) -> bool:
    return _NAME_BYTES.issuperset(label) and not label.startswith(b"-") and not label.endswith(b"-")


def _is_number(label: bytes) -> bool:
    # A name that ends in one is read as an address by resolvers: 127.1, 0x7f.1.
    return label.isdigit() or (label.startswith(b"0x") and all(byte in b"0123456789abcdef" for byte in label[2:]))
