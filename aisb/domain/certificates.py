"""Certificates as PEM text, with nothing around them: bundles carry comments in any encoding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


def find_certificates(texts: Iterable[str]) -> str:
    """The certificates of these texts, each once, in their order; empty where there are none."""
    found = dict.fromkeys(match for text in texts for match in _CERTIFICATE.findall(text))
    return "".join(f"{certificate}\n" for certificate in found)
