"""
`--proxy`: everything that is allowed goes through the user's proxy, and nothing past it. (B49)

The proxy is a squid of the test's own in the fake internet: what a sink sees comes from there, not from this host.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from laboratory import world

from tests.commands import of_section
from tests.e2e.lab import HOSTS
from tests.e2e.legs import curl, inside, needs_sinks, requested, tcp, tls
from tests.tools.upstream import Place, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.lab import Lab

pytestmark = needs_sinks

HOST = {"203.0.113.2", "2001:db8::2"}
# A private address, as a company's proxy has: whatever the host sends to is the fake internet's.
NAMES = "upstream.test A 10.99.0.7\nlost.test A 10.99.0.8\ninner.test A 10.20.0.5\n"
# Those of the recipe.
NAMES += "proxy.example.com A 10.99.0.7\nllm.example.com A 203.0.113.13\n"
HTTP, TLS = "http://upstream.test:3128", "https://upstream.test:3129"
LOGIN = "ada.lovelace:s3cr3t %41'\"$x"
# Long enough that none is met by chance: an address in `podman inspect` may well end in "ada:".
PARTS = ("s3cr3t", "YWRhLmxvdmVsYWNlOnMzY3IzdC", "ada.lovelace%3A", "ada.lovelace:")
ALLOWED = "--allow allowed.test,allowed.test:22,allowed.test:5432,inner.test,203.0.113.13:5432"


def place_of(lab: Lab, tmp_path: Path, process: str) -> Place:
    """The network of one of the laboratory's processes, with a certificate of its authority for a proxy there."""
    lab.names(NAMES)
    up = world.find(HOSTS[lab.name])
    assert up is not None
    authority = HOSTS[lab.name].cache / "authority"
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    (tmp_path / "conf").write_text("[req]\ndistinguished_name = subject\n[subject]\n")
    argv = ("openssl", "req", "-x509", "-config", f"{tmp_path}/conf", "-nodes", "-newkey", "ec",
            "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "3", "-subj", "/CN=upstream",
            "-addext", "subjectAltName=DNS:upstream.test", "-CA", f"{authority}/ca.pem", "-CAkey", f"{authority}/ca.key",
            "-keyout", str(key), "-out", str(certificate))  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)
    return Place(("nsenter", f"--net=/proc/{up.processes[process].pid}/ns/net"), str(certificate), str(key))


@pytest.fixture
def place(lab: Lab, tmp_path: Path) -> Place:
    """The fake internet."""
    return place_of(lab, tmp_path, "internet")


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    """A proxy that lets in who knows the password."""
    with Proxy(place, LOGIN) as proxy:
        yield proxy


def from_here(lab: Lab) -> set[tuple[str, Any]]:
    """What reached a sink from this host itself, and the names that were asked for from here."""
    events = lab.sinks("connect", "datagram", "hello", "request", "data")
    reached = {(item["sink"], item["port"]) for item in events if _source(item) in HOST}
    asked = {("question", item["name"].lower()) for item in lab.sinks("question") if _source(item) in HOST}
    return reached | asked


def _source(item: dict[str, Any]) -> str:
    return str(item["source"]).partition(" ")[0]


def asked_of(proxy: Proxy) -> set[str]:
    """What the proxy was asked for."""
    return {f"{asked.method} {asked.what}" for asked in proxy.asked() if asked.method != "-"}


