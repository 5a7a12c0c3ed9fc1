"""
pi's JSON, as pi reads it: models.json may have `//` comments and trailing commas, settings.json may not.

The source is pi's own reader (its `stripJsonComments`, and JSON.parse).
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

# A string is matched first, so that nothing inside of one is taken for a comment or a comma. So is one that does not
# end: it would be looked through again from each quote in it.
_STRING = r'"(?:\\.|[^"\\\n])*"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*")
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_DEEPEST = 100


def parse_pi_json(data: bytes, name: str, *, comments: bool) -> dict[str, Any]:
    """
    The object that a file of pi's holds. Raises UsageError with `name:line:column` for anything else.

    `comments` also allows line comments and trailing commas. What is JSON to Python alone, NaN for one, is refused.
    """
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(f"{name}:{line}", "a byte here is not UTF-8") from error
    plain = _blank(_TRAILING_COMMA, _blank(_COMMENT, text)) if comments else text
    try:
        document = json.loads(plain, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _refused(f"{name}:{error.lineno}:{error.colno}", _in_words(error.msg)) from error
    except (ValueError, RecursionError) as error:
        raise _refused(f"{name}:1:1", _in_words(str(error))) from error
    if not isinstance(document, dict):
        raise _refused(f"{name}:1:1", "this is no object")
    if _is_deeper(document, _DEEPEST):
        raise _refused(f"{name}:1:1", "this is nested too deeply")
    return document


def pi_json(document: dict[str, Any]) -> str:
    """The text that pi reads: ASCII alone, so that every string that JSON can say survives."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with what `pattern` finds outside of strings made blank: lines and columns stay what they are."""
    return pattern.sub(lambda match: match[0] if match[0].startswith('"') else " " * len(match[0]), text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number that pi can hold")
    return number


def _is_deeper(value: object, most: int) -> bool:
    """Whether there is something below so many levels; level by level, so that no depth is too much for it."""
    level = [value]
    for _ in range(most):
        level = [child for item in level for child in _children(item)]
    return bool(level)


def _children(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _in_words(message: str) -> str:
    return f"this is no JSON: {message[:1].lower()}{message[1:]}"


def _refused(place: str, why: str) -> UsageError:
    return UsageError(f"{place}: {why}", hint="mend the file, or run without it: --no-pi-config")
