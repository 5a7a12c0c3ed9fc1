"""The laboratory as a test sees it: run a command on a host, talk to it, ask what reached the fake internet."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pexpect
import pytest

LABORATORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")
sys.path.insert(0, LABORATORY)

from laboratory import sinks, world  # noqa: E402  (the laboratory is a program of its own, not a package of the tests)
from laboratory.account import environment  # noqa: E402  # as above
from laboratory.locks import locked  # noqa: E402  # as above
from laboratory.settings import ACCOUNT, HOME, HOSTS  # noqa: E402  # as above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["HERE", "HOSTS", "LABORATORY", "Lab", "Result", "locked"]

HERE = "here"
_STUB = """
import socket
stub = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stub.bind(("127.0.0.53", 53))
print("ready", flush=True)
while True:
    question, client = stub.recvfrom(4096)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.connect(("203.0.113.53", 53))
        server.send(question)
        stub.sendto(server.recv(4096), client)
"""
# As the account, whose home is another one here; the servers of all addresses have port 22 already.
_SSH_SERVER = """
mount --bind "$1/home" "$2"
nft 'table inet ssh { chain arriving { type nat hook prerouting priority -100;
    ip daddr 203.0.113.10 tcp dport 22 redirect to :2222
    ip6 daddr 2001:db8::10 tcp dport 22 redirect to :2222; }; }'
