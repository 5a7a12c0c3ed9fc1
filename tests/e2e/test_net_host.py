"""The host itself: its loopback, its addresses, and the gate as a stepping stone to them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import WAYS, arrived, curl, inside, look_up, needs_sinks, outside, tcp

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

CANARY = "host canary"
CANARY_PORTS = (22, 5432, 6379, 11434)
HOST_V4 = "203.0.113.2"
HOST_V6 = "2001:db8::2"
ON_LOOPBACK = {f"127.0.0.1 {port}": tcp("127.0.0.1", port) for port in CANARY_PORTS} | {"::1 8000": tcp("::1", 8000)}
ON_NETWORK = {f"{host} 8000": tcp(host, 8000) for host in (HOST_V4, HOST_V6)}
# Where slirp4netns and pasta show the host's loopback, and its resolver.
MAPPED = ("10.0.2.2", "10.0.2.3", "169.254.1.1", "169.254.1.2", "fd00::2", "fd00::3")
PODMANS_NAMES = ("host.containers.internal", "host.docker.internal")


def test_full_access_ends_at_the_hosts_loopback(lab: Lab) -> None:
    """Nothing else is filtered with --net full, and each time it says so; no mapped address leads in. (A38)"""
    mapped = {f"{host} {port}": tcp(host, port) for host in MAPPED for port in (*CANARY_PORTS, 8000)}
    names = {f"{name} 22": tcp(name, 22) for name in PODMANS_NAMES}
    everything = {
        "a name": curl("https://evil.test/"),
        "a port": tcp("203.0.113.11", 22),
        "IPv6": tcp("2001:db8::11", 22),
    }
    reached = {"a name": "hello from evil.test", "a port": "SSH-2.0-laboratory", "IPv6": "SSH-2.0-laboratory"}

    assert outside(lab, ON_LOOPBACK | everything) == dict.fromkeys(ON_LOOPBACK, CANARY) | reached
    run = inside(lab, "--net full", ON_LOOPBACK | mapped | names | everything)

    assert run.said == {
        **dict.fromkeys(ON_LOOPBACK, "refused"),
        **dict.fromkeys(mapped, "refused"),
        **dict.fromkeys(names, "no such name"),
        **reached,
    }
    assert arrived(lab) == {"evil.test 443": 1, "evil.test 22": 2}
    assert "aisb: WARNING: --net full: everything but this host's loopback can be reached" in run.errors


# Sent over the device, whatever the routes say: a program may bind a socket to it, without any privilege.
OVER_THE_DEVICE = """
import socket, sys

device = next(name for _, name in socket.if_nameindex() if name != "lo")
for kind, host, port in (word.split() for word in sys.argv[1].split("|")):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as one:
        one.settimeout(5)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        try:
            one.connect((host, int(port)))
            one.send(b"over the device")
            print(kind, host, port, "sent")
        except OSError as error:
            print(kind, host, port, "refused" if error.errno in (1, 111) else error)
"""
# What comes to the host's loopback until the end is said.
LISTENER = """
import select, socket

sockets = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET, socket.AF_INET6)]
for one, address in zip(sockets, (("127.0.0.1", 3130), ("127.0.0.1", 9997), ("::1", 9997))):
    one.bind(address)
print("listening", flush=True)
while True:
    for one in select.select(sockets, [], [])[0]:
        said = one.recv(99).decode()
        if said == "end":
            raise SystemExit
        print(one.getsockname()[:2], said, flush=True)
