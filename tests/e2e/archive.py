"""
An archive of packages, a registry of npm's and an index of Python's, as files that any web server can hand out: apt, npm
and pip read them as they read real ones.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class Package(NamedTuple):
    """A package and the programs in it, each a script by its path."""

    name: str
    version: str
    programs: Mapping[str, str] = {}


def write_archive(place: Path, packages: Iterable[Package]) -> None:
    """What a line `deb [trusted=yes] URL ./` reads: nothing is signed."""
    place.mkdir(exist_ok=True)
    listed = []
    for package in packages:
        data, file = _deb(package), f"{package.name}_{package.version.partition(':')[2]}_all.deb"
        (place / file).write_bytes(data)
        listed.append(f"{_control(package)}Filename: ./{file}\nSize: {len(data)}\nSHA256: {_sha256(data)}\n")
    index = "\n".join(listed).encode()
    (place / "Packages").write_bytes(index)
    (place / "Release").write_text(f"SHA256:\n {_sha256(index)} {len(index)} Packages\n")


def write_registry(place: Path, address: str, packages: Iterable[Package], tarballs: Iterable[Path] = ()) -> None:
    """The registry that is at `address`: a document for each package, with all its versions, and their files."""
    place.mkdir(exist_ok=True)
    documents: dict[str, dict[str, object]] = {}
    for data in (*map(_tarball, packages), *(file.read_bytes() for file in tarballs)):
        about = _manifest_in(data)
        name, version = str(about["name"]), str(about["version"])
        file = f"{name.rpartition('/')[2]}-{version}.tgz"
        (place / file).write_bytes(data)
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"
        about["dist"] = {"tarball": f"{address}/{file}", "integrity": integrity}
        documents.setdefault(name, {})[version] = about
    for name, versions in documents.items():
        document = {"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": versions}
        # As npm asks for it, byte for byte.
        (place / name.replace("/", "%2f")).write_text(json.dumps(document))


def _tarball(package: Package) -> bytes:
    about = {"name": package.name, "version": package.version, "bin": {name: name for name in package.programs}}
    return _packed({"package.json": json.dumps(about), **package.programs}, "package/")


def _manifest_in(data: bytes) -> dict[str, object]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        file = archive.extractfile("package/package.json")
        assert file is not None
        about: dict[str, object] = json.load(file)
        return about


def write_simple_index(place: Path, modules: Mapping[str, Mapping[str, str]], wheels: Iterable[Path] = ()) -> None:
    """What `place/simple/` is to pip: a page for each module, with the wheel made of its files, and for each of `wheels`."""
    place.mkdir()
    for wheel in wheels:
        shutil.copy(wheel, place)
    for name, files in modules.items():
        (place / f"{name}-1.0-py3-none-any.whl").write_bytes(_wheel(name, files))
    for wheel in sorted(place.glob("*.whl")):
        page = place / "simple" / wheel.name.partition("-")[0] / "index.html"
        page.parent.mkdir(parents=True)
        digest = _sha256(wheel.read_bytes())
        page.write_text(f'<!doctype html><a href="../../{wheel.name}#sha256={digest}">{wheel.name}</a>\n')


def _wheel(name: str, files: Mapping[str, str]) -> bytes:
    about = f"{name}-1.0.dist-info"
    members = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*members, f"{about}/RECORD"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in {**members, f"{about}/RECORD": record}.items():
            archive.writestr(path, text)
    return packed.getvalue()


def _control(package: Package) -> str:
    return (
        f"Package: {package.name}\nVersion: {package.version}\nArchitecture: all\nMaintainer: Nobody <nobody@allowed.test>\n"
        "Description: a test's own\n"
    )


def _deb(package: Package) -> bytes:
    members = (
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", _packed({"control": _control(package)}, "./")),
        ("data.tar.gz", _packed(package.programs, "./")),
    )
    parts = (
        f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        for name, data in members
    )
    return b"!<arch>\n" + b"".join(parts)


def _packed(files: Mapping[str, str], before: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(before + name)
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