install --mode=0600 --owner="$3" "$1/key" "$2/key"
exec setpriv --reuid="$3" --regid="$3" --clear-groups dropbear -F -E -s -w -r "$2/key" -p 2222 -P "$2/pid"
"""
# The folder's own, as the account; the servers of all addresses have port 5432 already.
_DATABASE = """
bin=$(echo /usr/lib/postgresql/*/bin) place=/tmp/database as="setpriv --reuid=$1 --regid=$1 --clear-groups"
rm -rf $place; mkdir $place; cat >$place/password
openssl req -x509 -newkey rsa:2048 -nodes -days 3 -subj /CN=db -keyout $place/key -out $place/certificate 2>/dev/null
chown -R "$1" $place
cd $place
$as $bin/initdb --no-sync --username=app --auth=scram-sha-256 --pwfile=password --pgdata=data >/dev/null
echo 'host all all all scram-sha-256' >>data/pg_hba.conf
nft 'table inet database { chain arriving { type nat hook prerouting priority -100;
    ip daddr 203.0.113.10 tcp dport 5432 redirect to :5433; }; }'
exec $as $bin/postgres -D data -c port=5433 -c 'listen_addresses=*' -c unix_socket_directories= -c fsync=off \
    -c ssl=on -c ssl_key_file=$place/key -c ssl_cert_file=$place/certificate
"""
STOP_SECONDS = 10


class Result(NamedTuple):
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def text(self) -> str:
        """stdout, for comparing."""
        return self.stdout.decode(errors="replace")

    @property
    def errors(self) -> str:
        """stderr, for comparing."""
        return self.stderr.decode(errors="replace")


def _until(lines: IO[bytes], text: bytes) -> Iterator[bytes]:
    """The lines up to one with this text in it, or all."""
    for line in lines:
        yield line
        if text in line:
            return


class Lab:
    """
    One host, which the test has to itself. Each command is a text for `sh -c`, in a fresh home and project.

    With the name "here" the commands run directly, as the user who runs the tests, and there is no fake internet.
    """

    def __init__(self, name: str, project: str) -> None:
        self.name = name
        self._project = project
        self._start = 0

    def run(
        self, command: str, *, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> Result:
        """Run a command to its end; after `timeout` seconds everything it started is ended, and the code is 124."""
        argv, environment = self._prepared(command, env, timeout)
        started = time.monotonic()
        # The laboratory keeps the time itself; this is for the case that it does not.
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            env=environment,
            cwd=self._project,
            timeout=timeout + 60,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - started)

    @contextlib.contextmanager
    def start(
        self, command: str, *, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command with pipes to it, and end it at the end of the block. A signal to it reaches the command."""
        argv, environment = self._prepared(command, env, timeout)
        pipe = subprocess.PIPE
        with subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=self._project, start_new_session=True
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()
                    try:
                        process.wait(STOP_SECONDS)
                    except subprocess.TimeoutExpired:
                        process.kill()

    @contextlib.contextmanager
    def terminal(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
        size: tuple[int, int] = (24, 80),
    ) -> Iterator[pexpect.spawn]:
        """Start a command in a terminal of its own, and end it at the end of the block."""
        argv, environment = self._prepared(command, env, timeout)
        child = pexpect.spawn(
            argv[0], list(argv[1:]), env=environment, cwd=self._project, timeout=timeout, dimensions=size
        )
        try:
            yield child
        finally:
            child.close(force=True)

    def sinks(self, *events: str, sink: str | None = None) -> list[dict[str, Any]]:
        """What has reached the fake internet since the last command began: these events only, at this sink only."""
        if self.name == HERE:
            pytest.skip("there is no fake internet here: it needs root")
        host = HOSTS[self.name]
        found = [json.loads(line) for line in sinks.read(host, self._start, sinks.position(host)).splitlines()]
        return [
            item for item in found if (not events or item["event"] in events) and (sink is None or item["sink"] == sink)
        ]

    def names(self, text: str) -> None:
        """More names for the name server, until the end of the test: lines `NAME TYPE VALUE...`."""
        (HOSTS[self.name].cache / "names").write_text(text)

    def more_names(self, text: str) -> None:
        """The same, beside those that there are."""
        with (HOSTS[self.name].cache / "names").open("a") as names:
            names.write(text)

    @contextlib.contextmanager
    def repository(self, name: str, site: str = "allowed.test") -> Iterator[None]:
        """An empty git repository at https://SITE/smart/NAME.git that takes pushes, until the end of the block."""
        place = HOSTS[self.name].cache / "www" / site / "smart" / f"{name}.git"
        subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", place), check=True)
        subprocess.run(("git", "-C", place, "config", "http.receivepack", "true"), check=True)
        try:
            yield
        finally:
            shutil.rmtree(place)

    @contextlib.contextmanager
    def files(self, site: str = "allowed.test") -> Iterator[Path]:
        """A directory whose files are at http://SITE/files/ until the end of the block; a directory is its `index.html`."""
        place = HOSTS[self.name].cache / "www" / site / "files"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            yield place
        finally:
            shutil.rmtree(place)

    def wheels(self, *names: str) -> list[Path]:
        """Wheels of real programs, fetched once by the machine's own pip: PyPI is not in the fake internet."""
        place = HOSTS[self.name].cache / "wheels"
        place.mkdir(exist_ok=True)
        for name in names:
            if not list(place.glob(f"{name}-*.whl")):
                fetch = (
                    "pip",
                    "download",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--only-binary=:all:",
                )
                subprocess.run((sys.executable, "-m", *fetch, "--dest", place, name), check=True)
        return [next(place.glob(f"{name}-*.whl")) for name in names]

    def tarballs(self, *names: str) -> list[Path]:
        """Packages of npm's, fetched once by the machine's own npm."""
        place = HOSTS[self.name].cache / "tarballs"
        found = []
        for name in names:
            at = place / name.replace("/", "+")
            if not list(at.glob("*.tgz")):
                at.mkdir(parents=True, exist_ok=True)
                subprocess.run(("npm", "pack", "--silent", name), cwd=at, check=True, stdout=subprocess.DEVNULL)
            found += at.glob("*.tgz")
        return found

    @contextlib.contextmanager
    def ssh_server(self, key: str) -> Iterator[str]:
        """
        git over ssh at port 22 of allowed.test, for the account and whoever has the private half of `key`.

        Its repository is `x.git`. Until the end of the block; the value is the server's line for known_hosts.
        """
        place = HOSTS[self.name].cache / "ssh"
        shutil.rmtree(place, ignore_errors=True)
        home = place / "home"
        (home / ".ssh").mkdir(parents=True, mode=0o755)
        (home / ".ssh/authorized_keys").write_text(key)
        subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", home / "x.git"), check=True)
        subprocess.run(("chown", "--recursive", f"{ACCOUNT}:{ACCOUNT}", home), check=True)
        generate = ("dropbearkey", "-t", "ed25519", "-f", place / "key")
        told = subprocess.run(generate, capture_output=True, text=True, check=True).stdout
        running = world.find(HOSTS[self.name])
        assert running is not None
        argv = ("nsenter", f"--net=/proc/{running.processes['internet'].pid}/ns/net", "--", "unshare", "--mount")
        with subprocess.Popen(
            (*argv, "sh", "-ec", _SSH_SERVER, "sh", place, HOME, ACCOUNT),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as server:
            try:
                assert server.stderr is not None
                assert b"Not backgrounding" in server.stderr.readline()
                yield "allowed.test " + next(line for line in told.splitlines() if line.startswith("ssh-ed25519 "))
            finally:
                server.terminate()
                server.wait(STOP_SECONDS)
                subprocess.run((*argv[:3], "nft", "delete", "table", "inet", "ssh"), check=True)
                shutil.rmtree(place)

    @contextlib.contextmanager
    def database(self, password: str) -> Iterator[None]:
        """A PostgreSQL at port 5432 of allowed.test's IPv4 address, for the user `app`, until the end of the block."""
        running = world.find(HOSTS[self.name])
        assert running is not None
        network = f"--net=/proc/{running.processes['internet'].pid}/ns/net"
        argv = ("nsenter", f"--mount=/proc/{running.holder}/ns/mnt", network, "--")
        pipe = subprocess.PIPE
        with subprocess.Popen((*argv, "sh", "-ec", _DATABASE, "sh", ACCOUNT), stdin=pipe, stderr=pipe) as server:
            try:
                assert server.stdin is not None
                assert server.stderr is not None
                server.stdin.write(password.encode())
                server.stdin.close()
                said = list(_until(server.stderr, b"ready to accept connections"))
                assert server.poll() is None, said
                yield
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(STOP_SECONDS)
                subprocess.run((*argv, "sh", "-c", "nft delete table inet database; rm -rf /tmp/database"), check=True)

    @contextlib.contextmanager
    def without(self, *programs: str) -> Iterator[None]:
        """The host without these programs of /usr/bin, until the end of the block: they cannot be run."""
        # Some are on one host only.
        paths = [f"/usr/bin/{name}" for name in programs]
        hidden = [path for path in paths if self._as_root("mount", "test", "-e", path).returncode == 0]
        for path in hidden:
            self._as_root("mount", "mount", "--bind", "/dev/null", path).check_returncode()
        try:
            yield
        finally:
            for path in hidden:
                self._as_root("mount", "umount", path).check_returncode()

    @contextlib.contextmanager
    def resolvers(self, *addresses: str) -> Iterator[None]:
        """The host with other name servers, until the end of the block."""
        before = self._as_root("mount", "cat", "/etc/resolv.conf").stdout
        text = "".join(f"nameserver {address}\n" for address in addresses)
        self._as_root("mount", "tee", "/etc/resolv.conf", stdin=text.encode()).check_returncode()
        try:
            yield
        finally:
            self._as_root("mount", "tee", "/etc/resolv.conf", stdin=before).check_returncode()

    @contextlib.contextmanager
    def stub_resolver(self) -> Iterator[None]:
        """A name server on the host's 127.0.0.53 that hands on what it is asked, until the end of the block."""
        argv = (*self._entering("net"), sys.executable, "-I", "-S", "-c", _STUB)
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as stub:
            try:
                assert stub.stdout is not None
                assert stub.stdout.readline() == b"ready\n"
                yield
            finally:
                stub.kill()

    def as_root(self, script: str) -> str:
        """Run a text by `sh -e` as root among the host's files, and return what it prints."""
        if self.name == HERE:
            pytest.skip("this needs root")
        done = self._as_root("mount", "sh", "-ec", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def run_as_member(self, command: str, group: int, *, timeout: float = 120) -> Result:
        """Run a command as the account would be, were it a member of this group as well; in its own home."""
        if self.name == HERE:
            pytest.skip("this needs root")
        running = world.find(HOSTS[self.name])
        assert running is not None
        home = f"{HOME}/login"
        entering = ("nsenter", f"--target={running.holder}", "--mount", "--net", "--")
        account = ("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", f"--groups={ACCOUNT},{group}")
        argv = (*entering, *account, "sh", "-c", command)
        began = time.monotonic()
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=environment(home), timeout=timeout, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def run_as_other(self, program: str, command: str, uid: int, gid: int, *, timeout: float = 300) -> Result:
        """Run a command as a user of another number, whom `program` makes and who has the account's images."""
        if self.name == HERE:
            pytest.skip("this needs root")
        running = world.find(HOSTS[self.name])
        assert running is not None
        entering = ("nsenter", f"--target={running.holder}", "--mount", "--net", "--")
        argv = (*entering, "python3", "-I", "-", str(uid), str(gid), command)
        began = time.monotonic()
        done = subprocess.run(argv, input=program.encode(), capture_output=True, timeout=timeout, check=False)
        return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def _as_root(self, namespace: str, *argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run((*self._entering(namespace), *argv), input=stdin, capture_output=True, check=False)

    def _entering(self, namespace: str) -> tuple[str, ...]:
        running = world.find(HOSTS[self.name])
        assert running is not None
        return ("nsenter", f"--target={running.holder}", f"--{namespace}", "--")

    def registry(self) -> None:
        """Start the image registry on the host's 127.0.0.1:5000."""
        subprocess.run((f"{LABORATORY}/registry",), env=os.environ | {"LAB_HOST": self.name}, check=True)

    def _prepared(
        self, command: str, env: Mapping[str, str] | None, timeout: float
    ) -> tuple[Sequence[str], dict[str, str]]:
        given = dict(env or {})
        if self.name == HERE:
            return ("timeout", f"{timeout:g}", "sh", "-c", command), dict(os.environ) | given
        self._start = sinks.position(HOSTS[self.name])
        own = {
            "LAB_HOST": self.name,
            "LAB_TIMEOUT": f"{timeout:g}",
            "LAB_ENV": " ".join(given),
            "LAB_HELD": "yes",
            "LAB_AS_IS": "yes",
        }
        return (f"{LABORATORY}/run", command), dict(os.environ) | given | own
