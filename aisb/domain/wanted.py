"""What a person asked for, as far as a plan follows from it: plain text still, checked where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.harnesses import PI

if TYPE_CHECKING:
    from aisb.domain.inject_flag import Injected
    from aisb.domain.layers import Setting
    from aisb.domain.limits import Limit
    from aisb.domain.publish import Published


class Wanted(NamedTuple):
    """
    One request's part of a plan. Each item of a list says where it was written; `origins` says it of the single values.
    `learn` is the verb's: nothing else can ask for it. `proxy` is a URL, and `proxy_auth` the name of a variable: its
    value is no part of a plan. `limits` are the caps, each with where it was written; `injections`
    say which variable goes where, and hold no value. `harness` is the agent that the image holds.
    `publish` are ports of the loopback that lead inside: the command line's alone.
    """

    net: str
    allow: tuple[Setting, ...]
    environment: tuple[Setting, ...]
    install: tuple[Setting, ...]
    base_image: str
    ca_bundle: str
    node_origin: str
    idle_seconds: int
    origins: tuple[tuple[str, str], ...] = ()
    learn: bool = False
    proxy: str = ""
    proxy_auth: str = ""
    no_gate: bool = False
    limits: tuple[Limit, ...] = ()
    injections: tuple[Injected, ...] = ()
    harness: str = PI
    node_line: str = ""
    customize: str = ""
    publish: tuple[Published, ...] = ()

    def packages(self) -> tuple[str, ...]:
        """The packages to install, as they were written."""
        return tuple(package.value for package in self.install)
