"""`aisb build`: the two images, built where they are missing."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say, write_stderr
from aisb.cli.request import path_of
from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.images import ImageSpec, parse_node_origin, parse_platform
from aisb.domain.layers import COMMAND_LINE, Layer, Setting, added, strongest
from aisb.domain.packages import parse_packages
from aisb.effects.build import BuildRequest, build_images
from aisb.effects.host import need_host, need_ordinary_user, need_own_home
from aisb.effects.imports import need_own_imports_here
from aisb.effects.process import SystemRunner, TracingRunner
from aisb.effects.progress import Progress, Silence
from aisb.effects.registries import registries_of
from aisb.effects.situation import read_ca_bundle, whole_path
from aisb.effects.sources import user_layers
from aisb.effects.state import directories, preview_directories
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
    """
    Build, and print the names of the images on stdout. `origins` says where a value was written.

    What is not given is what the user's configuration says, as for a run. What a project adds to its image is built
    by its first run.
    """
    where = preview_directories(os.environ)
    layers = (_given(origins, base_image, ca_bundle, node_source, install), *user_layers(where))
    base, node = strongest(layers, "base-image"), strongest(layers, "node-source")
    packages = [
        Setting(text, written.origin) for written in added(layers, "install") for text in written.value.split(",")
    ]
    ca = strongest(layers, "ca-bundle")
    named = ca.named("ca-bundle") if ca else ""
    bundle = whole_path(path_of(ca), named)
    # As a run does, also where both images are there and nothing of it would be read.
    read_ca_bundle(bundle, "", named)
    spec = ImageSpec(
        base=parse_base_image(base.value, base.named("base-image")) if base else parse_base_image(DEFAULT_BASE),
        platform=parse_platform(os.uname().machine),
        install=parse_packages(
            (package.value for package in packages), {package.value: package.named("install") for package in packages}
        ),
        node_origin=parse_node_origin(node.value, node.named("node-source")) if node else parse_node_origin("", ""),
    )
    need_own_imports_here("")
    need_ordinary_user()
    need_own_home(os.environ)
    where = directories(os.environ)
    runner = TracingRunner(SystemRunner(), say) if trace else SystemRunner()
    host = need_host(where.cache, runner, os.environ.get("PATH", ""), "")
    report = Silence() if quiet else Progress(write_stderr, terminal=sys.stderr.isatty())
    shop = Workshop(host.podman, where, os.environ, runner, report, time.time())
    names = build_images(BuildRequest(spec, bundle), shop)
    registries_of(shop, names.sandbox)
    answer(f"{names.sandbox}\n{names.gate}\n")


def _given(
    origins: Mapping[str, str], base_image: str, ca_bundle: str, node_source: str, install: tuple[str, ...]
) -> Layer:
    """What flags and variables say."""
    values = {"base-image": base_image, "ca-bundle": ca_bundle, "node-source": node_source}
    scalars = {key: Setting(value, origins[key]) for key, value in values.items() if value}
    return Layer(COMMAND_LINE, scalars, {"install": tuple(Setting(package, "--install") for package in install)})
