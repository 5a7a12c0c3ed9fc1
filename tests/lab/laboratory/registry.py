"""
The image registry, a program of the Debian 13 folder, which serves both hosts.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from laboratory.settings import ACCOUNT

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "127.0.0.1:5000"

_SCRIPT = f"""
(until curl --silent --fail --output /dev/null http://{ADDRESS}/v2/; do sleep 0.05; done; echo ready) &
exec docker-registry serve "$1"
"""


def command(folder: Path, name: str, network_of: int) -> tuple[str, ...]:
    """
    The argv that serves an empty registry in the network namespace of a process. Data and settings are in the folder.
    """
    place = folder / "var/lib/aisb-lab-registry" / name
    shutil.rmtree(place, ignore_errors=True)
    (place / "data").mkdir(parents=True)
    shutil.chown(place / "data", ACCOUNT, ACCOUNT)
    inside = f"/var/lib/aisb-lab-registry/{name}"
    (place / "config.yml").write_text(
        "version: 0.1\n"
        "log: {accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {inside}/data}}, delete: {{enabled: true}}}}\n"
        f"http: {{addr: '{ADDRESS}'}}\n"
    )
    return (
        "nsenter", "--target", str(network_of), "--net",
        "chroot", f"--userspec={ACCOUNT}:{ACCOUNT}", str(folder), "sh", "-c", _SCRIPT, "sh", f"{inside}/config.yml",
    )  # fmt: skip
