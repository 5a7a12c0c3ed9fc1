"""The host's own pi with the extension, as the tests drive it: see outside/pi_host.py."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

from tests.e2e.sandbox import outside, report_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.e2e.lab import Lab

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What a checkout has for pi.
_PARTS = ("package.json", *(f"pi-extension/{name}" for name in ("package.json", "README.md", "LICENSE", "src")))
# Two by two pixels.
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEUlEQVR4nGP4z8AARGDiPwMAHfAD/aAzCYkAAAAASUVORK5CYII="


def extension() -> str:
    """A checkout, as far as pi is concerned, in base64."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name in _PARTS:
            tar.add(f"{_ROOT}/{name}", name)
    return base64.b64encode(data.getvalue()).decode()


def host_pi(lab: Lab, *, with_extension: bool = True, timeout: float = 200, **asked: Any) -> dict[str, Any]:
    """Run the host's pi, and what came of it."""
    with open(f"{_ROOT}/tests/e2e/outside/pi_canary.cjs", encoding="utf-8") as file:
        canary = file.read()
    given = {**asked, "extension": extension() if with_extension else ""}
    result = lab.run(
        "python3 -",
        stdin=outside("pi_host").encode(),
        env={"PI_HOST": json.dumps(given), "CANARY": canary, "TMUX_TEXT": outside("tmux")},
        timeout=timeout,
    )
    report = report_of(result)
    assert isinstance(report, dict)
    return report


def texts(results: Sequence[dict[str, Any]]) -> list[str]:
    """What the model was told by each tool."""
    return [result["text"] for result in results]
