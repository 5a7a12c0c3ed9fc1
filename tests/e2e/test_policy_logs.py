"""The record of a run: complete, harmless to look at, the caller's own, and shown by `aisb logs`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gate.proof import hello
from tests.e2e.legs import EVIL_V4, ask, curl, inside, needs_sinks, tcp, udp

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

ALLOW_FILE = "mkdir .ai-sandbox && printf '# ours\\nallowed.test\\nGET cdn.test/pub/**\\n' >.ai-sandbox/allow"
TRUSTED = f"{ALLOW_FILE}; trust=$(aisb trust --show | sed -n '1s/^not trusted \\([0-9a-f]*\\) .*/\\1/p'); aisb --trust-once $trust"
KEYS = {
    "time",
    "run",
    "host",
    "port",
    "method",
    "path",
    "decision",
    "reason",
    "rule",
    "bytes_out",
    "bytes_in",
    "seconds",
}
MORE = {"rule_index", "origin", "add", "named", "failed"}
START = {"192.0.2.1", "2001:db8:ffff::1"}


def kept(items: list[dict[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    """These fields of each decision that was not the start's own, sorted; what a resolver asks twice is one."""
    return sorted({tuple(item.get(key, "") for key in keys) for item in items if item["host"] not in START})


def test_every_decision_is_one_line_with_the_file_and_line_that_decided(lab: Lab) -> None:
    """Allowed, refused by the bridge, in squid, by the resolver, and by hand to an address; never a query. (B48)"""
    script = """
curl -sS -o /dev/null https://allowed.test/a?secret=1
curl -sS -o /dev/null http://allowed.test/b?secret=1
curl -sS -o /dev/null https://cdn.test/pub/c?secret=1
curl -sS -o /dev/null http://cdn.test/other?secret=1
curl -sS -o /dev/null --data x https://cdn.test/pub/d
curl -sS -o /dev/null https://evil.test/
curl -sS -o /dev/null --noproxy '*' https://evil.test/
curl -sS -o /dev/null --noproxy '*' http://203.0.113.11/
curl -sS -o /dev/null http://127.0.0.1:3128/
true
"""
    result = lab.run(f"{TRUSTED} -q -- sh - && aisb logs --json", stdin=script.encode())

    assert result.code == 0, result.errors
    items = [json.loads(line) for line in result.text.splitlines()]
    assert [item.keys() - MORE for item in items] == len(items) * [KEYS]
    assert {item["run"] for item in items} == {items[0]["run"]}
    assert not any(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", item["time"]) is None for item in items)
    assert "secret" not in result.text
    rules = ("cdn.test rule 1: ALLOW GET /pub/.*", ".ai-sandbox/allow:3")
    entry = ("allowed.test", ".ai-sandbox/allow:2")
    assert kept(items, "host", "port", "method", "path", "decision", "reason", "rule", "origin") == sorted([
        ("", 0, "", "", "deny", "bad-request", "", ""),
        ("203.0.113.11", 80, "CONNECT", "", "deny", "direct-address", "", ""),
        ("allowed.test", 443, "CONNECT", "", "allow", "", *entry),
        ("allowed.test", 80, "GET", "/b", "allow", "", *entry),
        ("cdn.test", 443, "GET", "/pub/c", "allow", "", *rules),
        ("cdn.test", 443, "POST", "/pub/d", "deny", "method", "", ""),
        ("cdn.test", 80, "GET", "/other", "deny", "path", "", ""),
        ("evil.test", 443, "CONNECT", "", "deny", "not-listed", "", ""),
        ("evil.test", 0, "RESOLVE", "", "deny", "dns", "", ""),
    ])  # fmt: skip
    through = [item for item in items if item["decision"] == "allow"]
    assert all(item["bytes_in"] > 0 and item["bytes_out"] > 0 and item["seconds"] >= 0 for item in through)


SHOWN = """
aisb -q --allow allowed.test -- sh -c 'curl -sS -o /dev/null https://allowed.test; curl -sS -o /dev/null https://evil.test
  curl -sS -o /dev/null https://evil.test; true'
echo == table; aisb logs
echo == denied; aisb logs --denied --since 1h
echo == summary; aisb logs --summary
echo == later; aisb logs --since 2126-01-01
echo == unknown; aisb logs zzz; echo $?
echo == by id; run=$(aisb logs --json | sed -n '1s/.*"run": "\\([0-9a-f]*\\)".*/\\1/p')
(cd / && aisb logs "$(echo $run | cut -c 1-7)" | wc -l)
echo == elsewhere; (cd / && aisb logs)
echo == mode; stat -c '%U %a %n' ~/.local/state/ai-sandbox/runs/$run ~/.local/state/ai-sandbox/runs/$run/audit.jsonl
"""


def test_a_record_is_shown_as_a_table_as_a_summary_and_in_part(lab: Lab) -> None:
    result = lab.run(f"exec 2>&1; {SHOWN}")

    parts = dict(re.findall(r"^== ([a-z ]+)\n(.*?)(?=^== |\Z)", result.text, re.DOTALL | re.MULTILINE))
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    allowed = (
        rf"{time}  allow  - {{17}} allowed\.test:443  CONNECT  .* out, .* in, .* s  by allowed\.test \(--allow\)\n"
    )
    denied = rf"{time}  deny   not-listed {{9}}evil\.test:443 {{5}}CONNECT\n"
    heading = r"aisb: run [0-9a-f]{8} \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\), the last one of \S+:\n"
    assert re.fullmatch(heading + allowed + 2 * denied, parts["table"]), parts
    assert re.fullmatch(heading + 2 * denied.replace(" {5}", "  "), parts["denied"]), parts
    assert parts["summary"].partition(":\n")[2] == (
        "2  deny   not-listed         evil.test:443     --allow evil.test\n"
        "1  allow  -                  allowed.test:443\n"
    )
    assert re.fullmatch(r"aisb: run [0-9a-f]{8}: nothing like that is on record\n", parts["later"])
    assert parts["unknown"].splitlines()[0] == "aisb: no run with a record is named 'zzz'"
    assert parts["unknown"].splitlines()[-1] == "2"
    assert parts["by id"] == "3\n"
    assert parts["elsewhere"] == "aisb: no run of / has a record yet\n"
    assert [line.split()[:2] for line in parts["mode"].splitlines()] == [["aisb-lab", "700"], ["aisb-lab", "600"]]


WHILE_IT_RUNS = """
mkfifo go; aisb -q --allow allowed.test -- sh -c 'curl -sS -o /dev/null https://evil.test; cat go >/dev/null
  curl -sS -o /dev/null https://cdn.test; true' 2>/dev/null &
until aisb logs 2>/dev/null | grep -q evil.test; do sleep 0.1; done
aisb logs -f --json --denied . >followed & follower=$!
until grep -qs evil.test followed; do sleep 0.1; done
aisb logs -f >/dev/full 2>full; echo "full disk: $?"
aisb logs -f . | head -1 | cut -d' ' -f4
echo >go; wait $follower; echo "the follower: $?"
sed 's/.*"host": "\\([^"]*\\)".*/\\1/' followed | grep test
"""


def test_a_run_is_followed_while_it_lasts_and_no_longer(lab: Lab) -> None:
    """What is refused shows at once, a reader that leaves or a full disk ends it, and so does the end of the run."""
    result = lab.run(WHILE_IT_RUNS)

    assert result.text.splitlines() == [
        "full disk: 1", "deny", "the follower: 0", "evil.test", "cdn.test",
    ]  # fmt: skip
    assert result.errors == ""


ESCAPES = r"""
import socket
STRANGE = "\x1b[2J\x1b]0;owned\x07\u202e\x9b"
for line in (f"GET http://evil.test/{STRANGE} HTTP/1.1", f"GET http://{STRANGE}.evil.test/ HTTP/1.1",
             f"CONNECT {STRANGE}:443 HTTP/1.1", f"{STRANGE} http://evil.test/ HTTP/1.1"):
    proxy = socket.create_connection(("127.0.0.1", 3128))
    proxy.sendall(f"{line}\r\nHost: evil.test\r\n\r\n".encode())
    proxy.recv(65536)
proxy = socket.create_connection(("127.0.0.1", 3128))
proxy.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
proxy.recv(65536)
proxy.sendall(HELLO)
proxy.recv(65536)
question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x08\x1b[2J\x07\n\x9b!\x04evil\x04test\0\0\x01\0\x01"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
    resolver.settimeout(5)
    resolver.sendto(question, ("198.18.0.1", 53))
    resolver.recv(512)
"""


def test_what_was_asked_for_does_nothing_to_a_terminal(lab: Lab) -> None:
    """Escape sequences in a host, a path, a method and a question for a name. (C64)"""
    program = f"HELLO = {hello(chr(27) + '[2J.allowed.test', bytes(16))!r}{ESCAPES}"
    shown = "for how in '' --json --summary; do aisb logs $how; done"
    result = lab.run(f"aisb --allow allowed.test -- python3 - 2>words; cat words >&2; {shown}", stdin=program.encode())

    assert result.code == 0, result.errors
    lines = (result.text + result.errors).splitlines()
    assert [line for line in lines if not (line.isascii() and line.isprintable())] == []
    assert [line.split()[2:5] for line in lines[:5]] == [
        *4 * [["deny", "bad-request", "-"]],
        ["deny", "bad-request", "allowed.test:443"],
    ]


def test_a_record_that_cannot_be_kept_costs_nothing_else(lab: Lab) -> None:
    """The command's own exit code and what was refused are said all the same. (C64)"""
    runs = "~/.local/state/ai-sandbox/runs"
    spoilt = f"aisb -q --net none -- true && rm -r {runs} && : >{runs}"
    result = lab.run(f"{spoilt}; aisb --allow allowed.test -- sh -c 'curl -sS https://evil.test; exit 7'; echo $?")

    assert (result.code, result.text) == (0, "7\n"), result.errors
    *_, before, last = result.errors.splitlines()
    assert before.startswith("aisb: denied evil.test:443")
    assert re.fullmatch(r"aisb: warning: the record of run [0-9a-f]{8} is lost: .*", last)


def test_two_runs_of_one_gate_have_a_record_each(lab: Lab) -> None:
    """And each what it did, with the same rule written in another place. (C64)"""
    begin = "aisb -q --project {0} {1} -- curl -sS -o /dev/null http://allowed.test/{0}"
    other = "mkdir a b; printf 'allow: [allowed.test]\\n' >own.yaml"
    result = lab.run(
        f"{other}; {begin.format('a', '--allow allowed.test')} & {begin.format('b', '--policy own.yaml')}; wait; "
        "for p in a b; do aisb logs --json --project $p; done"
    )

    items = [json.loads(line) for line in result.text.splitlines()]
    assert kept(items, "host", "path", "origin") == [
        ("allowed.test", "/a", "--allow"),
        ("allowed.test", "/b", "own.yaml:1"),
    ]
    assert len({item["run"] for item in items}) == 2


def test_probes_that_reach_nothing_are_on_record_by_what_they_tried(lab: Lab) -> None:
    """Each way that a program may try, as one reason; a datagram is refused by the ruleset and leaves no line. (A45)"""
    legs = {
        "name": tcp("evil.test", 443, via="proxy"),
        "address": tcp(EVIL_V4, 443),
        "question": ask("9.9.9.9", "evil.test"),
        "datagram": udp(EVIL_V4, 9),
        "port": curl("http://allowed.test:8443/"),
    }
    result = inside(lab, "--allow allowed.test", legs)

    assert result.denials() == {
        ("evil.test", 443, "not-listed"),
        (EVIL_V4, 443, "direct-address"),
        ("evil.test", 0, "dns"),
        ("allowed.test", 8443, "port"),
    }


MANY = r"""
import socket, threading
def ask(path):
    proxy = socket.create_connection(("127.0.0.1", 3128))
    proxy.sendall(b"GET http://allowed.test/%s HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n" % path)
    while proxy.recv(65536):
        pass
def refused(path):
    proxy = socket.create_connection(("127.0.0.1", 3128))
    proxy.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    while proxy.recv(65536):
        pass
threads = [threading.Thread(target=kind, args=(b"%d" % number,)) for number in range(150) for kind in (ask, refused)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_of_many_connections_at_once_each_is_on_record(lab: Lab) -> None:
    """None is lost, and none is there twice. (B46)"""
    result = lab.run("aisb -q --allow allowed.test -- python3 - && aisb logs --json", stdin=MANY.encode())

    assert result.code == 0, result.errors
    items = [json.loads(line) for line in result.text.splitlines()]
    assert sorted(int(item["path"][1:]) for item in items if item["host"] == "allowed.test") == list(range(150))
    assert [item["reason"] for item in items if item["host"] == "evil.test"] == 150 * ["not-listed"]


GATE_DIES = """
mkfifo go; aisb --allow allowed.test -- sh -c 'curl -sS -o /dev/null https://evil.test; cat go >/dev/null
  curl -sS -m 5 -o /dev/null https://cdn.test; exit 9' 2>words &
until aisb logs 2>/dev/null | grep -q evil.test; do sleep 0.1; done
run=$(aisb logs --json | sed -n '1s/.*"run": "\\([0-9a-f]*\\)".*/\\1/p')
gate=$(ls -d "$XDG_RUNTIME_DIR"/aisb/g/*/r/$run | sed 's,.*/g/\\([0-9a-f]*\\)/r/.*,\\1,')
podman kill aisb-gate-$gate >/dev/null; echo >go; wait $!; echo $?
grep -c '^aisb: denied evil.test:443' words; aisb logs $run
"""


def test_what_was_decided_before_its_gate_died_is_kept(lab: Lab) -> None:
    """And said at the end of the run, whose exit code is the command's. (C44)"""
    result = lab.run(GATE_DIES)

    code, said, *lines = result.text.splitlines()
    assert (code, said, result.errors) == ("9", "1", "")
    assert [line.split()[2:5] for line in lines] == [["deny", "not-listed", "evil.test:443"]]
