"""podman's argv for a gate, whole: a protection that goes missing turns this red."""

from __future__ import annotations

from aisb.render.gate import GateView, gate_argv

KEY = "7f3c1a902b44" + "0" * 52
DIRECTORY = "/run/user/1000/aisb/g/7f3c1a902b44"
IMAGE = "localhost/aisb-gate:0123456789abcdef"


def argv_on(network: str) -> tuple[str, ...]:
    return gate_argv(GateView("/usr/bin/podman", IMAGE, KEY, network, DIRECTORY))


def test_a_gate_has_every_protection_on_its_command_line() -> None:
    assert argv_on("pasta") == (
        "/usr/bin/podman", "run", "--detach", "--rm",
        "--name", "aisb-gate-7f3c1a902b44",
        "--hostname", "gate.aisb.internal",
        "--pull=never",
        "--network", "pasta:--no-map-gw,-t,none,-u,none,-T,none,-U,none",
        "--no-hosts",
        "--http-proxy=false",
        "--log-driver", "none",
        "--systemd=false",
        "--unsetenv-all",
        "--image-volume=ignore",
        "--pid", "private", "--ipc", "private", "--uts", "private", "--cgroupns", "private",
        "--user", "0",
        "--cap-drop", "all",
        "--cap-add=NET_ADMIN", "--cap-add=SETGID", "--cap-add=SETPCAP", "--cap-add=SETUID",
        "--security-opt", "no-new-privileges",
        "--security-opt", f"seccomp={DIRECTORY}/conf/seccomp.json",
        "--security-opt", "label=disable",
        "--sysctl", "net.ipv4.ip_local_port_range=32768 60999",
        "--sysctl", "net.ipv4.ip_unprivileged_port_start=0",
        "--sysctl", "net.ipv4.tcp_congestion_control=reno",
        "--read-only",
        "--read-only-tmpfs=false",
        "--preserve-fds", "1",
        "--label=aisb.role=gate",
        f"--label=aisb.key={KEY}",
        f"--mount=type=bind,src={DIRECTORY},dst=/run/aisb",
           "--tmpfs", "/dev/shm:rw,nosuid,nodev,noexec,size=64m,mode=1777",
        "--tmpfs", "/run/squid:rw,nosuid,nodev,noexec,size=1m,mode=1777",
        IMAGE,
    )  # fmt: skip


def test_a_gate_with_a_password_belongs_to_a_run_and_is_told_on_a_descriptor() -> None:
    """Its name ends in the run's id; the command line differs in nothing else but how many descriptors it hands on."""
    shared = argv_on("pasta")
    own = gate_argv(GateView("/usr/bin/podman", IMAGE, KEY, "pasta", DIRECTORY, "1a2b3c4d"))

    assert [pair for pair in zip(shared, own, strict=True) if pair[0] != pair[1]] == [
        ("aisb-gate-7f3c1a902b44", "aisb-gate-7f3c1a902b44-1a2b3c4d"),
        ("1", "2"),
    ]


def test_slirp4netns_is_told_to_keep_the_hosts_loopback_closed() -> None:
    argv = argv_on("slirp4netns")

    assert argv[argv.index("--network") + 1] == "slirp4netns:allow_host_loopback=false,enable_ipv6=true"


def test_any_other_network_is_the_name_of_one() -> None:
    argv = argv_on("aisb-demo")

    assert argv[argv.index("--network") + 1] == "aisb-demo"
