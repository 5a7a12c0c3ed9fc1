"""
The fake internet's certificate authority: a certificate for any name, made when it is first asked for.
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Python 3.13 refuses an authority without these key usages.
_CONFIGURATION = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


class Authority:
    """
    Keeps its keys and certificates in a directory, so that they outlive the servers.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        (directory / "openssl.cnf").write_text(_CONFIGURATION)
        if not (directory / "ca.pem").exists():
            for key in ("ca.key", "server.key"):
                self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
            self._certify("ca.key", "aisb laboratory", "authority", "ca.new")
            os.rename(directory / "ca.new", directory / "ca.pem")

    @property
    def certificate(self) -> Path:
        return self._directory / "ca.pem"

    def context(self, name: str) -> ssl.SSLContext:
        """
        A fresh context for a server whose certificate is for `name`. Raises ValueError for what is no name.
        """
        name = name.lower()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a host name")
        file = f"{name}.pem"
        with self._lock:
            if not (self._directory / file).exists():
                issuer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName=DNS:{name}")
                self._certify("server.key", name[:64], "server", f"{file}.new", *issuer)
                os.rename(self._directory / f"{file}.new", self._directory / file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / file, self._directory / "server.key")
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _certify(self, key: str, common_name: str, extensions: str, output: str, *more: str) -> None:
        self._openssl(
            "req", "-x509", "-new", "-config", "openssl.cnf", "-extensions", extensions, "-key", key,
            "-subj", f"/CN={common_name}", "-days", "3650", "-out", output, *more,
        )  # fmt: skip

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(("openssl", *arguments), cwd=self._directory, check=True, stdin=subprocess.DEVNULL)
