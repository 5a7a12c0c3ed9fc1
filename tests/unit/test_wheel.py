"""The wheel: all that a command needs outside a checkout, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = ("templates", "gate", "config")


def files_below(directory: str) -> Iterator[str]:
    """The checkout's files there, without what Python leaves behind."""
    for parent, _, names in os.walk(os.path.join(CHECKOUT, directory)):
        if "__pycache__" not in parent:
            yield from (os.path.relpath(os.path.join(parent, name), CHECKOUT) for name in names)


def test_the_wheel_holds_the_package_its_data_and_its_commands(tmp_path: Path) -> None:
    """Templates, gate and config lie where `asset_path` looks in an installed package."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), CHECKOUT)
    subprocess.run(pip, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True)

    (path,) = tmp_path.iterdir()
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        info = next(name for name in names if name.endswith("/METADATA")).removesuffix("METADATA")
        commands = wheel.read(f"{info}entry_points.txt").decode()

    expected = [
        *files_below("aisb"),
        *(f"aisb/_data/{name}" for directory in DATA for name in files_below(directory)),
        *(f"{info}{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")),
    ]
    assert sorted(names) == sorted(expected)
    assert commands == "[console_scripts]\nai-sandbox = aisb.__main__:main\naisb = aisb.__main__:main\n"