@pytest.mark.parametrize("url", [HTTP, TLS], ids=["http", "https"])
def test_every_allowed_request_goes_through_the_proxy(lab: Lab, proxy: Proxy, url: str) -> None:
    """HTTP, TLS, SSH, a client that names no host, an address, with proxy variables and without; nothing goes past it."""
    banner = "SSH-2.0-laboratory"
    legs = {
        "HTTP": (curl("http://allowed.test/a"), "hello from allowed.test"),
        "HTTP, without": (curl("http://allowed.test/b", bare=True), "hello from allowed.test"),
        "HTTPS": (curl("https://allowed.test/c"), "hello from allowed.test"),
        "HTTPS, without": (curl("https://allowed.test/d", bare=True), "hello from allowed.test"),
        "SSH": (tcp("allowed.test", 22), banner),
        "SSH, by proxy": (tcp("allowed.test", 22, "", "proxy"), banner),
        "no name": (tcp("allowed.test", 5432, "hello\n"), "hello"),
        "an address": (tcp("203.0.113.13", 5432, "hello\n"), "hello"),
        # The proxy resolves, and judges where that leads.
        "a name with a private address": (curl("http://inner.test/"), "hello from elsewhere"),
        "not allowed": (curl("http://evil.test/"), "403 not-listed"),
        "not allowed, without": (curl("https://evil.test/", bare=True), "no such name"),
        "another port": (tcp("allowed.test", 8443, "", "proxy"), "403 port"),
        "another address": (tcp("203.0.113.11", 443), "reset"),
        "another name in TLS": (tls("allowed.test", 443, "evil.test", "proxy"), "closed"),
    }

    result = inside(
        lab, f"--proxy {url} --proxy-auth LOGIN {ALLOWED}", {name: leg for name, (leg, _) in legs.items()},
        env={"LOGIN": LOGIN},
    )  # fmt: skip

    assert result.said == {name: said for name, (_, said) in legs.items()}
    assert f"everything goes through the proxy {url}, nothing past it; it resolves the names" in result.errors
    proxy.wait_for(7)
    assert asked_of(proxy) == {
        "GET http://allowed.test/a", "GET http://allowed.test/b", "GET http://inner.test/",
        "CONNECT allowed.test:443", "CONNECT allowed.test:22", "CONNECT allowed.test:5432", "CONNECT 203.0.113.13:5432",
    }  # fmt: skip
    assert len([line for line in requested(lab) if "allowed.test/" in line]) == 4
    # This host asks where the proxy is; the rest is the proxy's.
    assert from_here(lab) == {("question", "upstream.test")}


def test_rules_are_judged_before_the_proxy(lab: Lab, proxy: Proxy) -> None:
    """A host with rules is read on its way to a proxy too; one that is spoken to in TLS is refused for it at once."""
    legs = {"read": curl("https://allowed.test/pub/x"), "refused": curl("https://allowed.test/other")}
    options = "--proxy-auth LOGIN --allow 'GET allowed.test/pub/**'"

    result = inside(lab, f"--proxy {HTTP} {options}", legs, env={"LOGIN": LOGIN})
    proxy.wait_for(1)
    asked = asked_of(proxy)
    refused = lab.run(f"aisb --proxy {TLS} {options} -- true", env={"LOGIN": LOGIN})

    assert result.said == {"read": "hello from allowed.test", "refused": "403 path"}
    assert asked == {"CONNECT allowed.test:443"}
    assert refused.code == 2
    assert "the gate cannot read the requests to allowed.test through a proxy that it speaks TLS to" in refused.errors


# While the sandbox waits: what podman, the files and the processes of this account show.
SEARCH = r"""
import glob, json, os, subprocess, sys
parts = json.loads(os.environ["PARTS"])
home, runtime, cache = os.path.expanduser("~"), os.environ["XDG_RUNTIME_DIR"], os.environ["XDG_CACHE_HOME"]
storage = subprocess.run(["podman", "info", "--format", "{{.Store.GraphRoot}}"], capture_output=True, text=True).stdout.strip()
names = subprocess.run(["podman", "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True).stdout.split()
found = {}
def look(where, data):
    for part in parts:
        if part.encode() in data:
            found.setdefault(part, []).append(where)
look("podman inspect", subprocess.run(["podman", "inspect", *names], capture_output=True).stdout)
files = 0
for place in (runtime, cache, home, *glob.glob(f"{storage}/*-containers"), *glob.glob(f"{storage}/libpod")):
    for directory, _, leaves in os.walk(place):
        for leaf in leaves:
            path = f"{directory}/{leaf}"
            try:
                if os.path.isfile(path) and os.stat(path).st_size < 8 << 20:
                    with open(path, "rb") as file:
                        look(path, file.read())
                    files += 1
            except OSError:
                pass
own = ("aisb", "ai-sandbox", "sh", "bash", "python", "sandbox-guard")
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            look(f"cmdline of {pid}", file.read())
        with open(f"/proc/{pid}/comm") as file:
            comm = file.read().strip()
        # The variable itself is the user's: the shell, aisb and its guardian have it.
        if not comm.startswith(own):
            with open(f"/proc/{pid}/environ", "rb") as file:
                look(f"environment of {comm}", file.read())
    except OSError:
        pass
print(json.dumps({"found": found, "files": files, "names": names}))
"""
WAITING = r"""
mkdir -p ~/search && cat >~/search/search.py
mkfifo go ready
aisb --proxy %s --proxy-auth LOGIN --allow allowed.test -- sh -c '
    curl -sS https://allowed.test/ && { env; cat /proc/self/mountinfo /run/aisb/* /run/aisb/gate/* 2>/dev/null; } >seen
    echo >ready; read -r _ <go' >said 2>&1 &
read -r _ <ready
env -u LOGIN PARTS="$PARTS" python3 ~/search/search.py
echo >go
wait $!
echo "ended $?"
podman ps -a --format '{{.Names}}'
find "$XDG_RUNTIME_DIR/aisb/g" -maxdepth 2 -name owner
echo "said: $(tr '\n' '|' <said)"
echo "seen: $(tr '\n\0' '||' <seen)"
"""


