"""
The text of a configuration file: UTF-8 and nothing else, so that what a person reads is what counts.
"""

from __future__ import annotations

import re

from aisb.errors import UsageError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
# Whatever hides text from its reader: control characters, and those that turn the direction of writing.
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_LINE_END = re.compile("\r\n?|\n")


def text_of(data: bytes, name: str) -> str:
    """
    The text with `\\n` line ends and without a byte order mark. Raises UsageError with `name` and the line.
    """
    if data.startswith(_UTF16_BOMS):
        raise _refused(name, 1, "the file is in UTF-16, not in UTF-8")
    plain = data.removeprefix(_BOM)
    try:
        text = plain.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(plain[: error.start].decode("latin-1"))) + 1
        raise _refused(name, line, "a byte here is not UTF-8") from error
    text = _LINE_END.sub("\n", text)
    if hidden := _HIDDEN.search(text):
        line = text.count("\n", 0, hidden.start()) + 1
        raise _refused(name, line, f"there is a character here that cannot be seen (U+{ord(hidden[0]):04X})")
    return text


def _refused(name: str, line: int, why: str) -> UsageError:
    return UsageError(f"{name}:{line}: {why}", hint="save the file as plain UTF-8 text")
