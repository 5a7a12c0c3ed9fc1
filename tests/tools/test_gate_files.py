"""What a gate reads, as the real squid, nft and shellcheck take it: a warning is a failure."""

from __future__ import annotations

import os
import random
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from aisb.domain.egress import EgressPolicy
from aisb.domain.injection import Injection
from aisb.domain.names import covering_lines
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import BELOW, EXACT, MATCHES, TREE, WEB_PORTS, NameEntry
from aisb.domain.upstream import Upstream
from aisb.render.gate_files import gate_entrypoint, gate_files
from aisb.render.gate_upstream import WayOut
from gate.squid import Lists, write_lists
from tests.tools.gate_box import allowing, run

if TYPE_CHECKING:
    from pathlib import Path

# In a mount namespace of its own: the files where a gate has them, below the system's folder.
PARSE = """
mount --make-rprivate /
mount -t tmpfs tmpfs "$1/run"
mkdir -p "$1/run/aisb/conf" "$1/run/squid/pages"
mount --bind "$2" "$1/run/aisb/conf"
cp -r "$2/live" "$1/run/aisb/"
cp "$2"/gate.key "$2"/gate.crt "$1/run/squid/"
[ ! -e "$2/peers" ] || sed 's/$/ login=u%3Ap%20%22%23w/' "$2/peers" >"$1/run/squid/peers"
[ ! -e "$2/roots.pem" ] || cp "$2/gate.crt" "$2/roots.pem"
exec chroot "$1" /usr/sbin/squid -k parse -f /run/aisb/conf/squid.conf
"""


POLICIES: dict[str, EgressPolicy] = {
    "one name": EgressPolicy((NameEntry("a.test", TREE, WEB_PORTS),)),
    "every kind of name": EgressPolicy(
        (
            NameEntry("a.test", TREE, WEB_PORTS),
            NameEntry("a.test", EXACT, (22,)),
            NameEntry("x.a.test", TREE, (22, 5432)),
            NameEntry("b.test", BELOW, (443,)),
            NameEntry("b.test", EXACT, (80,)),
            NameEntry("_srv.c.test", EXACT, (65535,)),
            NameEntry("xn--mnchen-3ya.test", TREE, WEB_PORTS),
            NameEntry("aisb.internal", TREE, WEB_PORTS),
        )
    ),
    "addresses": allowing(
        "10.0.0.0/8",
        "10.20.0.5:22",
        "10.20.0.0/16:22",
        "10.20.0.5",
        "169.254.169.254",
        "203.0.113.2:443",
        "fd00::/16",
        "fd00:ec2::254",
        "[fd00:1::/32]:5432",
        "[64:ff9b::a00:5]:443",
        "198.51.100.7",
        "192.0.2.0/24",
    ),
    "secrets": allowing("a.test", "GET b.test/**")._replace(
        injections=(Injection("a.test", "Authorization"), Injection("b.test", "X-Of-Our-Own"))
    ),
    "hosts with rules": allowing(
        "a.test",
        "GET,HEAD a.test/pub/**",
        "POST x.a.test/**",
        "exact:b.test:22",
        "PUT b.test/*",
        "10.0.0.0/8",
    ),
    "ten thousand names": EgressPolicy(tuple(NameEntry(f"n{n}.test", TREE, WEB_PORTS) for n in range(10_000))),
}
NOTHING_MORE = Lists()
HOST = ("192.0.2.7", "203.0.113.2", "10.1.2.3", "2001:db8::2", "fe80::1", "::1", "127.0.0.1")


def files_of(egress: EgressPolicy, host: tuple[str, ...] = HOST) -> dict[str, str]:
    return gate_files(egress=egress, host_addresses=host, seccomp="{}", idle_seconds=600)