def test_the_password_is_found_nowhere(lab: Lab, proxy: Proxy) -> None:
    """In no file, no podman inspect, no list of processes, no log, not in the sandbox; the gate goes with its run."""
    result = lab.run(WAITING % HTTP, stdin=SEARCH.encode(), env={"LOGIN": LOGIN, "PARTS": json.dumps(PARTS)})

    lines = result.text.splitlines()
    search = json.loads(lines[0])
    assert search["found"] == {}
    assert search["files"] > 20
    (gate,) = [name for name in search["names"] if name.startswith("aisb-gate-") and name.count("-") == 3]
    run = gate.rpartition("-")[2]
    assert any(run in name for name in search["names"] if name.startswith("aisb-run"))
    assert lines[1] == "ended 0"
    # Its gate has ended with it, and left no directory.
    assert gate not in lines
    assert [line for line in lines if line.endswith("/owner")] == []
    assert [part for part in PARTS for line in lines[1:] if part in line] == []
    assert "hello from allowed.test" in next(line for line in lines if line.startswith("said: "))
    proxy.wait_for(1)
    assert set(proxy.told()) - {"-"} != set()
    # Nor has the server been told.
    assert [part for part in PARTS if part in json.dumps(lab.sinks())] == []
    assert len(requested(lab)) == 1


def test_a_proxy_that_does_not_answer_closes_everything(lab: Lab, place: Place) -> None:
    """In words, inside and at the end; the run itself starts, and nothing leaves. One that does not resolve is said at once."""
    legs = {
        "HTTP": curl("http://allowed.test/"),
        "HTTPS": curl("https://allowed.test/"),
        "SSH": tcp("allowed.test", 22),
    }

    result = inside(lab, f"--proxy http://lost.test:3128 {ALLOWED}", legs)
    here = from_here(lab)
    page = lab.run(f"aisb --proxy http://lost.test:3128 {ALLOWED} -- curl -sS http://allowed.test/")
    nowhere = lab.run("aisb --proxy http://nowhere.test:3128 --allow allowed.test -- true")

    assert [name for name, said in result.said.items() if "hello" in said or "SSH" in said] == []
    assert "allowed.test:443 is allowed, but the proxy that everything goes through did not pass it on" in result.errors
    assert here <= {("question", "lost.test"), ("elsewhere", 3128)}
    assert "reason: the proxy lost.test:3128, which everything goes through, does not take the connection" in page.text
    assert nowhere.code == 69
    assert "--proxy http://nowhere.test:3128: nowhere.test does not resolve" in nowhere.errors


