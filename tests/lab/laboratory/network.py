"""
The two networks of a host: the fake internet, and a way to what the machine itself reaches.
"""

from __future__ import annotations

import subprocess

from laboratory.settings import HOST_ADDRESSES, NAMESERVER, SITES, LabError

# Both networks share one resolv.conf, because rootless podman keeps the mounts of its first start.
_OUTSIDE_RULES = f"""
table ip lab {{
    chain resolver {{
        type nat hook output priority -100;
        ip daddr {NAMESERVER} udp dport 53 dnat to 10.0.2.3
        ip daddr {NAMESERVER} tcp dport 53 dnat to 10.0.2.3
    }}
}}
"""


def connect(host: int, internet: int) -> None:
    """
    Join the network namespaces of two processes by a cable, the host at one end and all the world at the other.
    """
    _inside(internet, "ip", "link", "add", "cable", "type", "veth", "peer", "name", "eth0", "netns", str(host))
    world = [_address(address, "cable") for addresses in SITES.values() for address in addresses]
    # Whatever address the host sends to is ours: nothing that gets out goes unseen. (In the main table, after the
    # cable's own route: in the local one it would take the answers to the host as well.)
    everywhere = [
        "link set lo up",
        "link set cable up",
        "route add local default dev lo table main",
        "route add local ::/0 dev lo table main",
    ]
    _inside(internet, "ip", "-batch", "-", script="\n".join((*world, *everywhere)))
    router = SITES["router"]
    routes = [f"route add default via {router[0]}", f"route add default via {router[1]}"]
    own = [_address(address, "eth0") for address in HOST_ADDRESSES]
    _inside(host, "ip", "-batch", "-", script="\n".join(("link set lo up", *own, "link set eth0 up", *routes)))


def redirect_resolver(outside: int) -> None:
    """
    In the network that slirp4netns carries, the fake internet's name server is the machine's own.
    """
    _inside(outside, "nft", "-f", "-", script=_OUTSIDE_RULES)


def _address(address: str, device: str) -> str:
    if ":" in address:
        # Without nodad an address is unusable for its first second.
        return f"address add {address}/64 dev {device} nodad"
    return f"address add {address}/24 dev {device}"


def _inside(pid: int, *argv: str, script: str = "") -> None:
    command = ("nsenter", "--target", str(pid), "--net", *argv)
    done = subprocess.run(command, input=script, text=True, capture_output=True)
    if done.returncode:
        raise LabError(f"{' '.join(argv)} exited {done.returncode}: {done.stderr.strip()}")
