"""From inside a sandbox: what the command may not do, tried for real; and what it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.sandbox import inside, other_than, report_of

if TYPE_CHECKING:
    from tests.e2e.lab import Lab, Result

NOTHING = "0" * 16
DROPPED = ["", NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, "1", "2"]
REACHED = {
    "allowed.test": "hello from allowed.test\n",
    **{
        f"{address} {port}": "HTTP/1.1 403" if port == 80 else "ECONNRESET"
        for address in ("203.0.113.11", "2001:db8::11")
        for port in (22, 80, 443, 8443)
    },
    "203.0.113.11 udp": "EPERM",
    "2001:db8::11 udp": "EPERM",
    "RESOLVE evil.test": "AISB/1 403 dns",
    "CONNECT evil.test": "HTTP/1.1 403 Access denied by egress policy: not-listed evil.test:443",
}

_results: dict[str, tuple[Result, list[dict[str, Any]]]] = {}


@pytest.fixture
def report(lab: Lab) -> dict[str, Any]:
    """Everything that was tried, in one sandbox a host, and what evil.test has heard of it."""
    if lab.name not in _results:
        result = lab.run("aisb -q --allow allowed.test -- python3 -", stdin=inside("escape").encode())
        _results[lab.name] = (result, lab.sinks(sink="evil.test"))
    result, heard = _results[lab.name]
    found: dict[str, Any] = report_of(result)
    return {**found, "evil.test heard": heard}


def test_the_command_its_children_and_the_init_have_no_privilege(report: dict[str, Any]) -> None:
    """A47: no capability in any set, no group, no new privileges, system calls filtered; nor has the relay any."""
    uid = " ".join(["1000"] * 4)
    relay = " ".join(["999"] * 4)

    assert report["status"] == {
        "the command": [uid, uid, *DROPPED],
        "a child": [uid, uid, *DROPPED],
        "the init": [uid, uid, *DROPPED],
        "the relay": [relay, relay, *DROPPED],
    }


def test_set_id_copies_and_devices_are_not_to_be_had(report: dict[str, Any]) -> None:
    """A47: each way to set the bits is refused, a copy runs as the command's own user, the image has no such file."""
    # podman 4.3's profile does not know this call, podman 5's does, and ours refuses what it would set.
    privileges = dict(report["privileges"])
    assert privileges.pop("fchmodat2 u+s") in {"ENOSYS", "EPERM"}
    assert other_than("EPERM", privileges) == {
        "mode of the copy": "0755",
        "runs as": "1000\n",
        "su": "failed",
        "set-id files": "",
    }


def test_rules_routes_and_kernel_settings_stay(report: dict[str, Any]) -> None:
    """A46: `nft flush ruleset`, `ip route` and the like fail."""
    assert (len(report["rules"]), other_than("failed", report["rules"])) == (16, {})


def test_what_can_be_reached_is_the_same_after_all_attempts(report: dict[str, Any]) -> None:
    """A46: allowed.test answers without any proxy variable, evil.test is refused at once, and has heard nothing."""
    assert (report["before"], report["after"], report["evil.test heard"]) == (REACHED, REACHED, [])


def test_no_namespace_no_mount_no_keyring(report: dict[str, Any]) -> None:
    """A48: none of one's own, none of another's; calls whose arguments a filter cannot see do not exist."""
    assert (len(report["namespaces"]), other_than("EPERM", report["namespaces"])) == (
        36,
        {
            "clone3": "ENOSYS",
            "openat2": "ENOSYS",
            "io_uring_setup": "ENOSYS",
            "unshare -Urn nft flush ruleset": "failed",
            "nsenter -t 1 -n": "failed",
        },
    )


def test_only_the_sockets_that_the_rules_see_exist(report: dict[str, Any]) -> None:
    """AF_VSOCK, which no network namespace holds, AF_PACKET and the rest are no known families; nothing is raw."""
    assert report["sockets"] == {
        **dict.fromkeys(
            ("AF_AX25", "AF_KEY", "AF_PACKET", "AF_CAN", "AF_TIPC", "AF_BLUETOOTH", "AF_ALG", "AF_VSOCK", "AF_QIPCRTR",
             "AF_XDP"),
            "EAFNOSUPPORT",
        ),
        **dict.fromkeys(("raw IPv4", "raw IPv6", "raw any"), "EPERM"),
        "ping socket": "EACCES",
        **dict.fromkeys(("netlink selinux", "netlink xfrm", "netlink audit", "netlink rdma"), "EINVAL"),
    }  # fmt: skip


def test_the_relay_can_be_neither_signalled_nor_read_nor_replaced(report: dict[str, Any]) -> None:
    """It belongs to another user, and holds its ports."""
    assert report["relay is the same"]
    assert report["relay"] == {
        **dict.fromkeys(("SIGTERM", "SIGKILL", "SIGSTOP", "SIGHUP", "prlimit", "ptrace", "process_vm_readv"), "EPERM"),
        **dict.fromkeys(("fd", "mem", "environ", "root"), "EACCES"),
        **dict.fromkeys(("bind 3128", "bind 3129", "bind 3130"), "EADDRINUSE"),
    }


def test_the_gates_socket_and_what_aisb_mounted_cannot_be_replaced(report: dict[str, Any]) -> None:
    """The gate's directory, the rendered files and the identity files are read-only."""
    assert (len(report["gate"]), other_than("EROFS", report["gate"])) == (
        14,
        {"/usr/libexec/aisb": "EACCES", "/usr/bin": "EACCES"},
    )


def test_servers_of_ones_own_work_below_port_1024_too(report: dict[str, Any]) -> None:
    """B40: what listens on loopback, whatever the port, answers its own clients; nothing is sent to the gate."""
    assert (len(report["own servers"]), other_than("mine", report["own servers"])) == (7, {})


def test_nothing_of_the_host_is_in_sight(report: dict[str, Any]) -> None:
    """No process of the host, no network device, no socket but the run's own, no device file."""
    found = report["in sight"]
    sockets = found.pop("bound unix sockets")

    assert [path.rpartition("/")[2] for path in sockets] == ["gate.sock"]
    assert found == {
        "users": ["1000", "999"],
        "devices": ["lo"],
        "gate's directory": ["gate.sock"],
        "/dev": [
            "core",
            "fd",
            "full",
            "mqueue",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        ],
    }


def test_another_runs_socket_is_out_of_reach(lab: Lab) -> None:
    """A43: a second sandbox, with a list of its own, finds no way to the first one's socket, which has another list."""
    command = """
    mkfifo hold; cat >probe.py
    aisb -q --allow evil.test -- sh -c 'echo up >up; cat' <hold & exec 3>hold
    until [ -s up ]; do sleep 0.02; done
    sockets=$(find "$XDG_RUNTIME_DIR/aisb" -name gate.sock)
    aisb -q --allow allowed.test -- python3 probe.py $sockets; code=$?
    exec 3>&-; wait; exit $code
    """

    report = report_of(lab.run(command, stdin=inside("other_socket").encode()))

    assert report.pop("tried") >= 8
    assert report == {
        "reached": [],
        "evil.test": "AISB/1 403 dns",
        "allowed.test": "AISB/1 200 allowed",
    }
