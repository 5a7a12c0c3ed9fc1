"""git's own server behind nginx, at a name of its own below each of the three sites."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from laboratory import world
from laboratory.internet.authority import Authority
from laboratory.settings import ACCOUNT, HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.lab import Lab

UNREAD, OPENED, REFUSED = "git.allowed.test", "git.cdn.test", "git.evil.test"
NAMES = (UNREAD, OPENED, REFUSED)
ADDRESS, PORT = "198.51.100.21", 8444
STOP_SECONDS = 10
# An answer keeps a process busy; of the clients three come at once.
PROCESSES = "4"
_TABLE = f"table inet git {{ chain arriving {{ type nat hook prerouting priority -100; ip daddr {ADDRESS} tcp dport 443 redirect to :{PORT}; }}; }}"
_HTTP = """
daemon off;
worker_processes 1;
pid PLACE/pid;
error_log stderr notice;
events {}
http {
    log_format request escape=json '{"site":"$host","method":"$request_method","path":"$uri","protocol":"$server_protocol",'
        '"encoding":"$http_transfer_encoding","bytes":$request_length,"status":$status}';
    access_log PLACE/requests request;
    client_body_temp_path PLACE/body;
    proxy_temp_path PLACE/proxy;
    fastcgi_temp_path PLACE/fastcgi;
    uwsgi_temp_path PLACE/uwsgi;
    scgi_temp_path PLACE/scgi;
    client_max_body_size 0;
    # Of HTTP/2 it takes in what fits in here before it is read on, and a busy machine takes its time to read on.
    client_body_buffer_size 1m;
    http2_body_preread_size 1m;
    http2_recv_buffer_size 1m;
    client_body_timeout 600;
    send_timeout 600;
    fastcgi_read_timeout 600;
    ssl_certificate_key PLACE/server.key;
SERVERS
}
"""
_SERVER = """
    server {
        listen PORT ssl http2;
        server_name SITE;
        ssl_certificate PLACE/SITE.pem;
        location / { return 200 "hello over $server_protocol\\n"; }
        location ~ [.]git/ {
            fastcgi_pass unix:PLACE/fcgi;
            fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
            fastcgi_param GIT_PROJECT_ROOT PLACE/SITE;
            fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param GIT_PROTOCOL $http_git_protocol;
            fastcgi_param PATH /usr/bin:/bin;
            fastcgi_param PATH_INFO $uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
        }
    }"""


class GitServer(NamedTuple):
    """The server while it runs."""

    place: Path

    def requests(self) -> list[dict[str, Any]]:
        """Each request that it has answered, in its order: site, method, path, protocol, encoding, bytes, status."""
        return [json.loads(line) for line in (self.place / "requests").read_text().splitlines()]


@contextmanager
def git_server(lab: Lab, *repositories: str) -> Iterator[GitServer]:
    """
    Empty repositories at https://git.SITE/NAME.git that take pushes, of each site its own, until the end of the block.

    Over HTTP/2 for those who speak it; any other path says by which protocol it was asked for.
    """
    place = HOSTS[lab.name].cache / "git-server"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    _write(lab, place, repositories)
    running = world.find(HOSTS[lab.name])
    assert running is not None
    there = ("nsenter", f"--net=/proc/{running.processes['internet'].pid}/ns/net", "--")
    account = (*there, "setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place / "fcgi"))
            listener.listen()
            shutil.chown(place / "fcgi", ACCOUNT, ACCOUNT)
            stack.enter_context(_running((*account, "fcgiwrap", "-c", PROCESSES), stdin=listener.fileno()))
        nginx = stack.enter_context(_running((*account, "nginx", "-e", "stderr", "-c", str(place / "conf"))))
        assert nginx.stderr is not None
        said = list(_until(nginx, b"start worker process "))
        assert nginx.poll() is None, said
        subprocess.run((*there, "nft", _TABLE), check=True)
        stack.callback(subprocess.run, (*there, "nft", "delete", "table", "inet", "git"), check=True)
        yield GitServer(place)


def _write(lab: Lab, place: Path, repositories: tuple[str, ...]) -> None:
    """Names, keys, certificates, repositories and nginx's configuration; all of it is the account's."""
    lab.more_names("".join(f"{name} A {ADDRESS}\n" for name in NAMES))
    directory = HOSTS[lab.name].cache / "authority"
    authority = Authority(directory)
    for name in NAMES:
        authority.context(name)
        shutil.copy(directory / f"{name}.pem", place)
        for repository in repositories:
            at = place / name / f"{repository}.git"
            subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", at), check=True)
            # A pack that arrives is kept as it is: nothing is compressed a second time.
            settings = {"http.receivepack": "true", "receive.unpackLimit": "1", "core.compression": "0"}
            for key, value in settings.items():
                subprocess.run(("git", "-C", at, "config", key, value), check=True)
    shutil.copy(directory / "server.key", place)
    servers = "".join(_SERVER.replace("SITE", name) for name in NAMES)
    text = _HTTP.replace("SERVERS", servers).replace("PLACE", str(place)).replace(" PORT ", f" {PORT} ")
    (place / "conf").write_text(text)
    subprocess.run(("chown", "--recursive", f"{ACCOUNT}:{ACCOUNT}", place), check=True)


@contextmanager
def _running(argv: tuple[str, ...], stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a session of its own, of which nothing is left at the end of the block."""
    with subprocess.Popen(argv, stdin=stdin, stderr=subprocess.PIPE, start_new_session=True) as server:
        try:
            yield server
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(STOP_SECONDS)


def _until(server: subprocess.Popen[bytes], text: bytes) -> Iterator[bytes]:
    """What it says up to a line with this text in it, or all."""
    assert server.stderr is not None
    for line in server.stderr:
        yield line
        if text in line:
            return
