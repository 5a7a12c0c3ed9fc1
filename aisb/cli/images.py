"""What the verbs of images have in common: which images are meant, and the workshop that they are made in."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.output import say, write_stderr
from aisb.cli.request import may_fetch, path_of
from aisb.cli.run import fragment_of
from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.freshness import parse_freshness
from aisb.domain.harnesses import PI, parse_harness
from aisb.domain.images import ImageSpec, parse_node_line, parse_node_origin, parse_platform
from aisb.domain.layers import BUILT_IN, COMMAND_LINE, Layer, Setting, added, strongest
from aisb.domain.packages import parse_packages
from aisb.domain.registry_mirror import VARIABLE, parse_registry_mirror
from aisb.effects.build import BuildRequest
from aisb.effects.host import need_host, need_ordinary_user, need_own_home
from aisb.effects.imports import need_own_imports_here
from aisb.effects.process import SystemRunner, TracingRunner
from aisb.effects.progress import Progress, Silence
from aisb.effects.situation import read_ca_bundle, whole_path
from aisb.effects.sources import user_layers
from aisb.effects.state import directories, preview_directories
from aisb.effects.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The flags that say which images are meant, besides --install.
FLAGS = ("base-image", "ca-bundle", "customize", "harness", "node", "node-source", "pull")


class ImageFlags(NamedTuple):
    """
    What the command line and variables say of the images.

    `given` holds each of FLAGS that was given, with where: its flag or its variable.
    """

    given: Mapping[str, Setting]
    install: tuple[str, ...]
    trace: bool = False
    quiet: bool = False


def images_meant(flags: ImageFlags) -> tuple[BuildRequest, Workshop]:
    """
    What to build, and where. Raises UsageError for what cannot be meant, before anything is touched.

    What is not given is what the user's configuration says, as for a run. What a project adds to its image is built by
    its first run.
    """
    install = {"install": tuple(Setting(package, "--install") for package in flags.install)}
    layers = (
        Layer(COMMAND_LINE, flags.given, install),
        *user_layers(preview_directories(os.environ)),
        Layer(BUILT_IN, {"base-image": Setting(DEFAULT_BASE, BUILT_IN), "harness": Setting(PI, BUILT_IN)}, {}),
    )
    scalars = {name: found for name in FLAGS if (found := strongest(layers, name)) is not None}
    request = _request(scalars, added(layers, "install"))
    freshness, fetch = parse_freshness(os.environ), may_fetch(scalars.get("pull"))
    parse_registry_mirror(os.environ.get(VARIABLE, ""))
    need_own_imports_here("")
    need_ordinary_user()
    need_own_home(os.environ)
    where = directories(os.environ)
    runner = TracingRunner(SystemRunner(), say) if flags.trace else SystemRunner()
    host = need_host(where.cache, runner, os.environ.get("PATH", ""), "")
    report = Silence() if flags.quiet else Progress(write_stderr, terminal=sys.stderr.isatty())
    shop = Workshop(host.podman, where, os.environ, runner, report, time.time(), freshness=freshness, may_fetch=fetch)
    return request, shop


def _request(scalars: Mapping[str, Setting], install: Sequence[Setting]) -> BuildRequest:
    base, ca = scalars["base-image"], scalars.get("ca-bundle")
    packages = {text: item.named("install") for item in install for text in item.value.split(",")}
    bundle, customize = (_whole(scalars.get(name), name) for name in ("ca-bundle", "customize"))
    # As a run does, also where both images are there and nothing of it would be read.
    read_ca_bundle(bundle, "", ca.named("ca-bundle") if ca else "")
    spec = ImageSpec(
        base=parse_base_image(base.value, base.named("base-image")),
        platform=parse_platform(os.uname().machine),
        install=parse_packages(packages, packages),
        node_origin=parse_node_origin(*_named(scalars, "node-source")),
        node_line=parse_node_line(*_named(scalars, "node")),
        harness=parse_harness(*_named(scalars, "harness")),
        fragment=fragment_of(customize, "", _named(scalars, "customize")[1]),
    )
    return BuildRequest(spec, bundle, customize)


def _named(scalars: Mapping[str, Setting], name: str) -> tuple[str, str]:
    """A value, "" for none, and what an error about it begins with."""
    setting = scalars.get(name)
    return (setting.value, setting.named(name)) if setting else ("", f"--{name}")


def _whole(setting: Setting | None, name: str) -> str:
    return whole_path(path_of(setting, name), setting.named(name)) if setting else ""