"""
WITH_LISTENER = """
mkfifo heard; python3 -c "$LISTENER" >heard & exec 3<heard; read -r line <&3; echo "$line"
aisb -q $NET -- python3 -c "$OVER_THE_DEVICE" "$WORDS" || echo "exit $?"
python3 -c 'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"end", ("127.0.0.1", 9997))'
cat <&3
"""


@pytest.mark.parametrize("net", ["--net full", "--no-gate --allow allowed.test"])
def test_a_socket_that_is_bound_to_the_device_does_not_lead_to_the_hosts_loopback(lab: Lab, net: str) -> None:
    """slirp4netns would dial and send there: streams, datagrams, and questions that are redirected to loopback. (A36, A38)"""
    streams = [*(f"tcp 127.0.0.1 {port}" for port in CANARY_PORTS), "tcp 127.1.2.3 22", "tcp ::1 8000"]
    packets = [f"udp {host} {port}" for host in ("127.0.0.1", "::1") for port in (9997, 3130)]
    # Everything is open to the one; of the other a question leads nowhere but inside.
    questions = [] if net == "--net full" else ["udp 192.0.2.7 53"]
    words = [*streams, *packets, *questions]
    env = {"NET": net, "LISTENER": LISTENER, "OVER_THE_DEVICE": OVER_THE_DEVICE, "WORDS": "|".join(words)}

    result = lab.run(WITH_LISTENER, env=env)

    assert result.text.splitlines() == ["listening", *(f"{word} refused" for word in words)], result.errors
    assert not [site for site in arrived(lab) if site.startswith("host ")]


def test_no_address_of_the_host_answers(lab: Lab) -> None:
    """Its loopback is the sandbox's own; its addresses and the names that podman knows lead nowhere. (A38, A40)"""
    bridges = {f"{host} 8000": tcp(host, 8000) for host in ("172.17.0.1", "10.88.0.1", "192.168.122.1")}
    mapped = {f"{host} {port}": tcp(host, port) for host in MAPPED for port in CANARY_PORTS}
    names = {f"look-up of {name}": look_up(name) for name in PODMANS_NAMES}
    pages = {
        f"{host}, {way}": curl(f"http://{host}:8000/", bare=way == "without")
        for host in (HOST_V4, f"[{HOST_V6}]", PODMANS_NAMES[0])
        for way in ("by proxy", "without")
    }
    own = {"own": curl("https://allowed.test/", bare=True)}

    assert outside(lab, ON_LOOPBACK | ON_NETWORK) == dict.fromkeys(ON_LOOPBACK | ON_NETWORK, CANARY)
    run = inside(lab, "--allow allowed.test", ON_LOOPBACK | ON_NETWORK | bridges | mapped | names | pages | own)

    assert run.said == {
        **dict.fromkeys(ON_LOOPBACK, "refused"),
        **dict.fromkeys(ON_NETWORK | bridges | mapped, "reset"),
        **dict.fromkeys(names, "no such name"),
        **{leg: "403 direct-address" if "proxy" in leg else "cut" for leg in pages},
        f"{PODMANS_NAMES[0]}, by proxy": "403 not-listed",
        f"{PODMANS_NAMES[0]}, without": "no such name",
        "own": "hello from allowed.test",
    }
    assert arrived(lab) == {"allowed.test 443": 1}


# Where an allowed name may lead: to the host, to the gate itself, to what only a host should see.
LEADS = {
    "v4": "A 127.0.0.1",
    "v6": "AAAA ::1",
    "any": "A 0.0.0.0",
    "mapped": "AAAA ::ffff:127.0.0.1",
    "translated": "AAAA 64:ff9b::7f00:1",
    "host4": "A 203.0.113.2",
    "host6": "AAAA 2001:db8::2",
    "slirp": "A 10.0.2.2",
    "gate": "A 10.0.2.100",
    "pasta": "A 169.254.1.2",
    "metadata": "A 169.254.169.254",
    "metadata6": "AAAA fd00:ec2::254",
    "one-of-two": "A 127.0.0.1 203.0.113.10",
    "other-of-two": "A 203.0.113.10 127.0.0.1",
}


def test_an_allowed_name_does_not_lead_to_the_host(lab: Lab) -> None:
    """Whatever a name resolves to, the gate dials no private address and none of the host's, on any port. (A41)"""
    lab.names("".join(f"{name}.lead.test {record}\n" for name, record in LEADS.items()))
    banners = {
        f"{name} {port}, {way}": tcp(f"{name}.lead.test", port, "", via)
        for name in LEADS
        for port in (22, 8000)
        for way, via in WAYS.items()
    }
    pages = {
        f"{scheme} {name}, {way}": curl("--insecure", f"{scheme}://{name}.lead.test/", bare=way == "without")
        for name in LEADS
        for scheme in ("http", "https")
        for way in ("by proxy", "without")
    }
    # What the gate itself listens on.
    inner = {
        f"gate's {port}": tcp("v4.lead.test", port, "GET / HTTP/1.1\r\n\r\n", "socket") for port in range(3128, 3133)
    }
    own = {"own": curl("https://allowed.test/", bare=True)}
    reachable = ("v4 22", "v6 8000", "host4 8000", "host6 8000", "metadata 22", "one-of-two 22", "other-of-two 22")
    entries = ",".join(["allowed.test", "lead.test", *(f"lead.test:{port}" for port in (22, 8000, *range(3128, 3133)))])

    direct = outside(lab, {leg: banners[f"{leg}, without"] for leg in reachable})
    assert set(direct.values()) == {CANARY, "SSH-2.0-laboratory"}
    run = inside(lab, f"--allow {entries}", banners | pages | inner | own)

    assert run.said == {
        **{leg: "reset" if "without" in leg else "403" for leg in banners},
        **{leg: "403 private-address" if leg.startswith("http ") else "cut" for leg in pages},
        **dict.fromkeys(inner, "403"),
        "own": "hello from allowed.test",
    }
    assert arrived(lab) == {"allowed.test 443": 1}
    assert {reason for _, _, reason in run.denials()} == {"private-address"}


