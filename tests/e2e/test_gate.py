"""The real gate in podman, from where squid stands: what it may do, and what it reaches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aisb.render.gate import NETWORKS
from tests.e2e.legs import needs_sinks

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

SQUID, BRIDGE = 13, 0
NETWORK = {"debian12": "slirp4netns", "debian13": "pasta"}
# Where the network of a container may show its host: by slirp4netns, and by pasta as the gateway and by address.
HOST_INSIDE = {"debian12": ("10.0.2.2",), "debian13": ("203.0.113.1", "169.254.1.1", "169.254.1.2")}
LOOPBACK = ("127.0.0.1", "::1", "10.0.2.2", "169.254.1.1", "169.254.1.2")
CANARIES = (22, 5432, 6379, 11434)
# What would open the host's loopback, as a default for all of a user's containers.
OPEN = {
    "debian12": '[engine]\\nnetwork_cmd_options = ["allow_host_loopback=true"]\\n',
    "debian13": '[network]\\npasta_options = ["--map-gw"]\\n',
}
FORWARDED = '[network]\\npasta_options = ["-T", "6379,5432"]\\n'

TRY = """
import json, socket, sys
found = {}
for address, port in json.loads(sys.argv[1]):
    client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    client.settimeout(2)
    try:
        client.connect((address, port))
        found[f"{address} {port}"] = "through"
    except OSError as error:
        found[f"{address} {port}"] = type(error).__name__
print(json.dumps(found))
"""
FIND_GATE = 'gate=$(podman ps --quiet --latest --filter label=aisb.role=gate) && test -n "$gate"'
AS_PYTHON = "/usr/bin/python3 -I -S -"


def attempts(lab: Lab, script: str, *where: tuple[str, int]) -> dict[str, str]:
    """What came of these attempts, made by the program that `script` starts."""
    result = lab.run(f"{script} '{json.dumps(where)}'", stdin=TRY.encode())
    assert result.code == 0, result.errors
    found: dict[str, str] = json.loads(result.text)
    return found


def in_gate(uid: int) -> str:
    """Python in a gate, as this user."""
    start = "aisb -q --allow allowed.test -- true </dev/null"
    return f"{start} && {FIND_GATE} && podman exec -i --user {uid} $gate {AS_PYTHON}"


def in_network(network: str, conf: str) -> str:
    """Python in the gate's image and nothing but its network, where the user's containers.conf says this."""
    write = f"mkdir -p ~/.config/containers && printf '{conf}' >~/.config/containers/containers.conf"
    image = "$(podman images --quiet --filter reference=localhost/aisb-gate | head -n 1)"
    run = f"podman run --rm -i --pull=never --entrypoint /usr/bin/python3 --network {network} {image} -I -S -"
    return f"{write} && {run}"


def test_no_program_of_the_gate_has_a_privilege(lab: Lab) -> None:
    fields = "huser capinh capprm capeff capbnd capamb seccomp comm"
    result = lab.run(f"aisb -q --allow allowed.test -- true && {FIND_GATE} && podman top $gate {fields}")
    lines = [line.split() for line in result.text.splitlines()[1:]]

    assert {line[-1] for line in lines} == {"python3", "sh", "squid"}
    assert {tuple(line[1:-1]) for line in lines} == {("none", "none", "none", "none", "none", "filter")}
    # The bridge is the caller, so that the record is the caller's; squid, its helper and the shell that signals it are nobody on the host.
    assert len({line[0] for line in lines}) == 2


def test_squid_reaches_public_addresses_and_its_name_servers_and_nothing_of_the_host(lab: Lab) -> None:
    public = [(address, port) for address in ("203.0.113.10", "2001:db8::10", "8.8.8.8") for port in (80, 443, 22)]
    inward = [
        *((address, port) for address in LOOPBACK for port in CANARIES),
        ("203.0.113.2", 8000), ("2001:db8::2", 8000), ("169.254.169.254", 80), ("fd00:ec2::254", 80), ("10.1.2.3", 80),
        ("192.168.1.1", 80), ("127.0.0.1", 3128),
    ]  # fmt: skip

    found = attempts(lab, in_gate(SQUID), *public, ("203.0.113.53", 53), *inward)

    assert found == dict.fromkeys((f"{a} {p}" for a, p in (*public, ("203.0.113.53", 53))), "through") | dict.fromkeys(
        (f"{a} {p}" for a, p in inward), "ConnectionRefusedError"
    )
    assert lab.sinks("connect", sink="host") == []


def test_the_bridge_goes_nowhere_but_to_squid(lab: Lab) -> None:
    away = [("203.0.113.10", 443), ("2001:db8::10", 443), ("203.0.113.53", 53), ("203.0.113.2", 8000), ("10.0.2.2", 22)]

    found = attempts(lab, in_gate(BRIDGE), ("127.0.0.1", 3128), *away)

    assert found == {"127.0.0.1 3128": "through"} | dict.fromkeys(
        (f"{a} {p}" for a, p in away), "ConnectionRefusedError"
    )
    assert lab.sinks("connect", sink="host") == []


def test_the_gates_network_keeps_the_hosts_loopback_closed_whatever_containers_conf_says(lab: Lab) -> None:
    """Without nft, which would refuse it too; and with the option left to podman, the same file opens it."""
    kind = NETWORK[lab.name]
    # Ports on which only the host answers, not the router that pasta puts itself in front of.
    where = [(address, port) for address in ("127.0.0.1", *HOST_INSIDE[lab.name]) for port in (6379, 11434)]

    opened = attempts(lab, in_network(kind, OPEN[lab.name]), *where)
    assert "through" in opened.values()
    assert lab.sinks("connect", sink="host") != []

    closed = attempts(lab, in_network(NETWORKS[kind], OPEN[lab.name]), *where)
    assert set(closed.values()) <= {"ConnectionRefusedError", "TimeoutError", "OSError"}
    assert lab.sinks("connect", sink="host") == []


def test_a_port_that_containers_conf_would_forward_is_not(lab: Lab) -> None:
    """pasta takes no second word on the same ports, so there is no network at all then, and podman says why."""
    if NETWORK[lab.name] != "pasta":
        # slirp4netns forwards nothing inward.
        return
    where = [("127.0.0.1", 6379), ("127.0.0.1", 5432)]
    assert set(attempts(lab, in_network("pasta", FORWARDED), *where).values()) == {"through"}

    result = lab.run(f"{in_network(NETWORKS['pasta'], FORWARDED)} '{json.dumps(where)}'", stdin=TRY.encode())

    assert (result.code, result.text) == (126, "")
    assert "Port forwarding mode 'none' conflicts with previous mode" in result.errors
    assert lab.sinks("connect", sink="host") == []


def test_the_record_of_a_run_is_the_callers(lab: Lab) -> None:
    run = "aisb -q --allow allowed.test -- curl -sS http://evil.test/ >/dev/null"
    find = "find ~ $XDG_RUNTIME_DIR -name audit.jsonl -printf '%u %m %s\\n'"
    user, *lines = lab.run(f"id -un; {run}; {find}").text.splitlines()

    found = [line.split() for line in lines]
    assert {(owner, mode) for owner, mode, _ in found} == {(user, "600")}
    assert any(int(size) > 0 for _, _, size in found)
