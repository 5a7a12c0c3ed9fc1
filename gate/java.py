"""
The JVM's own list of whom to trust: it reads neither a bundle of PEM nor the variables that name one.

The format is the oldest one, JKS, which every JVM reads: openjdk's sun.security.provider.JavaKeyStore writes it so.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from hashlib import sha1

KEY_STORE = "/run/user/1000/aisb/java-roots.jks"
VARIABLE = b"JAVA_TOOL_OPTIONS"
_MAGIC = 0xFEEDFEED
_VERSION = 2
_TRUSTED = 2
# A checksum against accidents, with the word that every JVM uses when it is told none.
_PASSWORD = "changeit"  # noqa: S105  # public
_CERTIFICATE = re.compile(b"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END CERTIFICATE-----")


def key_store(bundle: bytes) -> bytes:
    """The certificates of a PEM bundle as a key store. What is no base64 is left out."""
    certificates = _certificates(bundle)
    entries = b"".join(_entry(number, data) for number, data in enumerate(certificates))
    store = _number(_MAGIC) + _number(_VERSION) + _number(len(certificates)) + entries
    return store + sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()  # noqa: S324  # the format's


def options(given: bytes) -> bytes:
    """The variable's value: what the user wrote comes last and wins."""
    own = f"-Djavax.net.ssl.trustStore={KEY_STORE} -Djavax.net.ssl.trustStoreType=JKS".encode("ascii")
    return own + b" " + given if given else own


def _certificates(bundle: bytes) -> list[bytes]:
    found = []
    for match in _CERTIFICATE.finditer(bundle):
        try:
            found.append(a2b_base64(match[1]))
        except Error:
            continue
    return found


def _entry(number: int, certificate: bytes) -> bytes:
    made = (0).to_bytes(8, "big")
    return _number(_TRUSTED) + _text(f"root-{number}") + made + _text("X.509") + _number(len(certificate)) + certificate


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode("ascii")
