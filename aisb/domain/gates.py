"""What `aisb gate` says of the gates that are there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# It has answered its own questions, past its own judgement; it runs and does not; there is none at the moment.
PROVED, WEDGED, ENDED = "proved", "wedged", "ended"
# squid speaks of its start, of lists that it reads anew and of its end as well; a line about a trouble has one of these
# words. Of the gate's other programs each line is about one, but for this.
_SQUIDS = re.compile(r"[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9:]{8}(?: kid[0-9]+)?\| ")
_TROUBLE = re.compile(
    r"warn|error|fatal|bug|fail|assert|except|abort|crash|cannot|can't|could not|unable|not |no such|refus|reject"
    r"|den(?:y|ied)|invalid|illegal|bad |timeout|timed out|too (?:many|large|long)|out of|exceed|exhaust|unreachable"
    r"|dead|lost|oom|kill",
    re.IGNORECASE,
)
_WELL = frozenset({"bridge: ready"})
# Of what squid says when all is well, the lines that have such a word.
_SAID_WELL = (
    "No cache_dir stores are configured",
    "Not currently OK to rewrite swap log",
    # It is started without root, and asks whether it has it.
    "WARNING: no_suid: setuid(0): (1) Operation not permitted",
)
_ENTRIES = ("addresses", "host_ports", "names", "rules")


class GateSeen(NamedTuple):
    """
    A gate as it is now.

    `name` is what the start lines show of it, `container` podman's name for it. `runs` are the runs that use it,
    `allows` how many entries its policy has, `seconds` how long it has been there, `fault` what is wrong with it.
    """

    name: str
    container: str
    directory: str
    state: str
    fault: str = ""
    runs: tuple[str, ...] = ()
    allows: int = 0
    seconds: float = 0.0


def troubles(log: str) -> list[str]:
    """The lines of a gate's log that are about something that went wrong."""
    found = []
    is_trouble = False
    for line in log.splitlines():
        # What is indented goes on with what was said before it.
        is_trouble = is_trouble if line.startswith((" ", "\t")) else _is_trouble(line)
        if is_trouble and line.strip():
            found.append(line)
    return found


def _is_trouble(line: str) -> bool:
    said = _SQUIDS.match(line)
    if not said:
        return line.strip() not in _WELL
    text = line[said.end() :].strip()
    return bool(_TROUBLE.search(text)) and not text.startswith(_SAID_WELL)


def count_entries(policy: str) -> int:
    """How many entries and rules a gate's policy has, in its canonical JSON; 0 for what is none."""
    try:
        document = json.loads(policy)
    except ValueError:
        return 0
    lists = [document.get(kind) for kind in _ENTRIES] if isinstance(document, dict) else []
    return sum(len(found) for found in lists if isinstance(found, list))


def chosen(gates: Sequence[GateSeen], names: Sequence[str]) -> list[GateSeen]:
    """The gates whose names begin so; all without a name. Raises UsageError for a name that is none's, or many's."""
    found = []
    for name in names:
        matching = [gate for gate in gates if gate.name.startswith(name)]
        if len(matching) != 1:
            what = "more than one gate" if matching else "no gate"
            there = ", ".join(gate.name for gate in matching or gates)
            raise UsageError(f"{name!r} names {what}", hint=f"they are: {there}" if there else "see: aisb gate status")
        found += matching
    return found if names else list(gates)
