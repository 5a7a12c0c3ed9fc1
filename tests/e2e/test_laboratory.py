"""The laboratory itself: what a test sends arrives, what it does is recorded, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import LABORATORY

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the laboratory needs root")

IMAGE = "localhost/aisb-lab-busybox"
MAKE_IMAGE = f"""
podman image exists {IMAGE} || {{
    mkdir -p image/bin && cp /bin/busybox image/bin/ && tar -C image -c . | podman import -q - {IMAGE}
}}
"""


def events(lab: Lab, *names: str, sink: str | None = None) -> list[tuple[str, str, int]]:
    """Event, sink and port of what has arrived."""
    return [(item["event"], item["sink"], item["port"]) for item in lab.sinks(*names, sink=sink)]


def mark_of(lab: Lab, name: str) -> str:
    """A word that only this test's processes have in their arguments: the hosts share one process table."""
    return f"{lab.name}-{name}-{os.getpid()}"


def hidden(mark: str) -> str:
    """A pattern for `mark` that does not match itself."""
    return f"{mark[:-1]}[{mark[-1]}]"


def test_every_byte_of_a_command_arrives(lab: Lab) -> None:
    """Dollars, quotes, backquotes and newlines are the shell's to read, not the laboratory's."""
    command = """x=a; printf '%s|' "$x" '$x' "$(echo b)" '$(echo b)' `echo c` "it's" 'a "quote"' '
two
lines' \\\\ '*' '\t'"""

    result = lab.run(command)

    assert result[:3] == (0, b'a|$x|b|$(echo b)|c|it\'s|a "quote"|\ntwo\nlines|\\|*|\t|', b"")


def test_stdin_stdout_and_stderr_pass_untouched(lab: Lab) -> None:
    """All 256 bytes, in both directions, and each stream on its own."""
    every = bytes(range(256)) * 300

    result = lab.run("tee /dev/stderr", stdin=every)

    assert result[:3] == (0, every, every)


@pytest.mark.parametrize("code", [0, 1, 3, 69, 77, 124, 125, 126, 127, 255])
def test_the_exit_status_passes(lab: Lab, code: int) -> None:
    """Also those that have a meaning elsewhere."""
    assert lab.run(f"exit {code}")[:3] == (code, b"", b"")


def test_a_command_that_a_signal_ended_says_so_as_a_shell_does(lab: Lab) -> None:
    """128 and the signal's number."""
    assert lab.run("kill -KILL $$").code == 137


def test_a_call_starts_afresh(lab: Lab) -> None:
    """Home and project are new and empty, the environment is closed, the account has no privilege."""
    lab.run("touch here ~/there")

    result = lab.run(
        'ls -A; ls -A ~ | xargs; id -un; [ "$PWD" = ~/project ]; echo $?; '
        "sed -n 's/^CapEff:\\t//p' /proc/self/status; env | grep -v '^LAB_\\|^AISB_' | cut -d= -f1 | sort | xargs",
        env={"TERM": "dumb", "COLORTERM": "", "UNKNOWN": "x"},
    )

    assert result.text.splitlines() == [
        ".config project",
        "aisb-lab",
        "0",
        "0000000000000000",
        "COLORTERM HOME LANG LOGNAME PATH PWD SHELL TERM UNKNOWN USER XDG_CACHE_HOME XDG_RUNTIME_DIR",
    ]


def test_a_variable_arrives_byte_for_byte(lab: Lab) -> None:
    """Quotes, newlines and bytes that are no UTF-8."""
    value = "a'b\"c\n$d " + os.fsdecode(b"\xff\xfe")

    assert lab.run('printf %s "$VALUE"', env={"VALUE": value}).stdout == os.fsencode(value)


def test_the_time_out_ends_everything(lab: Lab) -> None:
    """Also what made a session of its own and ignores every signal."""
    mark = mark_of(lab, "time-out")
    idle = f"sh -c ': {mark}; sleep 60; :'"

    result = lab.run(f"trap '' TERM HUP; setsid {idle} & {idle}", timeout=1)

    assert (result.code, result.errors) == (124, "lab: ended everything after 1 s (LAB_TIMEOUT)\n")
    assert result.seconds < 20
    assert lab.run(f"pgrep -f '{hidden(mark)}'").text == ""


def test_what_a_command_leaves_in_its_session_ends_with_it(lab: Lab) -> None:
    """A job in the background does not reach the next call; a daemon, with a session of its own, does."""
    job, daemon = mark_of(lab, "job"), mark_of(lab, "daemon")
    started = f"setsid -f sh -c ': {daemon}; : >started; sleep 60; :' >/dev/null 2>&1; until [ -e started ]; do :; done"
    lab.run(f"sh -c ': {job}; sleep 60; :' & {started}")

    result = lab.run(f"pgrep -f '{hidden(job)}'; pkill -f '{hidden(daemon)}' && echo daemon")

    assert result.text == "daemon\n"


