"""Long and two-way traffic, to hosts whose TLS is opened for their rules and to those that pass unread: the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e import git_server
from tests.e2e.legs import needs_sinks, outside, requested, tcp

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# Large packs and a long silence; other work on the machine adds to both.
pytestmark = [needs_sinks, pytest.mark.timeout(600)]

TRUST = 'export SSL_CERT_FILE="$LAB_CA" GIT_SSL_CAINFO="$LAB_CA" NODE_EXTRA_CA_CERTS="$LAB_CA"; '
# More than a server takes in one piece: git sends it without saying how long it is. Nothing makes it smaller. The way
# through the gate is the same program on both hosts: one has the whole of it.
LARGE_MB = {"debian13": 200, "debian12": 100}
# Client and server end a stream of that length by an error of HTTP/2 now and then. No gate can: it is inside their TLS.
ALL_OF_GIT = f"""
set -e
identity='-c user.name=x -c user.email=x@x.test'
git clone -q https://{git_server.UNREAD}/whole.git work 2>errors
cd work
head -c ${{LARGE_MB}}M /dev/urandom >large
git config core.compression 0; git add -A; git $identity commit -qm one; git gc -q
for site in {git_server.UNREAD} {git_server.OPENED}; do
    url=https://$site/whole.git
    git push -q $url HEAD:main || git push -q $url HEAD:main
    git clone -q $url ../again; cmp large ../again/large; echo the same
    echo $site >small; git add small; git $identity commit -qm two; git push -q $url HEAD:main
    git -C ../again pull -q; cat ../again/small
    git ls-remote $url main | cut -f 2
    rm -rf ../again
