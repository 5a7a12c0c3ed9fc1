"""The key store that a JVM reads, taken apart again as the format has it."""

from __future__ import annotations

import base64
import hashlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from gate.java import key_store, options


def pem(data: bytes) -> bytes:
    return b"# a name\n-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(data) + b"-----END CERTIFICATE-----\n"


def taken_apart(store: bytes) -> list[tuple[str, bytes]]:
    """Alias and certificate of each entry."""
    body, checksum = store[:-20], store[-20:]
    assert hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest() == checksum
    magic, version, count = struct.unpack(">III", body[:12])
    assert (magic, version) == (0xFEEDFEED, 2)
    entries, rest = [], body[12:]
    for _ in range(count):
        tag, length = struct.unpack(">IH", rest[:6])
        assert tag == 2
        alias, rest = rest[6 : 6 + length].decode(), rest[6 + length + 8 :]
        (length,) = struct.unpack(">H", rest[:2])
        kind, rest = rest[2 : 2 + length], rest[2 + length :]
        assert kind == b"X.509"
        (length,) = struct.unpack(">I", rest[:4])
        entries.append((alias, rest[4 : 4 + length]))
        rest = rest[4 + length :]
    assert rest == b""
    return entries


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=4))
def test_every_certificate_of_the_bundle_is_in_the_store(certificates: list[bytes]) -> None:
    found = taken_apart(key_store(b"".join(map(pem, certificates))))

    assert found == [(f"root-{number}", data) for number, data in enumerate(certificates)]


def test_what_is_no_base64_is_left_out() -> None:
    broken = b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"

    assert taken_apart(key_store(broken + pem(b"good"))) == [("root-0", b"good")]


def test_what_the_user_wrote_comes_last() -> None:
    own = b"-Djavax.net.ssl.trustStore=/run/user/1000/aisb/java-roots.jks -Djavax.net.ssl.trustStoreType=JKS"

    assert (options(b""), options(b"-Xmx1g")) == (own, own + b" -Xmx1g")