def test_a_signal_reaches_the_command(lab: Lab) -> None:
    """TERM, sent to the laboratory's program, is the command's to handle."""
    with lab.start("trap 'echo caught; exit 5' TERM; echo ready; sleep 60 & wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)

        assert (process.stdout.read(), process.wait(10)) == (b"caught\n", 5)


def test_a_terminal_passes_with_its_size_and_its_keys(lab: Lab) -> None:
    """Ctrl-C arrives once."""
    script = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print(os.get_terminal_size(), "ready")
print(signal.sigwait([signal.SIGINT]), signal.sigtimedwait([signal.SIGINT], 0.3))
"""
    with lab.terminal(f"exec python3 -c '{script}'", size=(31, 97)) as child:
        child.expect_exact("os.terminal_size(columns=97, lines=31) ready\r\n")
        child.sendintr()
        child.expect_exact("2 None\r\n")
        child.wait()

        assert child.exitstatus == 0


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_what_arrives_is_recorded(lab: Lab, family: str) -> None:
    """Question, connection, greeting and request, each with what it asked for."""
    result = lab.run(f"curl -sS {family} --cacert $LAB_CA -H 'X-Mark: 7' https://sub.allowed.test/a?b")

    assert result[:3] == (0, b"hello from allowed.test\n", b"")
    request = lab.sinks("request")[0]
    shown = {key: request[key] for key in ("sink", "sni", "host", "method", "path", "bytes")}
    assert shown == {
        "sink": "allowed.test",
        "sni": "sub.allowed.test",
        "host": "sub.allowed.test",
        "method": "GET",
        "path": "/a?b",
        "bytes": 0,
    }
    assert request["headers"]["x-mark"] == "7"
    assert events(lab, "connect", "hello", "request") == [
        ("connect", "allowed.test", 443),
        ("hello", "allowed.test", 443),
        ("request", "allowed.test", 443),
    ]
    assert {item["name"] for item in lab.sinks("question")} == {"sub.allowed.test"}


def test_a_call_sees_its_own_events_only(lab: Lab) -> None:
    """What the call before did is not in it."""
    lab.run("curl -sS http://evil.test/")
    assert events(lab, "request") == [("request", "evil.test", 80)]

    lab.run("true")
    assert lab.sinks() == []


def test_nothing_that_leaves_the_host_goes_unseen(lab: Lab) -> None:
    """Any address, by TCP and UDP, and servers on the host itself."""
    script = """
import socket
for address in ("8.8.8.8", "169.254.169.254", "2001:4860:4860::8888"):
    socket.create_connection((address, 443)).close()
for address, port in (("127.0.0.1", 6379), ("::1", 8000), ("203.0.113.2", 8000)):
    socket.create_connection((address, port)).close()
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.11", 53))
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"y", ("2001:db8::11", 443))
"""

    assert lab.run("python3 -", stdin=script.encode()).code == 0

    arrived = sorted(
        (item["event"], item["sink"], item["address"], item["port"]) for item in lab.sinks("connect", "datagram")
    )
    assert arrived == [
        ("connect", "elsewhere", "169.254.169.254", 443),
        ("connect", "elsewhere", "2001:4860:4860::8888", 443),
        ("connect", "elsewhere", "8.8.8.8", 443),
        ("connect", "host", "127.0.0.1", 6379),
        ("connect", "host", "203.0.113.2", 8000),
        ("connect", "host", "::1", 8000),
        ("datagram", "evil.test", "2001:db8::11", 443),
        ("datagram", "evil.test", "203.0.113.11", 53),
    ]


def test_the_name_server_answers_as_the_test_wants(lab: Lab) -> None:
    """Successive answers, a name that is not there, a server that fails, and the lie of a reverse name."""
    lab.names("moving.test A 203.0.113.10 | 127.0.0.1\nbroken.test A servfail\n")

    result = lab.run(
        "getent ahostsv4 moving.test | cut -d' ' -f1 | sort -u; getent ahostsv4 moving.test | cut -d' ' -f1 | sort -u; "
        "getent ahosts broken.test || echo $?; getent ahosts missing.test || echo $?; getent hosts 203.0.113.11"
    )

    assert result.text.split() == ["203.0.113.10", "127.0.0.1", "2", "2", "203.0.113.11", "x.allowed.test"]


def test_the_machine_network_is_another_one(lab: Lab) -> None:
    """What builds images reaches the machine's network and not the fake internet."""
    argv = (
        f"{LABORATORY}/host",
        lab.name,
        "--",
        "sh",
        "-c",
        "ip -o -4 addr show tap0; getent hosts allowed.test; echo $?",
    )

    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)

    assert "10.0.2.100/24" in done.stdout
    assert done.stdout.endswith("\n2\n")


