"""What a reference stands for in its registry: a manifest read by skopeo, not a download."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.process import Command
from aisb.errors import CommandError, Unavailable

if TYPE_CHECKING:
    from aisb.domain.base_image import BaseImage
    from aisb.effects.process import Finished
    from aisb.effects.workshop import Workshop

_SECONDS = 20.0
_TOO_MANY = "Too many requests"
_MESSAGE = re.compile(r'level=(?:fatal|error) msg="(?P<message>(?:[^"\\]|\\.)*)"')


class Resolved(NamedTuple):
    """The platform's manifest, and the index that it was found in, if any."""

    digest: str
    index_digest: str = ""


def resolve(shop: Workshop, base: BaseImage, platform: str, seconds: float = _SECONDS) -> Resolved:
    """Ask the registry. Raises Unavailable, in one line with the reason, where it has no answer in time."""
    skopeo = shop.need_program("skopeo", f"it asks the registry what {base.text} is")
    command = Command(
        # It waits and asks again where it is told to come later, and says so in its debugging alone.
        argv=(
            skopeo,
            "--debug",
            "--command-timeout",
            f"{seconds:.0f}s",
            "inspect",
            "--raw",
            f"docker://{base.reference}",
        ),
        # It ends itself in time, and can say why then.
        timeout_seconds=seconds + 0.5,
        environment=shop.network,
    )
    try:
        finished = shop.runner.run(command)
    except CommandError as error:
        raise Unavailable(f"{base.text} could not be looked up: no answer in {seconds:.0f} s", hint=_hint()) from error
    if finished.code != 0:
        raise Unavailable(f"{base.text} could not be looked up: {_reason(finished)}", hint=_hint())
    return read_manifest(base, finished.stdout, platform)


def read_manifest(base: BaseImage, manifest: bytes, platform: str) -> Resolved:
    """The digests that a raw manifest or index stands for."""
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if base.digest and base.digest != digest:
        raise Unavailable(f"{base.text}: the registry answered with another image, {digest}")
    no_manifest = Unavailable(f"{base.text}: the registry's answer is not a manifest", hint=_hint())
    try:
        document = json.loads(manifest)
    except (ValueError, RecursionError) as error:
        raise no_manifest from error
    if not isinstance(document, dict):
        raise no_manifest
    entries = document.get("manifests")
    if entries is None:
        return Resolved(digest)
    if not isinstance(entries, list):
        raise no_manifest
    return Resolved(_for_platform(base, entries, platform), digest)


def _for_platform(base: BaseImage, entries: list[object], platform: str) -> str:
    offered = []
    for entry in (entry for entry in entries if isinstance(entry, dict)):
        described = entry.get("platform")
        if isinstance(described, dict):
            name = f"{described.get('os')}/{described.get('architecture')}"
            offered.append(name)
            if name == platform and re.fullmatch(r"sha256:[0-9a-f]{64}", str(entry.get("digest"))):
                return str(entry["digest"])
    raise Unavailable(
        f"{base.text} is not offered for {platform}", hint=f"it is for: {', '.join(sorted(set(offered))) or 'nothing'}"
    )


def _reason(finished: Finished) -> str:
    """The last message that skopeo logged; else the last line of what it said."""
    text = finished.stderr.decode("utf-8", "replace").strip()
    if _TOO_MANY in text:
        return "too many requests (429)"
    messages = [match["message"] for match in _MESSAGE.finditer(text)] or text.splitlines()
    return messages[-1].replace('\\"', '"').replace("\\n", " ") if messages else f"skopeo exited {finished.code}"


def _hint() -> str:
    return "check the name and the network, or build on the distribution's own packages: --base-image bootstrap:trixie"
