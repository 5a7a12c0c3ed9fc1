"""`aisb build`: the two images, built where they are missing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say, write_stderr
from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.images import ImageSpec, parse_node_origin, parse_platform
from aisb.domain.packages import parse_packages
from aisb.effects.build import BuildRequest, build_images
from aisb.effects.host import need_host, need_ordinary_user, need_own_home
from aisb.effects.imports import need_own_imports_here
from aisb.effects.process import SystemRunner, TracingRunner
from aisb.effects.progress import Progress, Silence
from aisb.effects.situation import whole_path
from aisb.effects.state import directories
from aisb.effects.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Mapping


def build_verb(
    base_image: str,
    install: tuple[str, ...],
    ca_bundle: str,
    node_source: str,
    origins: Mapping[str, str],
    *,
    trace: bool,
    quiet: bool,
) -> None:
    """Build, and print the names of the images on stdout. `origins` says where a value was written."""
    spec = ImageSpec(
        base=parse_base_image(base_image or DEFAULT_BASE, origins["base-image"]),
        platform=parse_platform(os.uname().machine),
        install=parse_packages(package for argument in install for package in argument.split(",")),
        node_origin=parse_node_origin(node_source, origins["node-source"]),
    )
    need_own_imports_here("")
    need_ordinary_user()
    need_own_home(os.environ)
    where = directories(os.environ)
    runner = TracingRunner(SystemRunner(), say) if trace else SystemRunner()
    host = need_host(where.cache, runner, os.environ.get("PATH", ""), "")
    report = Silence() if quiet else Progress(write_stderr, terminal=sys.stderr.isatty())
    request = BuildRequest(spec, whole_path(ca_bundle, origins["ca-bundle"]))
    names = build_images(request, Workshop(host.podman, where, os.environ, runner, report))
    answer(f"{names.sandbox}\n{names.gate}\n")
