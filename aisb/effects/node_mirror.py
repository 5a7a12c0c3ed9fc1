"""Node's archive from nodejs.org or a mirror of it. A checksum that is wrong stops everything."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import tempfile
import urllib.request
from typing import TYPE_CHECKING

from aisb.domain.images import NODE_PLATFORMS, TARBALL, NodePin, version_key
from aisb.effects.progress import step
from aisb.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.client import HTTPResponse

    from aisb.domain.images import ImageSpec
    from aisb.effects.lending import Lent
    from aisb.effects.workshop import Workshop

DEFAULT_MIRROR = "https://nodejs.org/dist"
_MIRROR = re.compile(r"https?://[A-Za-z0-9._~:@%\[\]/-]+")
_ANSWER_SECONDS = 10.0
_BLOCK = 1 << 20


class NoMirror(Exception):
    """The mirror cannot be reached, or has not got this version."""


def parse_mirror(text: str) -> str:
    """The address of a mirror, without a slash at its end; the public one for an empty text."""
    if not text:
        return DEFAULT_MIRROR
    if not _MIRROR.fullmatch(text):
        raise UsageError(f"AISB_NODE_MIRROR={text!r} is not an address", hint=f"write: {DEFAULT_MIRROR}, or a mirror's")
    return text.rstrip("/")


def fetch_from_mirror(shop: Workshop, spec: ImageSpec, lent: Lent, mirror: str, version: str) -> NodePin:
    """The archive of a version, in the cache. Raises NoMirror where it is not there, Unavailable for a wrong one."""
    name = f"node-v{version}-{NODE_PLATFORMS[spec.platform]}.tar.xz"
    folder = f"{mirror}/v{version}"
    certificates = ssl.create_default_context(cadata=lent.certificates or None)
    shown = _shown(mirror)
    with step(shop.report, f"node {version} from {shown}"):
        sums = _download(f"{folder}/SHASUMS256.txt", certificates, shop.report.tick)
        wanted = find_checksum(sums.decode("ascii", "replace"), name)
        if wanted is None:
            raise NoMirror(f"{shown} lists no {name}")
        found = _store(f"{folder}/{name}", shop.archive(name), certificates, shop.report.tick, wanted)
    if found != wanted:
        raise Unavailable(
            f"{name} from {shown} has the sha256 {found}, but SHASUMS256.txt says {wanted}",
            hint="the archive or the list was changed on the way; nothing was built from it",
        )
    return NodePin(version, TARBALL, ((name, wanted),))


def find_newest(shop: Workshop, spec: ImageSpec, lent: Lent, mirror: str, now: str) -> str:
    """
    The newest version of Node's line that the mirror has for this platform, never an older one than `now`: it may lag.

    Raises NoMirror where it says none.
    """
    certificates = ssl.create_default_context(cadata=lent.certificates or None)
    address = f"{mirror}/latest-v{spec.node_line}.x/SHASUMS256.txt"
    names = _download(address, certificates, shop.report.tick).decode("ascii", "replace")
    wanted = re.compile(rf"node-v({spec.node_line}\.\d{{1,6}}\.\d{{1,6}})-{NODE_PLATFORMS[spec.platform]}\.tar\.xz")
    versions = [match[1] for match in wanted.finditer(names)]
    if not versions:
        raise NoMirror(f"{_shown(mirror)} lists no node {spec.node_line}")
    return max([*versions, now], key=version_key)


def _shown(mirror: str) -> str:
    """The address without a password."""
    return re.sub(r"//[^/@]*@", "//", mirror)


def find_checksum(sums: str, name: str) -> str | None:
    """The sha256 of `name` in the text of a SHASUMS256.txt."""
    for line in sums.splitlines():
        words = line.split()
        if len(words) == 2 and words[1] == name and re.fullmatch(r"[0-9a-f]{64}", words[0]):
            return words[0]
    return None


def _open(url: str, certificates: ssl.SSLContext) -> HTTPResponse:
    try:
        # S310 warns of file:// and the like; parse_mirror let nothing through but http and https.
        answer: HTTPResponse = urllib.request.urlopen(url, timeout=_ANSWER_SECONDS, context=certificates)  # noqa: S310
    except (OSError, ValueError) as error:
        host = re.sub(r"^https?://(?:[^/@]*@)?([^/]*).*", r"\1", url)
        raise NoMirror(f"{host} did not answer ({getattr(error, 'reason', error)})") from error
    return answer


def _download(url: str, certificates: ssl.SSLContext, tick: Callable[[], None]) -> bytes:
    with _open(url, certificates) as answer:
        tick()
        return answer.read(_BLOCK)


def _store(url: str, path: str, certificates: ssl.SSLContext, tick: Callable[[], None], wanted: str) -> str:
    """Fetch into the cache what has the wanted sha256; the sha256 that it really has."""
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file, _open(url, certificates) as answer:
            while block := answer.read(_BLOCK):
                digest.update(block)
                file.write(block)
                tick()
        if digest.hexdigest() == wanted:
            os.rename(temporary, path)
            temporary = ""
    finally:
        if temporary:
            os.unlink(temporary)
    return digest.hexdigest()
