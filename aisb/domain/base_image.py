"""
A base image as text becomes a value here and nowhere else.

What comes out holds only the characters of an image reference, so it can stand in a Containerfile and in an
argv as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from aisb.errors import UsageError

REGISTRY = "registry"
LOCAL = "local"
BOOTSTRAP = "bootstrap"

SUITES = ("trixie", "bookworm")
# What a name without a registry means, as in every other tool.
DEFAULT_REGISTRY = "docker.io"
LOCAL_REGISTRY = "localhost"
DEFAULT_BASE = "docker.io/library/ubuntu:24.04"
_LONGEST_NAME = 255

_DOMAIN = re.compile(
    r"(?=.{1,253}(?:/|$))[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[0-9]{1,5})?"
)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_FORMS = "write: NAME:TAG, REGISTRY/NAME:TAG, NAME@sha256:DIGEST, localhost/NAME:TAG or bootstrap:trixie"


class BaseImage(NamedTuple):
    """
    What the two images are built on.

    `text` is what was asked for. For `bootstrap`, `tag` is the suite and `name` is empty; otherwise `name` is
    complete (with its registry) and exactly one of `tag` and `digest` is set.
    """

    text: str
    kind: str
    name: str
    tag: str = ""
    digest: str = ""

    @property
    def reference(self) -> str:
        """The complete reference, as podman and skopeo understand it."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


def parse_base_image(text: str, origin: str = "--base-image") -> BaseImage:
    """
    The base image that `text` names.

    Raises UsageError, with where it was written and the nearest right form where there is one.
    """
    if text.startswith(f"{BOOTSTRAP}:"):
        return _bootstrap(text, origin)
    base = _reference(text)
    if base is None:
        nearest = _nearest(text)
        raise UsageError(f"{origin} {text!r} is not a base image", hint=f"write: {nearest}" if nearest else _FORMS)
    return base


def _bootstrap(text: str, origin: str) -> BaseImage:
    suite = text.removeprefix(f"{BOOTSTRAP}:")
    if suite not in SUITES:
        known = " or ".join(f"{BOOTSTRAP}:{name}" for name in SUITES)
        raise UsageError(f"{origin} {text!r}: there is no such suite to make a base from", hint=f"write: {known}")
    return BaseImage(text, BOOTSTRAP, "", tag=suite)


def _reference(text: str) -> BaseImage | None:
    rest, at, digest = text.partition("@")
    tag = ""
    if not at:
        rest, _, tag = rest.rpartition(":")
    domain, path = _split_domain(rest)
    right = (
        _DOMAIN.fullmatch(domain)
        and _PATH.fullmatch(path)
        and len(f"{domain}/{path}") <= _LONGEST_NAME
        and (_DIGEST.fullmatch(digest) if at else _TAG.fullmatch(tag))
    )
    if not right:
        return None
    kind = LOCAL if domain == LOCAL_REGISTRY else REGISTRY
    return BaseImage(text, kind, f"{domain}/{path}", tag=tag, digest=digest)


def _split_domain(name: str) -> tuple[str, str]:
    """The registry and the path. A first part is a registry when it has a dot or a port, or is `localhost`."""
    first, slash, path = name.partition("/")
    if slash and ("." in first or ":" in first or first == LOCAL_REGISTRY):
        return first, path
    return DEFAULT_REGISTRY, name if slash else f"library/{name}"


def _nearest(text: str) -> str:
    """What was probably meant, if a small change makes it right; else empty."""
    trimmed = re.sub(r"^[a-z-]+://", "", text.strip())
    head, at, digest = trimmed.partition("@")
    without_tag = f"{re.sub(r':[^:/]*$', '', head)}{at}{digest}"
    candidates = (trimmed, without_tag if at else f"{trimmed}:latest", trimmed.lower(), f"{trimmed.lower()}:latest")
    return next((candidate for candidate in candidates if candidate != text and _reference(candidate)), "")
