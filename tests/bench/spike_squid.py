"""
What squid does, asked in the gate's image, where it has nobody to reach: prints the answers as one JSON object.

Sent whole to a Python in a container of its own. Standard library, openssl and squid.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from typing import Self

PLACE = "/tmp/spike"
SECONDS = 20.0
COMMON = f"""
visible_hostname spike.test
pid_filename none
cache_log {PLACE}/cache.log
coredump_dir {PLACE}
access_log none
shutdown_lifetime 0 seconds
pinger_enable off
cache deny all
max_filedescriptors 1024
hosts_file {PLACE}/hosts
external_acl_type gate ipv4 ttl=0 negative_ttl=0 cache=0 %METHOD %DST %PATH %>ha{{Host}} WHAT /usr/bin/python3 -I -S {PLACE}/helper.py
acl agrees external gate
"""
MEANT = """
http_port 127.0.0.1:3129 accel vhost allow-direct require-proxy-header
acl here src 127.0.0.1/32
proxy_protocol_access allow here
http_access deny !agrees
http_access deny all
"""
BUMPED = f"""
http_port 127.0.0.1:3129 ssl-bump generate-host-certificates=on dynamic_cert_mem_cache_size=4MB tls-cert={PLACE}/ca.crt tls-key={PLACE}/ca.key
sslcrtd_program /usr/lib/squid/security_file_certgen -s {PLACE}/certificates -M 4MB
sslcrtd_children 1 startup=1 idle=1
sslproxy_cert_error allow all
acl first at_step SslBump1
ssl_bump peek first
ssl_bump bump all
http_access deny !agrees
http_access allow all
"""
HELPER = f"""
import sys
for line in sys.stdin:
    with open("{PLACE}/asked", "a") as file:
        file.write(line)
    print("OK", flush=True)
"""


def write(name: str, text: str) -> str:
    """A file that squid's user can read."""
    path = f"{PLACE}/{name}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o644)
    return path


def asked() -> list[str]:
    """The lines that the helper was asked, and none of them any more."""
    path = f"{PLACE}/asked"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    os.unlink(path)
    return lines


class Squid:
    """squid with a configuration, for the length of a block."""

    def __init__(self, text: str) -> None:
        self._argv = ("/usr/sbin/squid", "-N", "-f", write("squid.conf", text))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._argv, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", 3129), SECONDS).close()
            except ConnectionRefusedError:
                time.sleep(0.02)
            else:
                return self
        raise TimeoutError("squid does not listen")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def dial() -> socket.socket:
    """A connection to squid."""
    return socket.create_connection(("127.0.0.1", 3129), SECONDS)


def what_was_meant() -> str:
    """What a helper is told of a name that came in a PROXY header, and of a path that has a query."""
    value = b"meant.test:80"
    body = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, "::1")
    body += struct.pack("!HHBH", 1, 3129, 2, len(value)) + value
    header = b"\r\n\r\n\0\r\nQUIT\n" + struct.pack("!BBH", 0x21, 0x21, len(body)) + body
    with Squid(COMMON.replace("WHAT", "%proxy_protocol::>h{2}") + MEANT), dial() as client:
        client.sendall(header + b"GET /path?query HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
        client.recv(4096)
    return " / ".join(asked())


class Server(threading.Thread):
    """Says which hello and which Host header came to it, to one client after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 443))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(f"{PLACE}/ca.crt", f"{PLACE}/ca.key")
        self._context.sni_callback = self._note
        self.name = ""
        self.seen: list[str] = []

    def _note(self, _socket: ssl.SSLObject, name: str, _context: ssl.SSLContext) -> None:
        self.name = name

    def run(self) -> None:
        while True:
            client = self._listener.accept()[0]
            try:
                with self._context.wrap_socket(client, server_side=True) as served:
                    while head := served.recv(65536):
                        hosts = [line[6:] for line in head.decode("latin-1").split("\r\n") if line.startswith("Host: ")]
                        self.seen.append(f"hello {self.name}, Host {','.join(hosts)}")
                        served.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
            except OSError:
                continue


def inside_opened_tls() -> dict[str, str]:
    """Where a request goes, and by which name it is judged, that names another host inside of TLS that squid opened."""
    openssl = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=spike.test")
    files = ("-keyout", f"{PLACE}/ca.key", "-out", f"{PLACE}/ca.crt")
    subprocess.run((*openssl, *files), check=True, capture_output=True)
    os.chmod(f"{PLACE}/ca.key", 0o644)
    made = ("/usr/lib/squid/security_file_certgen", "-c", "-s", f"{PLACE}/certificates", "-M", "4MB")
    subprocess.run(made, check=True, capture_output=True)
    subprocess.run(("chmod", "-R", "a+rwX", f"{PLACE}/certificates"), check=True)
    server = Server()
    server.start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with Squid(COMMON.replace("WHAT", "%ssl::>sni") + BUMPED), dial() as client:
        client.sendall(b"CONNECT one.test:443 HTTP/1.1\r\nHost: one.test:443\r\n\r\n")
        client.recv(4096)
        with context.wrap_socket(client, server_hostname="one.test") as opened:
            opened.sendall(b"GET /page HTTP/1.1\r\nHost: two.test\r\n\r\n")
            opened.recv(4096)
    judged = [line.split(" ")[1] for line in asked() if line.startswith("GET")]
    return {"judged": " / ".join(judged), "arrived": " / ".join(server.seen)}


def main() -> None:
    """Ask everything."""
    os.makedirs(PLACE)
    os.chmod(PLACE, 0o777)
    write("helper.py", HELPER)
    write("hosts", "127.0.0.1 one.test two.test\n")
    parsed = subprocess.run(
        ("/usr/sbin/squid", "-k", "parse", "-f", write("parse.conf", f'acl listed dstdomain -n "{PLACE}/not-there"\n')),
        capture_output=True,
        check=False,
    )
    told = {"parse": str(parsed.returncode), "meant": what_was_meant(), **inside_opened_tls()}
    print(json.dumps(told))


main()
