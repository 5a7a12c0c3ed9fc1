"""Which provider of pi's gets a token: one token, one host."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.pi_values import DEFAULT_VARIABLE, SPELLINGS
from aisb.domain.variables import is_name, refuse_own
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisb.domain.layers import Setting
    from aisb.domain.pi_values import Place, Provider

_FORM = "write: --pi-token-env NAME, or --pi-token-env PROVIDER=NAME"


class Tokens(NamedTuple):
    """Provider -> its variable, and the providers that get none because nobody has said whose the token is."""

    variables: dict[str, str]
    undecided: tuple[Provider, ...] = ()


def assign(
    providers: Sequence[Provider], is_allowed: Callable[[Place], bool], variable: str, given: Mapping[str, str]
) -> Tokens:
    """
    The variable of each provider whose hosts are all allowed.

    `given` are those that were named one by one; all others share `variable`, "" for none, and where they are on
    different hosts none of them has it: a token never travels to another vendor because a model was switched.
    Raises UsageError for a name in `given` that the file does not have.
    """
    asking = [provider for provider in providers if provider.wants_key]
    names = [provider.name for provider in asking]
    for name in given:
        if name not in names:
            known = ", ".join(names) or "none"
            raise UsageError(f"--pi-token-env {name}: no provider of that name wants a key", hint=f"they are: {known}")
    open_ones = [one for one in asking if is_open(one, is_allowed)]
    variables = {one.name: given[one.name] for one in open_ones if one.name in given}
    rest = [one for one in open_ones if one.name not in given] if variable else []
    hosts = {host for one in rest for host, _ in one.places}
    if len(hosts) > 1:
        return Tokens(variables, tuple(rest))
    return Tokens(variables | {one.name: variable for one in rest})


def is_open(provider: Provider, is_allowed: Callable[[Place], bool]) -> bool:
    """Whether all that the provider speaks to may be reached."""
    return bool(provider.places) and all(map(is_allowed, provider.places))


def reference(package: str, variable: str) -> str:
    """How this pi names a variable in its configuration; "" for no variable."""
    return SPELLINGS[package].format(variable) if variable else ""


class Named(NamedTuple):
    """The variable that all providers share, "" for none, and those of single providers."""

    variable: str
    given: tuple[tuple[str, str], ...]


def parse_token_names(settings: Sequence[Setting]) -> Named:
    """
    The variables of `--pi-token-env`: of two for the same the later one counts.

    Where providers are named one by one, the others have none, unless a name for all was given too. Raises UsageError
    for what is not the name of a variable.
    """
    shared, given = "", {}
    for setting in settings:
        where = setting.named("pi-token-env")
        provider, equals, name = setting.value.rpartition("=")
        if not is_name(name) or (equals and not provider):
            # Not repeated: it may be the token itself.
            raise UsageError(f"{where}: this is not the name of a variable", hint=_FORM)
        refuse_own(name, where)
        if provider:
            given[provider] = name
        else:
            shared = name
    return Named(shared or ("" if given else DEFAULT_VARIABLE), tuple(given.items()))
