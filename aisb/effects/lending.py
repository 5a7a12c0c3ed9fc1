"""
What the host lends to a build: its mirrors, its proxies, its certificates. Read here, used in a build as secrets.

They lie in the runtime directory, in memory, for as long as a build lasts, and reach no layer, label or log.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.apt import AptSource, lent_settings, parse_sources, render_sources
from aisb.domain.certificates import find_certificates
from aisb.domain.npmrc import certificate_files, merge_npmrc
from aisb.effects.host import find_program
from aisb.effects.own_folder import own_folder
from aisb.effects.process import Command
from aisb.effects.state import read_if_there
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aisb.effects.process import Runner
    from aisb.effects.workshop import Workshop

# Where distributions keep the certificates that their users trust, a company's own among them.
_SYSTEM_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_NPMRC = ("/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc")


class Lent(NamedTuple):
    """The host's settings, as text. Empty is: nothing to lend."""

    distribution: str
    sources: tuple[AptSource, ...]
    apt_settings: str
    npmrc: str
    certificates: str

    def secrets(self) -> tuple[tuple[str, str], ...]:
        """The build secrets by their ids, those with something in them."""
        all_of_them = (
            ("aisb-apt-conf", self.apt_settings),
            ("aisb-apt-sources", render_sources(self.sources, self.distribution)),
            ("aisb-ca", self.certificates),
            ("aisb-npmrc", self.npmrc),
        )
        return tuple((name, text) for name, text in all_of_them if text)


def read_lent(runner: Runner, environ: Mapping[str, str], ca_bundle: str) -> Lent:
    """Everything that this host has to lend."""
    release = _os_release()
    npmrcs = _npmrc_texts(environ)
    return Lent(
        distribution=release.get("ID", ""),
        sources=parse_sources(_source_files(), release.get("VERSION_CODENAME", ""), _text),
        apt_settings=_apt_settings(runner),
        npmrc=merge_npmrc(npmrcs, environ),
        certificates=_certificates(environ, ca_bundle, certificate_files(npmrcs, environ)),
    )


def _os_release() -> dict[str, str]:
    lines = (_text("/etc/os-release") or _text("/usr/lib/os-release")).splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key: value.strip("\"'") for key, _, value in pairs}


def _source_files() -> list[tuple[str, str]]:
    folder = "/etc/apt/sources.list.d"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = ["/etc/apt/sources.list", *(f"{folder}/{name}" for name in names if name.endswith((".list", ".sources")))]
    return [(path, _text(path)) for path in paths]


def _apt_settings(runner: Runner) -> str:
    program = find_program("apt-config")
    if program is None:
        return ""
    finished = runner.run(Command(argv=(program, "dump"), timeout_seconds=30))
    return lent_settings(finished.stdout.decode("utf-8", "replace")) if finished.code == 0 else ""


def _npmrc_texts(environ: Mapping[str, str]) -> list[str]:
    user = environ.get("NPM_CONFIG_USERCONFIG") or environ.get("npm_config_userconfig")
    return [_text(path) for path in (*_NPMRC, user or f"{environ.get('HOME', '')}/.npmrc")]


def _certificates(environ: Mapping[str, str], ca_bundle: str, more: Iterable[str]) -> str:
    if ca_bundle and not find_certificates([_text(ca_bundle)]):
        raise UsageError(f"--ca-bundle {ca_bundle}: there are no PEM certificates in it", hint="name a PEM file")
    named = (environ.get(name, "") for name in _CERTIFICATE_VARIABLES)
    paths = dict.fromkeys(_real_paths(path for path in (*_SYSTEM_CERTIFICATES, *named, *more, ca_bundle) if path))
    return find_certificates(_text(path) for path in paths)


def _real_paths(paths: Iterable[str]) -> Iterator[str]:
    """The files that these names mean, without the ones that begin in a current directory that is gone."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield os.path.realpath(path)


def _text(path: str) -> str:
    """A file's text, or empty where there is none that can be read."""
    try:
        return (read_if_there(path) or b"").decode("utf-8", "replace")
    except OSError:
        return ""


@contextmanager
def lend(shop: Workshop, lent: Lent) -> Iterator[tuple[tuple[str, str], ...]]:
    """The secrets as files, by id and path, for as long as the block runs."""
    with own_folder(f"{shop.directories.runtime}/build") as folder:
        yield tuple((name, _write(f"{folder}/{name}", text)) for name, text in lent.secrets())


def _write(path: str, text: str) -> str:
    # Open to others below a folder that is not: apt's downloader is not root in a container.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
