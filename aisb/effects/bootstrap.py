"""A base image from the distribution's own packages, by mmdebstrap, as the ordinary user."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.apt import render_suite
from aisb.domain.images import BASE_REPOSITORY
from aisb.effects.process import Command, run_ok
from aisb.effects.progress import step
from aisb.effects.workshop import sha256_of
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from aisb.effects.lending import Lent
    from aisb.effects.workshop import Workshop

_SECONDS = 1800.0
_IMPORT_SECONDS = 600.0
# No file of a base is newer than this, so that the same packages make the same bytes. Not 0: some archivers know no
# time before 1980.
_EPOCH = "946684800"
_KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)
# What mmdebstrap copies in or writes down of the host.
_FORGET_HOST = (
    'rm -f "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/sources.list.d/*'
)
_FORGET_MIRROR = (
    'echo "# The packages came from a mirror of the machine that made this base." > "$1"/etc/apt/sources.list'
)


class BootstrapView(NamedTuple):
    """What differs between one base and the next. `sources` is a file with the host's mirror, or empty."""

    program: str
    suite: str
    target: str
    keyring: str
    sources: str
    settings: str


class Bootstrapped(NamedTuple):
    """A base in podman's store."""

    source: str
    digest: str


def bootstrap_argv(view: BootstrapView) -> tuple[str, ...]:
    """mmdebstrap's argv."""
    return (
        view.program, "--mode=unshare", "--variant=minbase", "--format=tar",
        # Device nodes: not every version writes them, and podman brings its own.
        "--skip=output/dev",
        *((f"--keyring={view.keyring}",) if view.keyring else ()),
        *((f"--aptopt={view.settings}",) if view.settings else ()),
        f"--customize-hook={_FORGET_HOST}",
        *((f"--customize-hook={_FORGET_MIRROR}",) if view.sources else ()),
        view.suite,
        view.target,
        *((view.sources,) if view.sources else ()),
    )  # fmt: skip


def bootstrap(shop: Workshop, lent: Lent, suite: str) -> Bootstrapped:
    """Make a base of `suite` and import it."""
    program = shop.need_program("mmdebstrap", f"it makes the base bootstrap:{suite}")
    # mmdebstrap works as a subordinate user, who sees neither the cache nor the runtime directory.
    with tempfile.TemporaryDirectory(prefix="aisb-base-") as folder:
        target = f"{folder}/base.tar"
        with step(shop.report, f"base {suite} from the distribution's packages"):
            _run(shop, _view(program, suite, folder, lent), suite)
        with step(shop.report, f"importing the base, {os.path.getsize(target) // 1_000_000} MB"):
            return _import(shop, target, suite)


def _view(program: str, suite: str, folder: str, lent: Lent) -> BootstrapView:
    sources = render_suite(lent.sources, suite) if lent.distribution == "debian" else ""
    return BootstrapView(
        program=program,
        suite=suite,
        target=f"{folder}/base.tar",
        keyring=next((path for path in _KEYRINGS if os.path.exists(path)), ""),
        sources=_write(f"{folder}/sources.list", sources),
        settings=_write(f"{folder}/apt.conf", lent.apt_settings),
    )


def _write(path: str, text: str) -> str:
    """Write a file that has something in it; its path, or empty."""
    if not text:
        return ""
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    return path


def _run(shop: Workshop, view: BootstrapView, suite: str) -> None:
    command = Command(
        argv=bootstrap_argv(view),
        timeout_seconds=_SECONDS,
        environment={**shop.proxies, "SOURCE_DATE_EPOCH": _EPOCH},
    )
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        shop.report.tick()

    code = shop.runner.stream(command, on_line, shop.report.tick)
    if code != 0:
        raise Unavailable(
            f"the base bootstrap:{suite} could not be made: mmdebstrap exited {code}", hint=_explain(lines, suite)
        )


def _explain(lines: list[str], suite: str) -> str:
    tail = "\n".join(lines[-20:])
    if "NO_PUBKEY" in tail or "not signed" in tail or "Missing key" in tail:
        tail += f"\nthis machine does not know the keys of {suite}: apt-get install debian-archive-keyring"
    return tail


def _import(shop: Workshop, target: str, suite: str) -> Bootstrapped:
    digest = sha256_of(target)
    source = f"{BASE_REPOSITORY}:{suite}-{digest[:12]}"
    argv = (
        shop.podman, "import", "--quiet",
        "--message", f"the packages of {suite}",
        "--change", "LABEL aisb.role=base",
        "--change", f"LABEL aisb.base-ref=bootstrap:{suite}",
        target, source,
    )  # fmt: skip
    run_ok(shop.runner, Command(argv=argv, timeout_seconds=_IMPORT_SECONDS))
    return Bootstrapped(source, f"sha256:{digest}")
