"""What is newer than what the two images hold: asked of registries and mirrors, with nothing built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.base_image import BOOTSTRAP
from aisb.domain.harnesses import PI, PI_PACKAGE, PI_VERSION
from aisb.domain.images import NPM, node_package
from aisb.domain.updates import (
    CURRENT,
    NEWER,
    UNKNOWN,
    Found,
    Looked,
    compared,
    newest_version,
    parse_looked,
)
from aisb.effects.base import look_up
from aisb.effects.hold import hold
from aisb.effects.image_inputs import known_inputs
from aisb.effects.lending import lend, read_lent
from aisb.effects.look import packages_of
from aisb.effects.node_mirror import NoMirror, find_newest, parse_mirror
from aisb.effects.node_npm import Step, throw_away
from aisb.effects.own_folder import own_folder
from aisb.effects.pins import read_base_pin
from aisb.effects.progress import step
from aisb.errors import Unavailable
from aisb.render.images import image_names

if TYPE_CHECKING:
    from aisb.domain.images import ImageInputs, ImageSpec
    from aisb.effects.build import BuildRequest
    from aisb.effects.lending import Lent
    from aisb.effects.workshop import Workshop

_SECONDS = 300.0
# npm waits 70 s otherwise before it says that there is no network.
_IMPATIENT = (("npm_config_fetch_retries", "0"), ("npm_config_fetch_timeout", "30000"))
_NOT_BUILT = "the images are not built yet: aisb build"
_SQUID = "squid-openssl"


def check_updates(shop: Workshop, request: BuildRequest) -> dict[str, Found]:
    """Each of ITEMS, in their order."""
    lent = read_lent(shop.runner, shop.environ, request.ca_bundle)
    return {"base": _base(shop, request.spec, lent), **check_contents(shop, request, lent)}


def check_contents(shop: Workshop, request: BuildRequest, lent: Lent) -> dict[str, Found]:
    """Each of ITEMS but the base."""
    inputs = known_inputs(shop.directories.cache, request.spec)
    if inputs is None or not all(shop.has_image(name) for name in image_names(inputs)):
        unbuilt = Found(UNKNOWN, reason=_NOT_BUILT)
        return {"packages": unbuilt, "node": unbuilt, "harness": unbuilt, "squid": unbuilt}
    names = image_names(inputs)
    looked = _look_inside(shop, request.spec, lent, names.sandbox)
    squid = next((package.version for package in packages_of(shop, names.gate) if package.name == _SQUID), "")
    return {
        "packages": _packages(looked, inputs.base.generation),
        "node": _node(shop, request.spec, lent, inputs, looked),
        "harness": _agent(looked, inputs),
        "squid": compared(squid, looked.squid, reason=_apt_reason(looked)),
    }


def _base(shop: Workshop, spec: ImageSpec, lent: Lent) -> Found:
    known = read_base_pin(shop.directories.cache, spec.base)
    if known is None:
        return Found(UNKNOWN, reason="it was never looked up: aisb build")
    # One of the distribution's packages is as new as these; a digest is what it is.
    if spec.base.kind == BOOTSTRAP or spec.base.digest:
        return Found(CURRENT, known.digest)
    try:
        found = look_up(shop, spec, lent, known)
    except Unavailable as error:
        return Found(UNKNOWN, known.digest, reason=error.message)
    return compared(known.digest, found.digest)


def _look_inside(shop: Workshop, spec: ImageSpec, lent: Lent, sandbox: str) -> Looked:
    """Ask apt and npm as a build would, in a throw-away container of the image."""
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        shop.report.tick()

    packages = (_node_asked(spec), *([_agent_asked()] if spec.harness == PI else []))
    asked = Step(("newer", *packages), _IMPATIENT, _SECONDS)
    with (
        step(shop.report, "asking apt and npm what is newer, in a throw-away container"),
        own_folder(f"{shop.directories.cache}/fetching") as folder,
        lend(shop, lent) as secrets,
        hold(folder, shop.report.note),
    ):
        command = throw_away(shop, sandbox, asked, folder, dict(secrets))
        try:
            code = shop.runner.stream(command, on_line, shop.report.tick)
        except Unavailable as error:
            return Looked(trouble=error.message)
    looked = parse_looked("\n".join(lines))
    return looked if code == 0 or looked.trouble else looked._replace(trouble=f"podman exited {code}")


def _node_asked(spec: ImageSpec) -> str:
    return f"{node_package(spec.platform)}@{spec.node_line}"


def _agent_asked() -> str:
    """pi within its major version: what aisb hands it is made for that."""
    return f"{PI_PACKAGE}@{PI_VERSION.partition('.')[0]}"


def _packages(looked: Looked, generation: str) -> Found:
    now = f"generation {generation}"
    if not looked.has_lists:
        return Found(UNKNOWN, now, reason=_apt_reason(looked))
    return Found(NEWER if looked.upgrades else CURRENT, now, ", ".join(looked.upgrades))


def _apt_reason(looked: Looked) -> str:
    return looked.trouble or "apt has no such package"


def _node(shop: Workshop, spec: ImageSpec, lent: Lent, inputs: ImageInputs, looked: Looked) -> Found:
    if inputs.node.origin == NPM:
        return _by_npm(looked, _node_asked(spec), inputs.node.version)
    now = inputs.node.version
    try:
        newest = find_newest(shop, spec, lent, parse_mirror(shop.environ.get("AISB_NODE_MIRROR", "")), now)
    except NoMirror as error:
        return Found(UNKNOWN, now, reason=str(error))
    return compared(now, newest)


def _agent(looked: Looked, inputs: ImageInputs) -> Found:
    # Of another agent than pi the version is this release's own, and an update brings no other.
    if inputs.harness.name != PI:
        return Found(CURRENT, inputs.agent_version)
    return _by_npm(looked, _agent_asked(), inputs.agent_version)


def _by_npm(looked: Looked, asked: str, now: str) -> Found:
    newest = newest_version(looked.latest.get(asked, ""), now)
    return compared(now, newest, reason=f"npm could not say what {asked} is")