def test_the_gates_own_loopback_is_nobodys(lab: Lab) -> None:
    """The names and addresses that mean the gate itself, its own listeners and the one to which it connects. (A41)"""
    legs = {
        f"{host} {port}": tcp(host, port, "", "socket")
        for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "gate.aisb.internal", "ok.aisb.internal")
        for port in (22, 3128, 5432)
    }
    pages = {
        f"page of {host}": curl("--proxy", "http://127.0.0.1:3128", "--noproxy", "", f"http://{host}:5432/")
        for host in ("127.0.0.1", "[::1]", "localhost")
    }
    own = {"own": curl("https://allowed.test/", bare=True)}

    run = inside(lab, "--allow allowed.test", legs | pages | own)

    def reason(leg: str) -> str:
        return "not-listed" if "localhost" in leg or "gate." in leg else "port" if "ok." in leg else "direct-address"

    assert run.said == {leg: f"403 {reason(leg)}" for leg in legs | pages} | {"own": "hello from allowed.test"}
    assert arrived(lab) == {"allowed.test 443": 1}


COUNTED = """
run() { aisb --allow allowed.test -- sh -c "$1" 2>said; }
# By process, as the host sees them.
count_descriptors() {
    gate=$(sed -n 's/.*gate \\([0-9a-f]*\\) .*/\\1/p' said)
    for pid in $(podman top "aisb-gate-$gate" hpid | tail -n +2); do podman unshare ls "/proc/$pid/fd" | wc -l; done | xargs
}
run 'curl -sS https://allowed.test/'
before=$(count_descriptors)
run 'unset no_proxy NO_PROXY
for i in $(seq 200); do curl -s -o /dev/null -w "%{http_code}\\n" -x 127.0.0.1:3128 http://127.0.0.1:3128/; done | uniq -c'
[ "$before" = "$(count_descriptors)" ] && [ -n "$before" ] && echo same
"""


def test_a_request_to_itself_does_not_go_round(lab: Lab) -> None:
    """Two hundred requests for the proxy through the proxy: each refused, and no descriptor is left of them. (A41)"""
    result = lab.run(COUNTED)

    assert (result.text.split(), result.errors) == (["hello", "from", "allowed.test", "200", "403", "same"], "")


# Run A stays until it is told to go on; meanwhile others try its socket.
BORROWED = r"""
cat >connect.py <<'END'
import os, socket, sys
path, user = sys.argv[1:]
os.setuid(int(user))
with socket.socket(socket.AF_UNIX) as client:
    try:
        client.connect(path)
        client.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
        print(client.recv(12).decode())
    except OSError as error:
        print(error.strerror)
END
mkdir a b && cp connect.py b && mkfifo a/up a/go
listening() { ss -Hltn | awk '{print $4}' | sort; }
listening >before
(cd a && exec aisb -q --allow allowed.test,NEW.test -- sh -c 'echo >up; read -r _ <go; curl -sS http://allowed.test/a') &
read -r _ <a/up
socket=$(ls -1t "$XDG_RUNTIME_DIR"/aisb/g/*/r/*/s/gate.sock | head -n 1)

listening | cmp before - && echo "no port: the same"
echo "its user: $(python3 connect.py "$socket" "$(id -u)")"
echo "another user: $(podman unshare python3 connect.py "$socket" 1)"
cd b
for list in cdn.test allowed.test,NEW.test; do
    aisb -q --allow $list -- sh -c '
        echo "a sandbox with $1, by the path: $(python3 connect.py "$0" 1000)"
        echo "a sandbox with $1, by its own: $(python3 connect.py /run/aisb/gate/gate.sock 1000)"
        echo "a sandbox with $1, sockets in sight: $(find / -type s 2>/dev/null | xargs)"
    ' "$socket" "$list"
done
echo >../a/go
wait
"""


def test_a_gate_serves_nobody_but_its_own_sandboxes(lab: Lab) -> None:
    """It has no port on the host; another user, and a sandbox of any list, do not get to a run's socket. (A43)"""
    new = f"n{secrets.token_hex(4)}"

    result = lab.run(BORROWED.replace("NEW", new))

    both = f"allowed.test,{new}.test"
    assert (result.text.splitlines(), result.errors) == (
        [
            "no port: the same",
            "its user: HTTP/1.1 200",
            "another user: Permission denied",
            "a sandbox with cdn.test, by the path: No such file or directory",
            "a sandbox with cdn.test, by its own: HTTP/1.1 403",
            "a sandbox with cdn.test, sockets in sight: /run/aisb/gate/gate.sock",
            f"a sandbox with {both}, by the path: No such file or directory",
            f"a sandbox with {both}, by its own: HTTP/1.1 200",
            f"a sandbox with {both}, sockets in sight: /run/aisb/gate/gate.sock",
            "hello from allowed.test",
        ],
        "",
    )
