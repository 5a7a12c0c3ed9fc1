"""The host's pi and a run: what goes along, what is said of it, and what is refused. Imported where there is one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.net import FULL, PINNED
from aisb.domain.pi_values import ImagePi, chosen_in
from aisb.domain.printing import printable
from aisb.effects.pi import bridged, opener, pi_of, read_pi
from aisb.effects.state import volumes_directory
from aisb.errors import UsageError
from aisb.render.pi import (
    AGENT_DIRECTORY,
    bridge_lines,
    missing_line,
    missing_of,
    others_line,
    others_of,
    token_text,
    trace_lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisb.cli.request import Request
    from aisb.domain.inject_flag import Injected
    from aisb.domain.pi_values import Bridge, Chosen, PiFiles, PiWish, Provider, Token
    from aisb.domain.policy import Policy
    from aisb.effects.plan import Plan, Question
    from aisb.effects.workshop import Workshop
    from aisb.render.pi import Missing

_FLAG = "--pi-inject"


class Along(NamedTuple):
    """What goes into a run for its pi: files below the home, variables, what the gate puts in, and what is said."""

    files: Mapping[str, str] = {}
    variables: Mapping[bytes, bytes] = {}
    injections: tuple[Injected, ...] = ()
    lines: tuple[str, ...] = ()

    def shown(self) -> dict[bytes, bytes]:
        """The variables that the sandbox has of it, by name: of what is injected, a placeholder."""
        return {**self.variables, **{os.fsencode(item.variable): b"" for item in self.injections}}


def read_host(request: Request, project: str, directory: str) -> PiFiles:
    """The configuration of the host's pi. Raises Untrusted for one that the agent of this run could write."""
    written = [os.path.realpath(wish.source) for wish in request.files.mounts if not wish.read_only]
    return read_pi(directory, [project, *written, volumes_directory(os.environ)])


def take_along(
    request: Request, found: PiFiles, plan: Plan, question: Question, shop: Workshop, variables: Mapping[bytes, bytes]
) -> Along:
    """
    What goes along. Raises UsageError where the command is pi and could not reach its model.

    `variables` are those of the command so far.
    """
    pi = pi_of(shop, plan.sandbox_image)
    wish = _wish_of(request, variables)
    made = bridged(shop.directories.cache, question.programs, found, pi, plan, wish, chosen_of(request))
    return along(request, made, plan.net, found.directory, variables, os.environb)


def look_along(request: Request, found: PiFiles, plan: Plan, variables: Mapping[bytes, bytes]) -> Along:
    """The same for a preview: nothing is kept, and the image is the one that would be built."""
    from aisb.domain.harnesses import PI_PACKAGE, PI_VERSION
    from aisb.domain.pi_bridge import bridge

    opened = opener(plan.net, plan.session_files["policy.json"])
    made = bridge(found, ImagePi(PI_PACKAGE, PI_VERSION), opened, _wish_of(request, variables), chosen_of(request))
    return along(request, made, plan.net, found.directory, variables, os.environb)


def tokens_of(request: Request, found: PiFiles, policy: Policy) -> tuple[tuple[str, str], ...]:
    """For a printed policy: each variable that pi takes a token from, set or not, with what it is for."""
    from aisb.domain.egress import policy_json
    from aisb.domain.harnesses import PI_PACKAGE, PI_VERSION
    from aisb.domain.pi_bridge import bridge

    names = {item.name.encode(): b"" for item in request.given}
    wish, opened = _wish_of(request, names), opener(policy.net, policy_json(policy.egress))
    made = bridge(found, ImagePi(PI_PACKAGE, PI_VERSION), opened, wish, chosen_of(request))
    own = {item.variable for item in request.wanted.injections}
    return tuple(
        (token.variable, token_text(token, stays=request.pi.inject or token.variable in own)) for token in made.tokens
    )


def _wish_of(request: Request, variables: Mapping[bytes, bytes]) -> PiWish:
    """What was asked for, with the names of all that goes in or is injected by itself."""
    names = {*map(os.fsdecode, variables), *(item.variable for item in request.wanted.injections)}
    return request.pi._replace(passed=tuple(sorted(names)))


