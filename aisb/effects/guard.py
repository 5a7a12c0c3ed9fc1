"""A project's shield for the time of a run: raised before it, compared with afterwards, and taken down."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.placeholders import Claim, remove_left_over
from aisb.effects.session import living
from aisb.effects.shield import Shield, Wishes, identity, look
from aisb.effects.state import read_if_there
from aisb.effects.tree import Tree
from aisb.errors import Unprotected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from aisb.effects.session import Session

# In a session's directory, and in no sandbox: what its agent can write, and what of that it cannot replace.
ROOTS = "roots.json"


class Root(NamedTuple):
    """A directory that can be written inside, where it is there, and what is to be protected in it."""

    source: str
    target: str
    wishes: Wishes


class Guard(NamedTuple):
    """
    The shield of a run. `held` are descriptors for podman: while somebody has them, nothing of the shield is removed.

    `release` gives up this run's part in it; the guardian does so where we cannot.
    """

    shield: Shield
    held: tuple[int, ...]
    release: Callable[[], None]


@contextlib.contextmanager
def guarded(roots: Iterable[Root], state: str, patience: float = 0) -> Iterator[Guard]:
    """
    Raise the shield for as long as the block runs. `roots` are what can be written inside, the project first.

    What runs have left that were killed is removed first; `patience` is how long to wait for it to be let go of.
    """
    remove_left_over(state, patience)
    claims: list[Claim] = []

    def release() -> None:
        for claim in claims:
            claim.release()

    try:
        shields = []
        for root in roots:
            claims.append(Claim(state, root.source))
            claims[-1].take()
            with Tree(root.source) as tree:
                shields.append(look(tree, root.target, root.wishes, claims[-1]))
        yield Guard(joined(shields), tuple(claim.held for claim in claims), release)
    finally:
        release()


def joined(shields: Sequence[Shield]) -> Shield:
    """One shield of several."""
    return Shield(
        covers=tuple(cover for shield in shields for cover in shield.covers),
        masks=tuple(mask for shield in shields for mask in shield.masks),
        watched=tuple(item for shield in shields for item in shield.watched),
        survey=shields[0].survey if shields else None,
        surveys=tuple(item for shield in shields for item in shield.surveys),
        bare=tuple(path for shield in shields for path in shield.bare),
        in_vain=tuple(path for shield in shields for path in shield.in_vain),
        unmatched=tuple(flag for shield in shields for flag in shield.unmatched),
    )


def roots_of(roots: Iterable[str], covers: Iterable[str]) -> str:
    """The file `roots.json`: for each directory that is writable inside, by device and inode, what is covered in it."""
    covered = list(covers)
    places = {identity(os.stat(root)): root for root in roots}
    return json.dumps(
        {key: [path.removeprefix(root + "/") for path in covered if path.startswith(root + "/")]
         for key, root in places.items()}
    )  # fmt: skip


def need_own_covers(covers: Iterable[str], session: Session, runtime: str) -> None:
    """
    Raise Unprotected where an agent of another run could replace one of these places while it is mounted here.

    One whose run covers it as well cannot. Any other could put a link there at the right moment, which would lay its
    own files over this sandbox's programs.
    """
    for other, path in _replaceable(covers, runtime):
        if other.run != session.run:
            raise Unprotected(
                f"the agent of run {other.run} can replace {path}, "
                "which was not there or not protected when that run began",
                hint=f"end that run first: aisb stop {other.run}",
            )


def runs_that_can_replace(path: str, runtime: str) -> list[str]:
    """The ids of the runs that go on whose agent could put something else in the place of this path."""
    return list(dict.fromkeys(other.run for other, _ in _replaceable([path], runtime)))


def _replaceable(covers: Iterable[str], runtime: str) -> Iterator[tuple[Session, str]]:
    """The runs that go on, each with what its agent can replace of these places."""
    ways = {path: _ways_to(path) for path in covers}
    for other in living(runtime) if ways else ():
        roots = _roots(f"{other.path}/{ROOTS}")
        for path, way in ways.items():
            if any(key in roots and rest not in roots[key] for key, rest in way.items()):
                yield other, path


def _ways_to(path: str) -> dict[str, str]:
    """The path as it is from each directory around it, by that directory's device and inode."""
    found = {}
    above = os.path.dirname(path)
    while True:
        with contextlib.suppress(OSError):
            found[identity(os.stat(above))] = path[len(above.rstrip("/")) + 1 :]
        if above == "/":
            return found
        above = os.path.dirname(above)


def _roots(path: str) -> dict[str, list[str]]:
    try:
        found = json.loads(read_if_there(path) or b"{}")
        return {str(key): [str(item) for item in paths] for key, paths in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}
