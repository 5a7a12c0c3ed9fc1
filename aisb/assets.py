"""Where the templates, the programs of the containers and the configuration lie: in a checkout or in a wheel."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def asset_path(*parts: str) -> str:
    """The absolute path of a file or folder below `templates/`, `gate/` or `config/`."""
    installed = os.path.join(_PACKAGE, "_data")
    root = installed if os.path.isdir(installed) else os.path.dirname(_PACKAGE)
    return os.path.join(root, *parts)


def package_path(*parts: str) -> str:
    """The absolute path of a module of this package: the gate's image takes some of them along."""
    return os.path.join(_PACKAGE, *parts)
