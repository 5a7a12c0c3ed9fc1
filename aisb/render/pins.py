"""
The names of a sandbox without a gate, as its relay reads them, and their addresses, as its ruleset is completed with.

Apart from the templates: what a name leads to is looked up at each start, and nothing else is rendered then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisb.domain.no_gate import Pinned


def pin_lines(pinned: Pinned) -> str:
    """The names with their addresses, a name a line, as gate/pins.py reads them."""
    return "".join(f"{' '.join((item.name, *item.addresses))}\n" for item in pinned.names)


def pin_elements(pinned: Pinned) -> str:
    """The open pairs of address and port, in the words of nft."""
    return "".join(_elements(pinned.opened))


def _elements(opened: Sequence[tuple[str, int]]) -> Iterator[str]:
    for name, is_v6 in (("pinned4", False), ("pinned6", True)):
        pairs = [f"{address} . {port}" for address, port in opened if (":" in address) == is_v6]
        if pairs:
            yield f"add element inet aisb {name} {{ {', '.join(pairs)} }}\n"