def test_git_clones_over_https(lab: Lab) -> None:
    """The repository at allowed.test, with the laboratory's authority."""
    result = lab.run("git -c http.sslCAInfo=$LAB_CA clone -q https://allowed.test/repo.git && cat repo/README")

    assert result[:3] == (0, b"hello from a repository\n", b"")


def test_the_model_calls_a_tool_and_then_answers(lab: Lab) -> None:
    """The command comes from the prompt; the authorization that was sent is on record."""
    ask = "curl -sS --cacert $LAB_CA -H 'Authorization: Bearer secret' -d @- https://llm.test/v1/chat/completions"
    user = '{"role": "user", "content": "please run `id -u`"}'

    first = lab.run(ask, stdin=b'{"tools": [{}], "messages": [%s]}' % user.encode())
    second = lab.run(
        ask, stdin=b'{"tools": [{}], "messages": [%s, {"role": "tool", "content": "1000"}]}' % user.encode()
    )

    assert '"arguments": "{\\"command\\": \\"id -u\\"}"' in first.text
    assert '"content": "The tool said: 1000"' in second.text
    assert [item["headers"]["authorization"] for item in lab.sinks("request")] == ["Bearer secret"]


def test_podman_is_rootless_with_overlay_storage(lab: Lab) -> None:
    """The very things that make a run slow or different when they are wrong."""
    form = "{{.Host.Security.Rootless}} {{.Store.GraphDriverName}} {{.Host.OCIRuntime.Name}} {{.Host.CgroupsVersion}}"

    assert lab.run(f"podman info --format '{form}'").text == "true overlay crun v2\n"


def test_a_container_reaches_the_sinks_and_no_canary(lab: Lab) -> None:
    """By pasta on Debian 13, by slirp4netns on Debian 12."""
    container = f"podman run --rm --pull=never {IMAGE} /bin/busybox"
    made = lab.run(MAKE_IMAGE)
    assert made.code == 0, made.errors

    result = lab.run(f"{container} wget -q -O - http://evil.test/")

    assert result[:2] == (0, b"hello from evil.test\n")
    assert events(lab, "connect", "request") == [("connect", "evil.test", 80), ("request", "evil.test", 80)]
    assert lab.sinks(sink="host") == []


def test_files_of_a_container_belong_to_the_account(lab: Lab) -> None:
    """With keep-id, uid 1000 inside is the account outside."""
    lab.run(MAKE_IMAGE)

    result = lab.run(
        f"podman run --rm --pull=never --network none --userns keep-id:uid=1000,gid=1000 -v .:/p {IMAGE} "
        "/bin/busybox touch /p/file && stat -c '%U %G' file"
    )

    assert result[:2] == (0, b"aisb-lab aisb-lab\n")


def test_a_time_out_ends_containers_too(lab: Lab) -> None:
    """A detached container of the call is gone with it."""
    lab.run(MAKE_IMAGE)
    mark = mark_of(lab, "container")
    container = f"podman run -d --rm --pull=never --network none --name {mark} {IMAGE} /bin/busybox sleep 60"

    result = lab.run(f"{container} && sleep 60", timeout=4)

    assert (result.code, len(result.text)) == (124, 65)
    assert lab.run(f"pgrep -f '{hidden(mark)}'; podman ps -aq --filter name={mark[:-1]}").text == ""


def test_the_registry_serves_what_was_pushed(lab: Lab) -> None:
    """By podman and by skopeo, without a certificate."""
    lab.registry()
    lab.run(MAKE_IMAGE)

    result = lab.run(
        f"podman push -q {IMAGE} 127.0.0.1:5000/base:1 && skopeo list-tags docker://127.0.0.1:5000/base | tr -d ' \\n'"
    )

    assert result[:2] == (0, b'{"Repository":"127.0.0.1:5000/base","Tags":["1"]}')


def test_two_calls_at_once_do_not_meet(lab: Lab) -> None:
    """Each has its own home, output and end."""
    results = {}

    def call(name: str) -> None:
        results[name] = lab.run(f"echo {name} > ~/mine; sleep 0.5; cat ~/mine; exit {len(name)}")[:2]

    threads = [threading.Thread(target=call, args=(name,)) for name in ("a", "bb", "ccc")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {"a": (1, b"a\n"), "bb": (2, b"bb\n"), "ccc": (3, b"ccc\n")}
