"""A checksum database of Go's modules with one record, as files: signed as real ones are (golang.org/design/25530-sumdb)."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "sums.test"
# A key of nobody's: what it signs is believed by who is told its other half, for the length of a test.
_SEED = hashlib.sha256(NAME.encode()).digest()
# Ed25519, by RFC 8032: the field, the order of the group, the curve's constant, the base point.
_FIELD = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_CURVE = -121665 * pow(121666, -1, _FIELD) % _FIELD
_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)
_ED25519 = b"\x01"

Point = tuple[int, int]


def write_sums(place: Path, module: str, version: str, lines: str) -> None:
    """What a proxy of modules at `place` hands out for the database, in which these lines of go.sum are the only record."""
    at = place / "sumdb" / NAME
    leaf = hashlib.sha256(b"\0" + lines.encode()).digest()
    head = f"go.sum database tree\n1\n{base64.b64encode(leaf).decode()}\n"
    signed = f"{head}\n\N{EM DASH} {NAME} {_encoded(_key_hash() + _sign(head.encode()))}\n"
    for path, data in {
        "supported": b"",
        "latest": signed.encode(),
        f"lookup/{module}@{version}": f"0\n{lines}\n{signed}".encode(),
        "tile/8/0/000.p/1": leaf,
    }.items():
        (at / path).parent.mkdir(parents=True, exist_ok=True)
        (at / path).write_bytes(data)


def verifier() -> str:
    """The database as GOSUMDB has it: its name, and the key that its signatures are checked with."""
    return f"{NAME}+{_key_hash().hex()}+{_encoded(_ED25519 + _public())}"


def _key_hash() -> bytes:
    return hashlib.sha256(f"{NAME}\n".encode() + _ED25519 + _public()).digest()[:4]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _public() -> bytes:
    return _packed(_times(_secret(), _BASE))


def _secret() -> int:
    number = int.from_bytes(hashlib.sha512(_SEED).digest()[:32], "little")
    return number & ~7 & ~(1 << 255) | 1 << 254


def _sign(message: bytes) -> bytes:
    once = _number(hashlib.sha512(_SEED).digest()[32:], message)
    commitment = _packed(_times(once, _BASE))
    answer = (once + _number(commitment, _public(), message) * _secret()) % _ORDER
    return commitment + answer.to_bytes(32, "little")


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % _ORDER


def _packed(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def _times(number: int, point: Point) -> Point:
    total = (0, 1)
    while number:
        if number & 1:
            total = _sum(total, point)
        point = _sum(point, point)
        number >>= 1
    return total


def _sum(one: Point, other: Point) -> Point:
    crossed = _CURVE * one[0] * other[0] * one[1] * other[1] % _FIELD
    x = (one[0] * other[1] + one[1] * other[0]) * pow(1 + crossed, -1, _FIELD)
    y = (one[1] * other[1] + one[0] * other[0]) * pow(1 - crossed, -1, _FIELD)
    return x % _FIELD, y % _FIELD