def parse(
    system: str, folder: Path, files: dict[str, str], lists: Lists = NOTHING_MORE
) -> subprocess.CompletedProcess[str]:
    """What squid says to the files, and to what the bridge adds to them."""
    write_lists(str(folder), lists)
    for name, text in files.items():
        (folder / name).write_text(text)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x")
    run("openssl", "req", "-x509", *key, "-keyout", str(folder / "gate.key"), "-out", str(folder / "gate.crt"))
    return subprocess.run(
        ["unshare", "--mount", "sh", "-euc", PARSE, "sh", system, str(folder)],
        check=False, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def complaints(output: str) -> list[str]:
    return [line for line in output.splitlines() if re.search(r"\b(WARNING|ERROR|FATAL)\b", line)]


@pytest.mark.parametrize("egress", POLICIES.values(), ids=POLICIES.keys())
def test_squid_takes_its_configuration_without_a_warning(system: str, tmp_path: Path, egress: EgressPolicy) -> None:
    done = parse(system, tmp_path, files_of(egress))

    assert (complaints(done.stdout), done.returncode) == ([], 0), done.stdout
    assert "Processing: http_access deny all" in done.stdout


BEHIND_A_PROXY = {
    "addresses": POLICIES["addresses"],
    "hosts with rules": POLICIES["hosts with rules"],
    "learning": POLICIES["addresses"]._replace(learn=True),
}


def behind_a_proxy(scheme: str, egress: EgressPolicy) -> dict[str, str]:
    """With addresses of both kinds, a password, and roots of the user's own."""
    upstream = Upstream(scheme, "proxy.test", 3128)
    way_out = WayOut(upstream, ("10.0.0.5", "203.0.113.12", "2001:db8::12"), has_login=True, own_roots=True)
    return gate_files(
        egress=egress, host_addresses=HOST, seccomp="{}", idle_seconds=2, roots="certificates", way_out=way_out
    )


@pytest.mark.parametrize("egress", BEHIND_A_PROXY.values(), ids=BEHIND_A_PROXY.keys())
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_squid_and_nft_take_a_proxy_without_a_warning(
    system: str, tmp_path: Path, scheme: str, egress: EgressPolicy
) -> None:
    done = parse(system, tmp_path, behind_a_proxy(scheme, egress))
    checked = nft_check(tmp_path / "gate.nft")

    assert (complaints(done.stdout), done.returncode) == ([], 0), done.stdout
    assert done.stdout.count("Processing: cache_peer ") == 2 + 3
    assert "Processing: never_direct allow all" in done.stdout
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_squid_takes_the_allowlist_of_any_policy(system: str, tmp_path: Path) -> None:
    """squid dies on a name after the tree that holds it, and warns of the other order."""
    chance = random.Random(7)
    labels = ("a", "b", "c")
    entries = [
        NameEntry(
            ".".join(chance.choices(labels, k=chance.randint(1, 4))) + ".test",
            chance.choice(MATCHES),
            chance.choice([WEB_PORTS, (22,), (443,), (80, 443, 5432)]),
        )
        for _ in range(400)
    ]
    for count in (3, 20, 100):
        names = reduce_names(chance.sample(entries, count))
        said = chance.sample(entries, count)
        lists = Lists(covering_lines(said), tuple(sorted({port for entry in said for port in entry.ports})))
        done = parse(system, tmp_path, files_of(EgressPolicy(names)), lists)
        assert (complaints(done.stdout), done.returncode) == ([], 0), done.stdout


def test_a_name_that_squid_would_stumble_over_is_seen(system: str, tmp_path: Path) -> None:
    """The check is one: what squid does not like turns it red."""
    files = files_of(POLICIES["one name"])
    for allowlist in (".a.test\nx.a.test\n", "x.a.test\n.a.test\n"):
        done = parse(system, tmp_path, files | {"allowlist": allowlist})
        assert complaints(done.stdout)


@pytest.mark.parametrize("egress", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("host", [(), HOST, tuple(f"198.51.{n // 250}.{n % 250}" for n in range(1000))], ids=len)
def test_nft_takes_the_ruleset(tmp_path: Path, egress: EgressPolicy, host: tuple[str, ...]) -> None:
    ruleset = tmp_path / "gate.nft"
    ruleset.write_text(files_of(egress, host)["gate.nft"])

    done = nft_check(ruleset)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def nft_check(ruleset: Path) -> subprocess.CompletedProcess[str]:
    """What nft says to a ruleset."""
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "nft", "--check", "--file", str(ruleset)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip


def test_shellcheck_has_nothing_to_say_about_the_entrypoint(tmp_path: Path) -> None:
    script = tmp_path / "entrypoint"
    script.write_text(gate_entrypoint())
    os.chmod(script, 0o755)

    done = subprocess.run(["shellcheck", str(script)], check=False, capture_output=True, text=True)

    assert done.stdout == ""
