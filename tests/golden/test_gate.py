"""What a gate reads, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aisb.domain.egress import EgressPolicy
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.injection import Injection
from aisb.domain.rules import BELOW, EXACT, TREE, WEB_PORTS, NameEntry
from aisb.domain.upstream import Upstream
from aisb.render.gate_files import gate_entrypoint, gate_files, squid_conf
from aisb.render.gate_upstream import WayOut

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = (
    NameEntry("allowed.test", TREE, WEB_PORTS),
    NameEntry("below.test", BELOW, WEB_PORTS),
    NameEntry("db.allowed.test", EXACT, (5432,)),
    NameEntry("exact.test", EXACT, (22, 80, 443)),
)
HOST = ("192.0.2.7", "203.0.113.2", "2001:db8::2", "fe80::1", "10.1.2.3")


def files_of(names: tuple[NameEntry, ...], host: tuple[str, ...]) -> dict[str, str]:
    return gate_files(egress=EgressPolicy(names), host_addresses=host, seccomp="{}\n", idle_seconds=600)


def test_everything_in_a_gates_directory(golden: Callable[[str, str], None]) -> None:
    files = files_of(NAMES, HOST)

    assert sorted(files) == [
        "ERR_CANNOT_FORWARD", "ERR_CONNECT_FAIL", "ERR_DNS_FAIL", "ERR_INVALID_RESP", "ERR_READ_ERROR",
        "ERR_READ_TIMEOUT", "ERR_SECURE_CONNECT_FAIL", "ERR_WRITE_ERROR", "ERR_ZERO_SIZE_OBJECT",
        "allowlist", "denied", "denied.json", "gate.nft", "hosts", "idle", "mounts", "policy.json", "seccomp.json", "squid.conf",
    ]  # fmt: skip
    for name, text in files.items():
        golden(f"gate/{name}", text)


def test_a_host_without_addresses_gets_sets_without_elements(golden: Callable[[str, str], None]) -> None:
    golden("gate/empty.nft", files_of(NAMES, ())["gate.nft"])


def test_addresses_and_hosts_with_rules(golden: Callable[[str, str], None]) -> None:
    """What there is besides: squid's configuration with certificates of the user's own, and the ruleset."""
    entries = ("allowed.test", "10.20.0.0/16:5432", "10.20.0.5", "[2001:db8::5]:443", "169.254.169.254", "fd00::/16",
               "GET api.test/pub/**", "GET,POST b.api.test/**")  # fmt: skip
    egress = gather((parse_entry(entry), "--allow") for entry in entries).policy
    files = gate_files(egress=egress, host_addresses=HOST, seccomp="{}\n", idle_seconds=600, roots="certificates\n")

    for name in ("bumped", "gate.nft", "policy.json", "roots.pem", "squid.conf"):
        golden(f"gate/every-kind/{name}", files[name])
    assert {"bumped", "roots.pem"}.isdisjoint(files_of(NAMES, HOST))


def test_a_gate_that_puts_secrets_into_requests(golden: Callable[[str, str], None]) -> None:
    """Headers by name and number, and no value; the host's TLS is opened though it has no rules."""
    injections = (Injection("allowed.test", "Authorization"), Injection("key.allowed.test", "X-Api-Key"))
    files = gate_files(
        egress=EgressPolicy(NAMES, injections=injections), host_addresses=HOST, seccomp="{}\n", idle_seconds=600
    )

    for name in ("bumped", "policy.json", "squid.conf"):
        golden(f"gate/injected/{name}", files[name])


def test_a_gate_that_learns(golden: Callable[[str, str], None]) -> None:
    """squid's outer bound is open on two ports, for what is public; the ruleset is that of any other gate."""
    plain, learning = (EgressPolicy(NAMES, learn=learn) for learn in (False, True))
    files = [
        gate_files(egress=egress, host_addresses=HOST, seccomp="{}\n", idle_seconds=600) for egress in (plain, learning)
    ]
    rules = gather([(parse_entry("10.20.0.5:5432"), ""), (parse_entry("GET api.test/x"), "")]).policy

    golden("gate/learn/squid.conf", files[1]["squid.conf"])
    golden("gate/learn/every-kind.conf", squid_conf(rules._replace(learn=True), HOST))
    assert sorted(name for name in files[0] if files[0][name] != files[1][name]) == ["policy.json", "squid.conf"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_gate_behind_a_proxy(golden: Callable[[str, str], None], scheme: str) -> None:
    """What squid knows of the proxy, without its password; it and nothing else is open in the ruleset."""
    rules = ("GET api.test/pub/**",) if scheme == "http" else ()
    entries = ("allowed.test", "10.20.0.0/16:5432", "169.254.169.254", *rules)
    egress = gather((parse_entry(entry), "--allow") for entry in entries).policy
    upstream = Upstream(scheme, "proxy.corp", 3128)
    way_out = WayOut(upstream, ("10.1.2.3", "2001:db8::9"), has_login=scheme == "https", own_roots=scheme == "https")
    files = gate_files(
        egress=egress, host_addresses=HOST, seccomp="{}\n", idle_seconds=2, roots="certificates\n", way_out=way_out
    )

    for name in ("ERR_CONNECT_FAIL", "ERR_SECURE_CONNECT_FAIL", "gate.nft", "peers", "squid.conf"):
        golden(f"gate/proxy-{scheme}/{name}", files[name])
    assert ("login" in files, files["roots.pem"]) == (scheme == "https", "certificates\n")


def test_the_entrypoint(golden: Callable[[str, str], None]) -> None:
    golden("gate/entrypoint", gate_entrypoint())