def test_what_cannot_be_meant_is_refused(lab: Lab, place: Place) -> None:
    """A password in a URL, which is not repeated, a variable that is not set, a project's own proxy, another mode."""
    commands = {
        "aisb --proxy http://ada:s3cr3t@upstream.test:3128 --allow a.test -- true": 2,
        "AISB_PROXY=http://ada:s3cr3t@upstream.test:3128 aisb --allow a.test -- true": 2,
        f"aisb --proxy {HTTP} --proxy-auth NOT_SET --allow a.test -- true": 2,
        f"aisb --net none --proxy {HTTP} -- true": 2,
        f"aisb --net full --proxy {HTTP} -- true": 2,
        "aisb --proxy http://127.0.0.1:3128 --allow a.test -- true": 2,
        f"mkdir .ai-sandbox && echo 'proxy: {HTTP}' >.ai-sandbox/config.yaml && "
        "aisb --trust-once $(aisb trust --show 2>/dev/null | grep -o '[0-9a-f]\\{64\\}' | head -n 1) --allow a.test -- true": 2,
    }

    results = {command: lab.run(command) for command in commands}

    assert {command: result.code for command, result in results.items()} == commands
    assert [command for command, result in results.items() if "s3cr3t" in result.errors + result.text] == []


def test_a_user_names_the_proxy_once(lab: Lab, proxy: Proxy) -> None:
    """In the configuration file, with the name of the variable; AISB_PROXY is stronger; and by flags, as docs/recipes.md has it."""
    config = (
        "mkdir -p ~/.config/ai-sandbox && printf 'proxy: %s\\nproxy-auth: LOGIN\\n' >~/.config/ai-sandbox/config.yaml\n"
    )
    fetch = "aisb --allow allowed.test -- curl -sS https://allowed.test/"

    plain = lab.run(f"{config % HTTP}{fetch}", env={"LOGIN": LOGIN})
    here = from_here(lab)
    stronger = lab.run(f"{config % 'http://lost.test:1'}AISB_PROXY={TLS} {fetch}", env={"LOGIN": LOGIN})

    there = from_here(lab)
    (recipe,) = of_section("docs/recipes.md", "Behind a company's proxy")
    by_flags = lab.run(f'cat >~/token; cp "$LAB_CA" ~/company.pem\n{recipe.script}', stdin=LOGIN.encode())

    assert (plain.text, stronger.text) == ("hello from allowed.test\n",) * 2
    assert here == there == {("question", "upstream.test")}
    assert by_flags.text == "hello from llm.test\n", by_flags.errors
    assert from_here(lab) == {("question", "proxy.example.com")}


def test_a_proxy_on_this_very_host(lab: Lab, tmp_path: Path) -> None:
    """Its address is open to a gate on slirp4netns, at the proxy's port alone; a gate on pasta has it itself, which is said."""
    url = "http://203.0.113.2:3128"
    with Proxy(place_of(lab, tmp_path, "holder")) as proxy:
        done = lab.run(f"aisb --proxy {url} --allow allowed.test -- curl -sS http://allowed.test/")

        if lab.name == "debian12":
            assert (done.code, done.text) == (0, "hello from allowed.test\n")
            proxy.wait_for(1)
            assert asked_of(proxy) == {"GET http://allowed.test/"}
        else:
            assert done.code == 69
            assert f"--proxy {url} is this host itself, whose addresses a gate on pasta has too" in done.errors
            assert asked_of(proxy) == set()


KILLED = r"""
mkfifo go ready
aisb --proxy %s --proxy-auth LOGIN --allow allowed.test -- sh -c 'echo >ready; read -r _ <go' >said 2>&1 &
read -r _ <ready
gate=$(podman ps --format '{{.Names}}' | grep '^aisb-gate-[0-9a-f]\{12\}-[0-9a-f]\{8\}$')
kill -KILL $!
until [ -z "$(podman ps -aq --filter "name=^$gate$")" ]; do sleep 0.1; done
echo "gone: $gate"
aisb --allow allowed.test -- true
find "$XDG_RUNTIME_DIR/aisb/g" -maxdepth 2 -name owner
"""


def test_a_gate_with_a_password_does_not_outlive_a_killed_aisb(lab: Lab, proxy: Proxy) -> None:
    """It ends by itself, however long other gates stay, and the next start removes its directory."""
    result = lab.run(KILLED % HTTP, env={"LOGIN": LOGIN, "AISB_GATE_IDLE": "600"})

    assert result.code == 0
    assert [line.partition("-")[0] for line in result.text.splitlines()] == ["gone: aisb"]