def chosen_of(request: Request) -> Chosen:
    """What the command line says of the provider."""
    return chosen_in(request.command if request.harness else ())


def along(
    request: Request,
    made: Bridge,
    net: str,
    directory: str,
    variables: Mapping[bytes, bytes],
    environ: Mapping[bytes, bytes],
) -> Along:
    """The same from a bridge that is there."""
    values = {token.variable: _value(token.variable, variables, environ) for token in made.tokens}
    have = [token for token in made.tokens if values[token.variable]]
    unset = [token for token in made.tokens if not values[token.variable]]
    missing = missing_of(made, unset, request.pi, net)
    for item in missing if request.harness else ():
        if item.is_needed:
            raise UsageError(printable(item.what), hint=printable(item.hint))
    own = {item.variable for item in request.wanted.injections}
    injected = [token for token in have if request.pi.inject or token.variable in own]
    injections = _injections([token for token in injected if token.variable not in own], net)
    _refuse_in_files(injections, values, made)
    passed = [token for token in have if token not in injected]
    trace, others = request.has("trace"), others_of(made)
    lines = [
        *bridge_lines(made, passed, injected, directory, trace=trace),
        *_missing_lines(missing, others, is_pi=bool(request.harness)),
        *(trace_lines(others) if trace else ()),
    ]
    return Along(
        files={f"{AGENT_DIRECTORY}/{name}": text for name, text in made.files.items()},
        variables={os.fsencode(token.variable): values[token.variable] for token in passed},
        injections=injections,
        # Names in these files may hold anything, a line break too.
        lines=() if request.has("quiet") else tuple(map(printable, lines)),
    )


def _missing_lines(missing: Sequence[Missing], others: Sequence[Provider], *, is_pi: bool) -> list[str]:
    """What is missing, for another command in one line; pi itself is told of the rest alone."""
    if missing:
        return [missing_line(missing, () if is_pi else others), *([others_line(others)] if is_pi and others else [])]
    return [others_line(others)] if others else []


def _value(variable: str, variables: Mapping[bytes, bytes], environ: Mapping[bytes, bytes]) -> bytes:
    name = os.fsencode(variable)
    return variables.get(name, environ.get(name, b""))


def _injections(tokens: list[Token], net: str) -> tuple[Injected, ...]:
    """What has the gate put the tokens in. Raises UsageError where it cannot."""
    if not tokens:
        return ()
    # Few starts inject, and this imports what reads names.
    from aisb.domain.inject_flag import Injected
    from aisb.render.pi import shown

    if net in (FULL, PINNED):
        mode = "--net full" if net == FULL else "--no-gate"
        raise UsageError(f"{_FLAG} has no meaning under {mode}: there is no gate", hint="leave one of the two out")
    for token in tokens:
        for place in token.provider.places:
            if place[1] != 443:
                what = f"{_FLAG}: pi's provider {token.provider.name} is at {shown(place)}"
                raise UsageError(
                    f"{what}, and a gate puts tokens into requests over TLS on port 443 alone",
                    hint=f"leave it out; the token goes in then: {token.variable}",
                )
    found: dict[tuple[str, str], Injected] = {}
    for token in tokens:
        for host, header in [(host, header) for host, _ in token.provider.places for header in token.provider.headers]:
            item = Injected(token.variable, host, header, _FLAG)
            other = found.setdefault((host, header), item)
            if other.variable != item.variable:
                what = f"{_FLAG}: {other.variable} and {item.variable} would go into one header of {item.host}"
                raise UsageError(what, hint="give both providers one variable: --pi-token-env PROVIDER=NAME")
    return tuple(found.values())


def _refuse_in_files(injections: tuple[Injected, ...], values: Mapping[str, bytes], made: Bridge) -> None:
    """Raises UsageError where a token that is to stay outside stands in a file that goes in."""
    for item in injections:
        value = values[item.variable].decode("latin-1")
        for name, text in made.files.items():
            if value in text:
                raise UsageError(
                    f"{_FLAG}: the value of {item.variable} stands in {name} too, and would be in the sandbox",
                    hint="take it out there: only apiKey holds a key",
                )
