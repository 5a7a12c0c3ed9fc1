"""
The two images: there already, or built now.

An image gets its name only after a throw-away run of it went well, so an interrupted or broken build leaves no
name behind, and whoever finds the name finds an image that starts.
"""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.base_image import DEFAULT_BASE
from aisb.domain.harnesses import PI
from aisb.domain.images import (
    GATE,
    NODE_LINE,
    SANDBOX,
    ImageInputs,
    ImageNames,
    ImageSpec,
    image_name,
    labels,
    oci_annotations,
)
from aisb.domain.presets import REGISTRIES_LABEL
from aisb.effects.adopt import adopted_inputs
from aisb.effects.base import need_base
from aisb.effects.build_log import BuildLog, build_log
from aisb.effects.hold import DETACHED, HELD, hold
from aisb.effects.image_inputs import known_inputs, read_inputs
from aisb.effects.lending import lend, read_lent
from aisb.effects.node import need_node
from aisb.effects.own_folder import own_folder
from aisb.effects.process import Command, run_ok
from aisb.effects.progress import step
from aisb.effects.registries import look_for_registries
from aisb.effects.state import write_whole
from aisb.effects.workshop import Workshop, alone
from aisb.errors import Unavailable
from aisb.render.images import (
    CONTAINERFILE,
    BuildView,
    build_argv,
    containerfile,
    image_inputs,
    image_names,
    label_argv,
    trial_argv,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.domain.images import PinnedBase
    from aisb.effects.lending import Lent

_BUILD_SECONDS = 3600.0
_TRIAL_SECONDS = 300.0
_OPEN_FOLDER = 0o755
_EPOCH = 946684800
_WHAT = {SANDBOX: "the sandbox image", GATE: "the gate image"}


class BuildRequest(NamedTuple):
    """
    What to build, and a file of extra certificates to trust while building, by its whole path.

    `customize` is the file that the user's own part of the Containerfile was named by. `base` is what to build on in
    the place of what is recorded; with `no_cache` everything is built anew.
    """

    spec: ImageSpec
    ca_bundle: str = ""
    customize: str = ""
    base: PinnedBase | None = None
    no_cache: bool = False


def build_images(request: BuildRequest, shop: Workshop) -> ImageNames:
    """
    The names of the two images, both in podman's store when this returns.

    Builds what is missing and nothing else. Raises Unavailable when the base, Node or a build cannot be had.
    """
    known = known_inputs(shop.directories.cache, request.spec, request.base)
    if known is None and request.base is None and not request.no_cache:
        known = adopted_inputs(shop, request.spec)
    if known and not request.no_cache and all(shop.has_image(name) for name in image_names(known)):
        return image_names(known)
    if not shop.may_fetch:
        raise Unavailable(
            "an image is not there, and nothing may be fetched to build it (--pull=never)",
            hint=f"build it where packages can be had: {same_build(request)}",
        )
    lent = read_lent(shop.runner, shop.environ, request.ca_bundle)
    base = need_base(shop, request.spec, lent, request.base)
    node = need_node(shop, request.spec, lent, base)
    inputs = read_inputs(request.spec, base, node)
    for role in (SANDBOX, GATE):
        _need_image(shop, role, inputs, lent, request)
    return image_names(inputs)


def same_build(request: BuildRequest) -> str:
    """The command line that asks for these images and does nothing else."""
    spec = request.spec
    given = (
        ("base-image", "" if spec.base.text == DEFAULT_BASE else spec.base.text),
        *(("install", package) for package in spec.install),
        ("customize", request.customize),
        ("ca-bundle", request.ca_bundle),
        ("node", "" if spec.node_line == NODE_LINE else spec.node_line),
        ("node-source", spec.node_origin),
        ("harness", "" if spec.harness == PI else spec.harness),
    )
    return shlex.join(["aisb", "build", *(word for name, text in given if text for word in (f"--{name}", text))])


def _need_image(shop: Workshop, role: str, inputs: ImageInputs, lent: Lent, request: BuildRequest) -> None:
    listed = image_inputs(role, inputs)
    name = image_name(role, listed)
    with alone(shop, name.replace("/", "-"), f"waiting for another build of {_WHAT[role]}"):
        if not request.no_cache and shop.has_image(name):
            return
        with _context(shop, role, inputs) as context, lend(shop, lent) as secrets, build_log(shop, name) as log:
            view = BuildView(
                podman=shop.podman,
                context=context,
                iid_file=f"{context}/iid",
                labels=labels(role, inputs, listed),
                secrets=secrets,
                no_cache=request.no_cache,
                annotations=oci_annotations(role, inputs),
            )
            image = _build(shop, role, view, log, same_build(request))
            if role == SANDBOX:
                image = _label(shop, image, view.annotations)
            _try(shop, role, image)
        run_ok(shop.runner, shop.podman_command("tag", image, name))


@contextmanager
def _context(shop: Workshop, role: str, inputs: ImageInputs) -> Iterator[str]:
    """The build context as a folder of exactly the listed files, for as long as the block runs."""
    with own_folder(f"{shop.directories.cache}/contexts") as folder:
        for file in inputs.files(role):
            _write(f"{folder}/{file.path}", file.data, file.mode)
        _write(f"{folder}/{CONTAINERFILE}", containerfile(role, inputs).encode(), 0o644)
        for name, _ in inputs.node.archives if role == SANDBOX else ():
            _link(shop.archive(name), f"{folder}/archives/{name}")
        _write(f"{folder}/build/{HELD}", b"", 0o644)
        _make_alike(folder)
        yield folder


def _write(path: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, data, mode)


def _make_alike(top: str) -> None:
    """
    Give everything below `top` the same times, and folders the same mode whatever the umask is.

    COPY takes the modes along. From 5.x on podman counts the times of what a step has mounted: without this no
    layer would ever be used again.
    """
    for folder, _, files in os.walk(top, topdown=False):
        for name in files:
            os.utime(f"{folder}/{name}", (_EPOCH, _EPOCH))
        if folder != top:
            os.chmod(folder, _OPEN_FOLDER)
            os.utime(folder, (_EPOCH, _EPOCH))


def _link(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _build(shop: Workshop, role: str, view: BuildView, log: BuildLog, again: str) -> str:
    """Build, and return the image's id. A failure names `again`, the line that tries this once more."""
    command = Command(argv=DETACHED + build_argv(view), timeout_seconds=_BUILD_SECONDS, environment=shop.proxies)
    log.line(f"$ {command.as_shell()}")
    with step(shop.report, f"building {_WHAT[role]}"), hold(f"{view.context}/build", shop.report.note):
        code = shop.runner.stream(command, log.line, shop.report.tick)
    if code != 0:
        raise Unavailable(
            f"{_WHAT[role]} could not be built: {log.cause or f'podman build exited {code}'}",
            hint="\n".join(
                [
                    *(f"| {line}" for line in log.tail),
                    f"the whole log: {log.path}",
                    "where a download failed, look at the network and the mirrors; then try again:",
                    f"  {again}",
                ]
            ),
        )
    with open(view.iid_file, encoding="ascii") as file:
        return file.read().strip()


def _label(shop: Workshop, image: str, annotated: tuple[tuple[str, str], ...]) -> str:
    """The image with what its own tools say of their registries; its id."""
    label = (REGISTRIES_LABEL, look_for_registries(shop, image))
    with own_folder(f"{shop.directories.cache}/contexts") as folder:
        _write(f"{folder}/{CONTAINERFILE}", f"FROM {image}\n".encode(), 0o644)
        view = BuildView(shop.podman, folder, f"{folder}/iid", (label,), (), annotations=annotated)
        run_ok(shop.runner, Command(argv=label_argv(view), timeout_seconds=_TRIAL_SECONDS))
        with open(view.iid_file, encoding="ascii") as file:
            return file.read().strip()


def _try(shop: Workshop, role: str, image: str) -> None:
    with step(shop.report, f"a first run of {_WHAT[role]}, for podman prepares it once"):
        run_ok(shop.runner, Command(argv=trial_argv(shop.podman, role, image), timeout_seconds=_TRIAL_SECONDS))
