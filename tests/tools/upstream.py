"""A proxy for gates to go through: another squid, in a test's internet, with and without a password, in TLS or not."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.tools.gate_box import wait_for

if TYPE_CHECKING:
    from tests.tools.gate_box import World

# An address of the internet for the proxy, and one that is private.
ADDRESS, PRIVATE = "203.0.113.12", "10.0.0.5"
ADDRESS6 = "2001:db8::12"
PORT, TLS_PORT = 3128, 3129
_CONF = """\
http_port {port}
https_port {tls_port} tls-cert={certificate} tls-key={key}
visible_hostname upstream.test
pid_filename {directory}/pid
coredump_dir {directory}
cache_log {directory}/log
cache deny all
pinger_enable off
shutdown_lifetime 0 seconds
cache_effective_user proxy
dns_nameservers 203.0.113.53
hosts_file none
positive_dns_ttl 1 second
negative_dns_ttl 1 second
logformat asked %>a %rm %ru %>Hs %{{Proxy-Authorization}}>h
access_log stdio:{directory}/access.log logformat=asked
{access}
"""
_OPEN = "http_access allow all"
_BASIC = """\
auth_param basic program /usr/lib/squid/basic_ncsa_auth {directory}/passwords
auth_param basic realm upstream
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all"""

# squid's shared memory has the same name in every squid, and stays where one is killed.
_OWN_SHARED_MEMORY = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh")


class Asked(NamedTuple):
    """One request that the proxy got: from where, the method, the URL or authority, and its answer."""

    source: str
    method: str
    what: str
    status: int


class Place(NamedTuple):
    """Where a proxy is: how to get to that network, and the files of its certificate."""

    enter: tuple[str, ...]
    certificate: str
    key: str


def place_in(world: World) -> Place:
    """The internet of a gate's world."""
    return Place(("ip", "netns", "exec", world.internet), f"{world.directory}/cert.pem", f"{world.directory}/key.pem")


class Proxy:
    """A squid in a test's internet; with `password`, which is user:password, it takes nobody else."""

    def __init__(self, place: Place, password: str = "") -> None:
        self._place = place
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = tempfile.mkdtemp(prefix="aisb-upstream-")

    def __enter__(self) -> Self:
        try:
            self._configure()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()
        subprocess.run(["rm", "-rf", self.directory], check=True)

    def start(self) -> None:
        """Listen."""
        squid = ("/usr/sbin/squid", "-N", "-f", f"{self.directory}/conf")
        argv = [*self._place.enter, *_OWN_SHARED_MEMORY, *squid]
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *argv], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for port in (PORT, TLS_PORT):
            wait_for(lambda port=port: self._listens(port), f"the proxy listens at {port}")  # type: ignore[misc]

    def stop(self) -> None:
        """Be gone, without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait_for(self, requests: int) -> None:
        """Until it has written down so many: it writes after it has answered, and who was answered may be here first."""
        wait_for(
            lambda: len({asked[1:3] for asked in self.asked() if asked.method != "-"}) >= requests,
            f"the proxy has written down {requests} requests",
        )

    def asked(self) -> list[Asked]:
        """Every request that it has written down, see `wait_for`."""
        lines = [line.split() for line in self._lines()]
        return [Asked(source, method, what, int(status)) for source, method, what, status, _ in lines]

    def told(self) -> list[str]:
        """What each request brought to log in with, "-" where that was nothing."""
        return [line.split()[4].partition("%20")[2] or "-" for line in self._lines()]

    def forget(self) -> None:
        """Begin a new record."""
        os.truncate(f"{self.directory}/access.log", 0)

    def _lines(self) -> list[str]:
        with open(f"{self.directory}/access.log", encoding="utf-8") as file:
            return file.read().splitlines()

    def _listens(self, port: int) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the proxy has ended"
        found = [*self._place.enter, "ss", "-Hltn", f"sport = :{port}"]
        return bool(subprocess.run(found, check=True, capture_output=True).stdout)

    def _configure(self) -> None:
        os.chmod(self.directory, 0o755)
        access = _OPEN
        if self._password:
            access = _BASIC.format(directory=self.directory)
            user, _, password = self._password.partition(":")
            hashed = subprocess.run(
                ["openssl", "passwd", "-apr1", "-stdin"],
                input=password.encode(),
                check=True,
                capture_output=True,
            ).stdout.decode()
            self._write("passwords", f"{user}:{hashed}")
        names = {"certificate": self._place.certificate, "key": self._place.key, "directory": self.directory}
        self._write("conf", _CONF.format(access=access, port=PORT, tls_port=TLS_PORT, **names))
        self._write("access.log", "")
        subprocess.run(["chown", "-R", "proxy:proxy", self.directory], check=True)

    def _write(self, name: str, text: str) -> None:
        with open(f"{self.directory}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