done
cd ..; rm -rf work
"""
# Somebody else's: in seconds, and no question for a password, to which nobody could answer.
ELSEWHERE = f"https://{git_server.REFUSED}/whole.git"
DENIED = (
    f"timeout 10 git ls-remote {ELSEWHERE} </dev/null 2>&1 | grep -ci 'username\\|password' || true; "
    f"timeout 10 git ls-remote {ELSEWHERE} </dev/null 2>/dev/null || echo exit $?"
)


def test_git_clones_fetches_and_pushes(lab: Lab) -> None:
    """
    With a pack of 200 MB, to a host that passes unread and one whose TLS is opened; another is refused in seconds. (B04)

    The server is git's own behind nginx. Unread it is HTTP/2 from end to end; the gate speaks HTTP/1.1, in chunks.
    """
    entries = f"--allow {git_server.UNREAD} --allow 'GET,POST {git_server.OPENED}/whole.git/**'"
    with git_server.git_server(lab, "whole") as server:
        # What is refused inside would have answered.
        direct = lab.run(
            f"{TRUST}git clone -q https://{git_server.UNREAD}/whole.git x && git ls-remote {ELSEWHERE}; echo $?"
        )
        before = server.requests()
        script = f"LARGE_MB={LARGE_MB[lab.name]}{ALL_OF_GIT}{DENIED}\n"
        result = lab.run(f"aisb -q {entries} -- sh -s", stdin=script.encode(), timeout=500)
        requests = server.requests()[len(before) :]

    assert (direct.text[-2:], {item["site"] for item in before}) == ("0\n", {git_server.UNREAD, git_server.REFUSED})
    told = [line for site in (git_server.UNREAD, git_server.OPENED) for line in ("the same", site, "refs/heads/main")]
    assert (result.code, result.text.splitlines()) == (0, [*told, "0", "exit 128"]), result.errors
    assert {item["site"] for item in requests} == {git_server.UNREAD, git_server.OPENED}
    assert [
        (item["site"], item["path"], item["protocol"], item["encoding"], item["status"])
        for item in requests
        if item["bytes"] > LARGE_MB[lab.name] << 20 and item["status"] == 200
    ] == [
        (git_server.UNREAD, "/whole.git/git-receive-pack", "HTTP/2.0", "", 200),
        (git_server.OPENED, "/whole.git/git-receive-pack", "HTTP/1.1", "chunked", 200),
    ]


def test_rules_that_let_git_read_let_it_write_nothing(lab: Lab) -> None:
    """A clone passes, and a push from it is refused in words before its first byte of a pack. (B04)"""
    url = "https://allowed.test/smart/read.git"
    commit = "git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m"
    push = f"{commit} more; timeout 20 git push -q origin HEAD:main"
    rules = "--allow 'GET allowed.test/smart/**' --allow 'POST allowed.test/smart/read.git/git-upload-pack'"
    with lab.repository("read"):
        direct = lab.run(f"{TRUST}git clone -q {url} x 2>/dev/null && cd x && {push} && {push}; echo $?")
        assert direct.text == "0\n", direct.errors
        before = lab.run(f"{TRUST}git ls-remote {url}").text
        result = lab.run(f"aisb {rules} -- sh -c 'git clone -q {url} x && cd x && {push}; echo $?'")
        arrived = {(item["method"], item["path"].rpartition("/")[2]) for item in lab.sinks("request")}
        after = lab.run(f"{TRUST}git ls-remote {url}").text

    assert (result.code, result.text, before) == (0, "1\n", after), result.errors
    assert ("POST", "git-receive-pack") not in arrived
    assert ("POST", "git-upload-pack") in arrived
    add = "to allow it, add: --allow 'POST allowed.test/smart/read.git/git-receive-pack'"
    assert result.errors.splitlines()[-1].endswith(f"are allowed, but not with this method; {add}")


OVER_SSH = (
    "GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o ConnectTimeout=30' "
    "timeout 60 git ls-remote git@allowed.test:x.git 2>said; echo exit $?; grep -o 'Permission denied' said; rm said"
)


def test_git_over_ssh_takes_an_entry_for_its_port(lab: Lab) -> None:
    """Without one it fails at once, and the last lines say which one; with it the server answers. (B05)"""
    assert outside(lab, {"SSH": tcp("allowed.test", 22)}) == {"SSH": "SSH-2.0-laboratory"}
    closed = lab.run("aisb --allow allowed.test -- sh -s", stdin=OVER_SSH.encode())
    assert lab.sinks("connect") == []
    with lab.ssh_server(""):
        opened = lab.run("aisb -q --allow allowed.test,allowed.test:22 -- sh -s", stdin=OVER_SSH.encode())

    why = "aisb: denied allowed.test:22: the host is allowed, but not on this port; to allow it, add: --allow allowed.test:22"
    assert (closed.text, closed.errors.splitlines()[-1]) == ("exit 128\n", why)
    # That server knows nobody of this name.
    assert opened.text == "exit 128\nPermission denied\n"


PUSH = (
    "git init -q w; cd w; git -c user.name=a -c user.email=a@a.test commit -q --allow-empty -m pushed; "
    "timeout 60 git push -q ssh://aisb-lab@allowed.test/~/x.git HEAD:main; echo $?; "
    "echo x >>~/.ssh/known_hosts; rm -f ~/.ssh/id_ed25519; cd ..; rm -rf w"
)
KEYS = """
mkdir -m 700 ~/.ssh; umask 077; printf '%s\n' "$KEY" >~/.ssh/id_ed25519; printf '%s\n' "$KNOWN" >~/.ssh/known_hosts
aisb -q --allow allowed.test:22 --mount ~/.ssh --env GIT_SSH_COMMAND -- sh -c "$PUSH"
cat ~/.ssh/known_hosts; [ -s ~/.ssh/id_ed25519 ] && echo kept
"""


def test_git_pushes_over_ssh_with_keys_that_are_mounted(lab: Lab) -> None:
    """The key has the mode that ssh wants, known_hosts is read and not written: an unknown server gets nothing. (B05)"""
    generate = "aisb -q --net none -- sh -c 'ssh-keygen -q -t ed25519 -N \"\" -f k; cat k.pub k'"
    public, _, private = lab.run(generate).text.partition("\n")
    variables = {"KEY": private.strip(), "PUSH": PUSH, "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
    with lab.ssh_server(public + "\n") as known:
        pushed = lab.run(KEYS, env={**variables, "KNOWN": known})
        unknown = lab.run(KEYS, env={**variables, "KNOWN": "# nobody"})

    assert pushed.text.splitlines() == ["0", known, "kept"], pushed.errors
    assert unknown.text.splitlines() == ["128", "# nobody", "kept"], unknown.errors
    assert "Host key verification failed." in unknown.errors
    assert "Read-only file system" in pushed.errors


SOCKETS = r"""
import json, os, socket, ssl, struct, sys
CONTEXT = ssl.create_default_context()
HEAD = ("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
def head_of(reader):
    lines = []
    while (line := reader.readline()) not in (b"\r\n", b""):
        lines.append(line.decode())
    return lines[0].split(" ")[1] if lines else "closed"
def dial(host, way):
    proxy = os.environ.get("https_proxy", "").rpartition("//")[2]
    if way == "without" or not proxy:
        return socket.create_connection((host, 443), 10)
    address, _, port = proxy.rpartition(":")
    plain = socket.create_connection((address, int(port)), 10)
    plain.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
    status = b""
    while not status.endswith(b"\r\n\r\n"):
        status += plain.recv(1) or b"\r\n\r\n"
    if b" 200 " not in status.partition(b"\r\n")[0]:
        raise OSError(status.split(b" ")[1].decode())
    return plain
def message(kind, data):
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xff" + struct.pack("!Q", len(data))
    mask = b"\x01\x02\x03\x04"
    return bytes([0x80 | kind]) + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
def answer(reader):
    kind, size = reader.read(2)
    form = {126: "!H", 127: "!Q"}.get(size)
    return kind & 15, reader.read(struct.unpack(form, reader.read(struct.calcsize(form)))[0] if form else size)
def outcome(host, path, way):
    try:
        with CONTEXT.wrap_socket(dial(host, way), server_hostname=host) as client:
            client.sendall((HEAD % (path, host)).encode())
            reader = client.makefile("rb")
            status = head_of(reader)
            if status != "101":
                return status
            for kind, data in ((1, b"hello"), (2, os.urandom(100000)), (1, b"again"), (8, b"\x03\xe8")):
                client.sendall(message(kind, data))
                if answer(reader) != (kind, data):
                    return "another answer"
            return "talks"
    except socket.gaierror:
        return "no such name"
    except OSError as error:
        return str(error)
print(json.dumps({f"{host}{path}, {way}": outcome(host, path, way)
                  for host, path in json.loads(sys.argv[1]) for way in ("by proxy", "without")}))
"""
PLACES = {
    ("allowed.test", "/ws/any"): "talks",
    ("cdn.test", "/ws/a"): "talks",
    ("cdn.test", "/ws/secret"): "403",
    ("llm.test", "/ws/a"): "403",
    ("evil.test", "/ws/a"): "",
}
OF_NODE = (
    "const s = new WebSocket('wss://cdn.test/ws/a'); s.onopen = () => s.send('hello'); "
    "s.onmessage = (m) => { console.log(m.data); s.close(); }; s.onerror = (e) => console.log('error')"
)


def test_a_websocket_talks_where_its_get_is_allowed(lab: Lab) -> None:
    """Opened for rules and unread, with a proxy and without, and Node's own; refused in words everywhere else. (B34)"""
    argument = json.dumps(list(PLACES))
    direct = lab.run(f"{TRUST}python3 - '{argument}'", stdin=SOCKETS.encode())
    assert set(json.loads(direct.text).values()) == {"talks"}
    rules = "--allow allowed.test --allow 'GET cdn.test/ws/a' --allow 'POST llm.test/ws/a'"
    command = f"python3 - '{argument}'; node -e \"{OF_NODE}\""

    result = lab.run(
        f"aisb {rules} -- sh -c '{command.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'",
        stdin=SOCKETS.encode(),
    )

    said, _, of_node = result.text.partition("\n")
    ways = ("by proxy", "without")
    expected = {f"{host}{path}, {way}": text for (host, path), text in PLACES.items() for way in ways if text}
    assert json.loads(said) == expected | {
        "evil.test/ws/a, by proxy": "403",
        "evil.test/ws/a, without": "no such name",
    }, result.errors
    assert of_node == "hello\n"
    assert requested(lab) == sorted(
        2 * ["allowed.test GET https://allowed.test/ws/any"] + 3 * ["cdn.test GET https://cdn.test/ws/a"]
    )


SILENCE_SECONDS = 20
STREAMS = r"""
import json, os, ssl, sys, threading, time
SILENCE = int(sys.argv[1])
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener
said = {}
def stream(host, scheme, way, number):
    url, key = f"{scheme}://{host}", f"{os.getpid()}-{host}-{number}"
    proxies = [ProxyHandler({})] if way == "without" else []
    opener = build_opener(*proxies, HTTPSHandler(context=ssl.create_default_context()))
    try:
        body = b"x" * (5_000_000 if number < 4 else 10_000)
        answer = opener.open(Request(f"{url}/events/{key}/4", data=body), timeout=40)
        events = []
        for turn in range(4):
            if turn:
                time.sleep(SILENCE if turn == 2 and number < 8 else 0)
                opener.open(f"{url}/next/{key}", timeout=40).read()
            events.append(answer.readline().decode().strip())
            answer.readline()
        said[f"{host} {number}"] = " ".join(events) + answer.read().decode()
    except Exception as error:
        said[f"{host} {number}"] = repr(error)
kinds = [(scheme, way) for scheme in ("http", "https") for way in ("by proxy", "without")]
threads = [threading.Thread(target=stream, args=(host, *kinds[number % 4], number))
           for number in range(32) for host in sys.argv[2:]]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(said))
"""


STREAMING = ("allowed.test", "cdn.test")


def test_a_stream_comes_as_it_is_sent(lab: Lab) -> None:
    """
    Each event before the next one is called for, also after a silence, 64 at once, behind a body of 5 MB.

    (B45) From a host that passes unread and one that is opened, over HTTP and HTTPS, with a proxy and without.
    """
    all_of_it = {f"{host} {number}": "data: 0 data: 1 data: 2 data: 3" for host in STREAMING for number in range(32)}
    hosts = " ".join(STREAMING)
    direct = lab.run(f"{TRUST}python3 - 0 {hosts}", stdin=STREAMS.encode())
    assert json.loads(direct.text) == all_of_it
    entries = "--allow allowed.test --allow 'POST cdn.test/events/**' --allow 'GET cdn.test/next/**'"

    result = lab.run(f"aisb -q {entries} -- python3 - {SILENCE_SECONDS} {hosts}", stdin=STREAMS.encode(), timeout=300)

    assert json.loads(result.text) == all_of_it, result.errors
    sizes = [item["bytes"] for item in lab.sinks("request") if item["method"] == "POST"]
    assert sorted(sizes) == 56 * [10_000] + 8 * [5_000_000]
