"""The user's configuration as each run reads it: every value, whatever the run is for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aisb.cli.request import read_login, read_request
from aisb.cli.run import mounts_of, question_of
from aisb.cli.splitter import Split
from aisb.domain.policy import with_presets
from aisb.domain.upstream import parse_upstream
from aisb.domain.variables import values_of
from aisb.effects.make_plan import read_policy, shown
from aisb.effects.sources import Sources, user_layers
from aisb.effects.state import preview_directories

if TYPE_CHECKING:
    from collections.abc import Mapping

# A run in no directory: what a project says is asked for where the project is.
_ANY_RUN = Split("run", (("no-cwd", ""),), ("true",), ())


def need_configuration(environ: Mapping[str, str]) -> bool:
    """Whether there is a configuration file. Raises as a run does for what it or an `AISB_*` variable says wrong."""
    where = preview_directories(environ)
    sources = Sources(layers=user_layers(where))
    request = read_request(_ANY_RUN, environ, sources.layers)
    given = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    values_of(request.given, given)
    read_login(request, given)
    mounts_of(request, sources, "", where)
    question = question_of(request, sources, "", "pasta")
    # What presets stand for is read off the image, which has a check of its own.
    shown(with_presets(read_policy(question), dict))
    if request.wanted.proxy:
        parse_upstream(request.wanted.proxy, request.origin("proxy"))
    return bool(sources.layers)
