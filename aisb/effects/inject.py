"""Secrets of a run: taken out of what goes into the sandbox, and into what its own gate is handed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.inject_flag import git_variables, refuse_elsewhere, secrets_of
from aisb.domain.injection import secrets_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisb.domain.inject_flag import Injected


class Prepared(NamedTuple):
    """The variables of the sandbox with placeholders in them, and what its gate is handed in memory."""

    variables: dict[bytes, bytes]
    secrets: bytes


def prepare(
    injections: Sequence[Injected],
    variables: Mapping[bytes, bytes],
    environ: Mapping[bytes, bytes],
    command: Sequence[str],
) -> Prepared:
    """
    Take the values of what is injected out of `variables`; one that is not there is the caller's own.

    Raises UsageError where a value is not set, is no token, or stands in another variable or the command as well.
    """
    values = {
        item.variable: found
        for item in injections
        if (found := variables.get(os.fsencode(item.variable), environ.get(os.fsencode(item.variable)))) is not None
    }
    secrets, placeholders = secrets_of(injections, values, os.urandom)
    inside = {**git_variables(injections), **variables, **placeholders}
    places = {f"the variable {os.fsdecode(name)}": value for name, value in inside.items()}
    refuse_elsewhere(secrets, places | {"the command": "\0".join(command).encode("utf-8", "surrogateescape")})
    return Prepared(inside, secrets_json(secrets))
