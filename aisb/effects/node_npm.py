"""Node and npm as packages of npm's registry, fetched and checked by npm itself: the host's, or one in a container."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.assets import asset_path
from aisb.domain.images import NPM, NPM_VERSION, NodePin, PinnedBase, node_package, node_version
from aisb.effects.hold import DETACHED, HELD, hold
from aisb.effects.host import find_program
from aisb.effects.lending import lend
from aisb.effects.own_folder import own_folder
from aisb.effects.process import Command
from aisb.effects.progress import step
from aisb.effects.workshop import sha256_of
from aisb.errors import Unavailable
from aisb.render.argv import Mount

if TYPE_CHECKING:
    from aisb.domain.images import ImageSpec
    from aisb.effects.lending import Lent
    from aisb.effects.workshop import Workshop

_SECONDS = 900.0


def fetch_from_npm(shop: Workshop, spec: ImageSpec, lent: Lent, base: PinnedBase) -> NodePin:
    """The two packages in the cache. Raises Unavailable where npm does not bring them."""
    version = node_version(spec.node_line, base)
    packages = (f"{node_package(spec.platform)}@{version}", f"npm@{NPM_VERSION}")
    names = (f"{node_package(spec.platform)}-{version}.tgz", f"npm-{NPM_VERSION}.tgz")
    with own_folder(f"{shop.directories.cache}/fetching") as folder:
        with lend(shop, lent) as secrets:
            _pack(shop, base, packages, folder, dict(secrets))
        return NodePin(version, NPM, tuple((name, _take(shop, folder, name)) for name in names))


def _take(shop: Workshop, folder: str, name: str) -> str:
    path = f"{folder}/{name}"
    if not os.path.exists(path):
        raise Unavailable(f"npm fetched no {name}", hint="see what it says: npm pack, with the same name")
    os.replace(path, shop.archive(name))
    return sha256_of(shop.archive(name))


def _pack(shop: Workshop, base: PinnedBase, packages: tuple[str, ...], folder: str, secrets: dict[str, str]) -> None:
    npm = find_program("npm", shop.search_path)
    where = "" if npm else ", by a throw-away container, for this machine has no npm"
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        shop.report.tick()

    with step(shop.report, f"{packages[0]} from npm's registry{where}"):
        if npm:
            code = shop.runner.stream(_host_npm(shop, npm, packages, folder, secrets), on_line, shop.report.tick)
        else:
            with hold(folder, shop.report.note):
                command = throw_away(shop, base.source, Step(("fetch", *packages)), folder, secrets)
                code = shop.runner.stream(command, on_line, shop.report.tick)
    if code != 0:
        raise Unavailable(f"npm could not fetch {' and '.join(packages)}", hint="\n".join(lines[-20:]))


def npm_pack_arguments(packages: tuple[str, ...], configuration: str, cache: str) -> tuple[str, ...]:
    """npm's arguments; its client checks what it fetches against the registry's integrity hash."""
    return (
        "pack", "--ignore-scripts", "--no-update-notifier", "--loglevel", "warn", "--cache", cache,
        "--userconfig", configuration, *packages,
    )  # fmt: skip


def _host_npm(shop: Workshop, npm: str, packages: tuple[str, ...], folder: str, secrets: dict[str, str]) -> Command:
    extra = {"NODE_EXTRA_CA_CERTS": secrets["aisb-ca"]} if "aisb-ca" in secrets else {}
    arguments = npm_pack_arguments(packages, secrets.get("aisb-npmrc", "/dev/null"), f"{folder}/npm")
    return Command(argv=(npm, *arguments), timeout_seconds=_SECONDS, environment={**shop.proxies, **extra}, cwd=folder)


def container_argv(
    podman: str,
    image: str,
    words: tuple[str, ...],
    mounts: tuple[Mount, ...],
    variables: tuple[tuple[str, str], ...] = (),
) -> tuple[str, ...]:
    """podman's argv for a step of the setup that changes no image, in a container that is gone afterwards."""
    return (
        podman, "run", "--rm", "--pull=never", "--log-driver", "none", "--security-opt", "label=disable",
        "--tmpfs", "/run/aisb-scratch",
        *(f"--mount={mount.option()}" for mount in mounts),
        *(f"--env={name}={value}" for name, value in variables),
        "--workdir", "/run/aisb-fetched",
        "--user", "0",
        "--entrypoint", "/bin/sh",
        image,
        "/run/aisb-build/setup", "-", *words,
    )  # fmt: skip


class Step(NamedTuple):
    """A step of the setup with its arguments, variables for npm, and how long it may take."""

    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    seconds: float = _SECONDS


def throw_away(shop: Workshop, image: str, step: Step, folder: str, secrets: dict[str, str]) -> Command:
    """
    A step of the setup in a container with what the host lends, whose working directory is `folder`.

    The caller holds the folder for as long as it shall go on.
    """
    mounts = (
        Mount(asset_path("templates", "setup.sh"), "/run/aisb-build/setup", read_only=True),
        Mount(f"{folder}/{HELD}", f"/run/aisb-build/{HELD}", read_only=True),
        Mount(folder, "/run/aisb-fetched", read_only=False),
        *(Mount(path, f"/run/secrets/{name}", read_only=True) for name, path in secrets.items()),
    )
    argv = DETACHED + container_argv(shop.podman, image, step.words, mounts, step.variables)
    return Command(argv=argv, timeout_seconds=step.seconds, environment=shop.proxies)
