"""
`.ai-sandbox/allow`: one entry a line, and comments.
"""

from __future__ import annotations

import re

from aisb.domain.text_file import text_of

# At the start of a line or after a blank; inside a word it belongs to the word, and the entry's grammar has its say.
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


def parse_allow_file(data: bytes, name: str) -> tuple[tuple[str, str], ...]:
    """
    The entries as they are written, each with its `name:line`; none where there are only comments.

    Raises UsageError for what is no text. What the entries mean is for the entries' own parser.
    """
    lines = (_COMMENT.sub("", line).strip(" \t") for line in text_of(data, name).split("\n"))
    return tuple((text, f"{name}:{number}") for number, text in enumerate(lines, start=1) if text)
