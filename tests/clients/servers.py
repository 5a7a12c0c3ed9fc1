"""What cargo, go, Maven and uv take from a web server that hands out files: an index, a proxy of modules, a repository, Pythons."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import platform
import tarfile
import zipfile
from typing import TYPE_CHECKING

from tests.clients.sums import write_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MODULE, MODULE_VERSION = "example.test/greeting", "v1.0.0"
_GO_MOD = f"module {MODULE}\n\ngo 1.21\n"
GROUP = "test.greeting"


def write_crates(place: Path, download: str, crates: Mapping[str, str]) -> None:
    """A sparse index of crates with this source each, whose files are said to be at `download`."""
    place.mkdir()
    template = f"{download}/{{crate}}-{{version}}.crate"
    (place / "config.json").write_text(json.dumps({"dl": template}))
    for name, source in crates.items():
        manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n'
        data = _tarball({f"{name}-1.0.0/Cargo.toml": manifest, f"{name}-1.0.0/src/lib.rs": source})
        (place / f"{name}-1.0.0.crate").write_bytes(data)
        line = {"name": name, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(data).hexdigest(), "features": {}}
        entry = place / name[:2] / name[2:4] / name
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_text(json.dumps({**line, "yanked": False}) + "\n")


def write_modules(place: Path, source: str) -> None:
    """A proxy of Go's modules that has one, with this source, and of a checksum database that vouches for it."""
    at = place / MODULE / "@v"
    at.mkdir(parents=True)
    (at / "list").write_text(f"{MODULE_VERSION}\n")
    (at / f"{MODULE_VERSION}.info").write_text(json.dumps({"Version": MODULE_VERSION, "Time": "2025-01-01T00:00:00Z"}))
    (at / f"{MODULE_VERSION}.mod").write_text(_GO_MOD)
    (at / f"{MODULE_VERSION}.zip").write_bytes(_zip(_files_of(source)))
    write_sums(place, MODULE, MODULE_VERSION, go_sum(source))


def go_sum(source: str) -> str:
    """The lines of go.sum for it: who has them asks no checksum database."""
    whole, manifest = _directory_hash(_files_of(source)), _directory_hash({"go.mod": _GO_MOD})
    return f"{MODULE} {MODULE_VERSION} {whole}\n{MODULE} {MODULE_VERSION}/go.mod {manifest}\n"


def _files_of(source: str) -> dict[str, str]:
    before = f"{MODULE}@{MODULE_VERSION}"
    return {f"{before}/go.mod": _GO_MOD, f"{before}/greeting.go": source}


def _directory_hash(files: Mapping[str, str]) -> str:
    lines = "".join(f"{hashlib.sha256(files[name].encode()).hexdigest()}  {name}\n" for name in sorted(files))
    return f"h1:{base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()}"


PYTHON = "3.13"
# A Python of the image's own behind the name of another: what is in it is not what is tried here.
_PYTHON_FILES = {
    f"bin/python{PYTHON}": '#!/bin/sh\nexec /usr/bin/python3 "$@"\n',
    f"lib/python{PYTHON}/_sysconfigdata__linux_.py": "# system configuration generated and used by the sysconfig module\nbuild_time_vars = {}\n",
}


def write_pythons(place: Path, address: str) -> None:
    """What uv takes as a list of Pythons, with one that is to be had at `address`."""
    place.mkdir()
    data = _tarball({f"python/{path}": text for path, text in _PYTHON_FILES.items()}, mode=0o755)
    (place / "python.tar.gz").write_bytes(data)
    machine = platform.machine()
    about = {
        "name": "cpython",
        "arch": {"family": machine, "variant": None},
        "os": "linux",
        "libc": "gnu",
        **dict(zip(("major", "minor"), map(int, PYTHON.split(".")), strict=True)),
        "patch": 99,
        "prerelease": "",
        "variant": None,
        "build": "20250101",
        "url": f"{address}/python.tar.gz",
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    (place / "list.json").write_text(json.dumps({f"cpython-{PYTHON}.99-linux-{machine}-gnu": about}))


PLUGIN = f"""
<plugin>
  <name>greeting</name><groupId>{GROUP}</groupId><artifactId>greeting-maven-plugin</artifactId><version>1.0</version>
  <goalPrefix>greeting</goalPrefix>
  <mojos><mojo>
    <goal>greet</goal><implementation>Greet</implementation><language>java</language>
    <requiresProject>true</requiresProject><instantiationStrategy>per-lookup</instantiationStrategy>
    <executionStrategy>once-per-session</executionStrategy>
  </mojo></mojos>
</plugin>
"""


def write_maven(place: Path, classes: Mapping[str, bytes]) -> None:
    """A repository with a parent POM, a plugin made of these classes, and what Maven itself adds to any plugin."""
    _write_artifact(place, GROUP, "parent", "1.0", "pom")
    jar = _zip({"META-INF/maven/plugin.xml": PLUGIN, **classes})
    _write_artifact(place, GROUP, "greeting-maven-plugin", "1.0", "maven-plugin", jar)
    _write_artifact(place, "org.codehaus.plexus", "plexus-utils", "1.1", "jar", _zip({"empty": ""}))


def _write_artifact(place: Path, group: str, name: str, version: str, packaging: str, jar: bytes = b"") -> None:
    pom = (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version><packaging>{packaging}</packaging></project>\n"
    )
    at = place / group.replace(".", "/") / name / version
    at.mkdir(parents=True)
    for kind, data in (("pom", pom.encode()), ("jar", jar)):
        if data:
            (at / f"{name}-{version}.{kind}").write_bytes(data)
            (at / f"{name}-{version}.{kind}.sha1").write_text(hashlib.sha1(data, usedforsecurity=False).hexdigest())


def _tarball(files: Mapping[str, str], mode: int = 0o644) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), mode
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def _zip(files: Mapping[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def names_of(crates: Iterable[str]) -> str:
    """The lines of a Cargo.toml's dependencies, none of which is compiled."""
    return "".join(f'{name} = {{ version = "1", optional = true }}\n' for name in crates)
