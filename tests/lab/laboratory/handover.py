"""
Root's own settings for package registries, handed to the account and to the folder.

A machine behind a mirror or with a certificate authority of its own is set up for root; without these settings every
install ends in "no matching distribution" or a certificate error. Nothing here names a registry: it is all read.
"""

from __future__ import annotations

import configparser
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

_VARIABLES = re.compile(
    r"PIP_\w+|UV_\w+|npm_config_\w+|NPM_CONFIG_\w+|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS|(CURL|REQUESTS|AWS)_CA_BUNDLE"
    r"|GIT_SSL_CAINFO|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY"
)


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _VARIABLES.fullmatch(name)}


def pip_settings() -> str:
    """
    One pip.conf with what root's files say, the later file winning as in pip itself.
    """
    root = Path.home()
    files = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        root / ".pip/pip.conf",
        root / ".config/pip/pip.conf",
    ]
    if named := os.environ.get("PIP_CONFIG_FILE"):
        files.append(Path(named))
    merged = configparser.RawConfigParser()
    merged.read(files)
    text = io.StringIO()
    merged.write(text)
    return text.getvalue()


def npm_settings() -> str:
    files = (Path("/etc/npmrc"), Path("/usr/etc/npmrc"), Path("/usr/local/etc/npmrc"), Path.home() / ".npmrc")
    return "".join(file.read_text().rstrip("\n") + "\n" for file in files if file.is_file())


def local_paths() -> list[Path]:
    """
    Files and directories of the machine that the settings name (a folder of wheels, a constraints file).
    """
    text = "\n".join((pip_settings(), npm_settings(), *variables().values()))
    found = {Path(match[1]) for match in re.finditer(r"(?:^|[\s='\"])(?:file://)?(/[\w./+-]+)", text)}
    # An index on disk is a folder `simple` whose pages point to files beside it.
    found = {path.parent if path.name == "simple" else path for path in found}
    system = {Path("/"), Path("/usr"), Path("/etc")}
    return sorted(path for path in found - system if path.exists() and not path.is_relative_to("/etc/ssl"))
