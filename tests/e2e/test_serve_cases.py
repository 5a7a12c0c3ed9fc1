"""`aisb serve`: several at once, a gate that dies, servers of the sandbox's own, odd streams, and a host that goes on working."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.e2e.test_serve import session

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

GET = r"""
def get(s, url):
    return s.sh(f"curl -sS -o /dev/null -m 30 -w '%{{http_code}}' {url} 2>/dev/null || echo ' failed'").stdout
def both(s):
    return [get(s, f"http://{name}/") for name in (os.environ["ONE"], os.environ["TWO"])]
"""
SIDE_BY_SIDE = r"""
from concurrent.futures import ThreadPoolExecutor
one, two = os.environ["ONE"], os.environ["TWO"]
def begin(name):
    return Session("--allow", name, "-q")
with ThreadPoolExecutor() as pool:
    a, b = pool.map(begin, (one, one))
here = os.getcwd(); os.mkdir(os.environ["HOME"] + "/other"); os.chdir(os.environ["HOME"] + "/other")
c = begin(two); os.chdir(here)
# What listens inside is inside, on every port; of a request to it no gate hears.
SERVE = '''
import http.server, socket, threading
class V6(http.server.ThreadingHTTPServer): address_family = socket.AF_INET6
for kind, address, port in ((V6, "::1", 3001), (V6, "::1", 443), *((http.server.ThreadingHTTPServer, a, p) for a, p in
        (("127.0.0.1", 3000), ("0.0.0.0", 80), ("127.0.0.1", 443)))):
    threading.Thread(target=kind((address, port), http.server.SimpleHTTPRequestHandler).serve_forever).start()
print("up", flush=True)
'''
server = c.begin("exec", command=["python3", "-c", SERVE]); server.wait_for(b"up")
local = [get(c, f"http://{where}/") for where in ("127.0.0.1:3000", "localhost:3000", "[::1]:3001", "0.0.0.0", "127.0.0.1:443", "[::1]:443")]
told = c.call("status").result
counts = [told["allowed"], told["denied"]]
found = dict(
    runs=len({s.hello["run"] for s in (a, b, c)}), gates=len({s.hello["policy"]["gate"] for s in (a, b, c)}),
    projects=[s.hello["project"] == here for s in (a, b, c)], local=local, counts=counts,
    before=[both(s) for s in (a, b, c)], first=a.end(), after=[both(s) for s in (b, c)],
)
# The gate dies; who has another one does not notice, and who begins anew has one again.
gate = f"aisb-gate-{b.hello['policy']['gate']}"
subprocess.run(["podman", "kill", "--signal", "KILL", gate], capture_output=True, check=True)
subprocess.run(["podman", "wait", "--ignore", gate], capture_output=True)
b.note("gate", lambda p: p["state"] == "ended" and "nothing outside is reached" in p["message"])
refused = b.call("allow", entry="exact:" + two)
found |= dict(
    closed=both(b), calls=b.sh("echo goes on").stdout, refused=refused.code, other=both(c), state=b.call("status").result["state"],
    anew=(lambda s: [both(s), s.end()])(begin(one)), still=both(b), ends=[b.end(), c.end()],
    told=["the gate of this run has ended" in s.errors for s in (b, c)], others=[n for n, _ in c.notes if n == "gate"], left=left(),
)
report(**found)
"""


def test_sessions_side_by_side_and_the_death_of_a_gate(lab: Lab) -> None:
    """
    C47, B40, C44: each has its own list, whoever ends first; what listens inside is inside; without its gate a session is
    closed, which is told, and its calls go on.
    """
    one, two = (f"s{os.urandom(4).hex()}.allowed.test" for _ in range(2))
    found = session(lab, GET + SIDE_BY_SIDE, ONE=one, TWO=two)

    closed = found.pop("closed"), found.pop("still")
    assert {text.strip() for texts in closed for text in texts} <= {"000 failed", "502", "503"}, closed
    assert found == {
        "runs": 3, "gates": 2, "projects": [True, True, False], "local": ["200"] * 6, "counts": [0, 0],
        "before": [["200", "403"], ["200", "403"], ["403", "200"]], "first": 0, "after": [["200", "403"], ["403", "200"]],
        "calls": "goes on\n", "refused": -32020, "other": ["403", "200"], "state": "ready", "anew": [["200", "403"], 0],
        "ends": [0, 0], "told": [True, False], "others": [], "left": [],
    }  # fmt: skip
    assert sorted({request["host"] for request in lab.sinks("request")}) == sorted([one, two])


HOST_GOES_ON = r"""
def git(*words):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y.test", *words], check=True, capture_output=True)
git("init"); open("f", "w").write("x"); git("add", "."); git("commit", "-m", "x")
s = Session("--net", "none")
def taken_back(number):
    # The mount goes with the file that was under it; for the moment until it is there again the file is the project's.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while s.sh(f"echo '# {number}' >>.git/config").result["exitCode"] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    return [s.call("writeFile", b"x", path=".git/config").error["data"]["errno"], s.sh("mv .git/config m").result["exitCode"] != 0]
def name():
    return s.sh("git config x.y").stdout
found = dict(before=taken_back(0))
git("config", "x.y", "first"); found |= dict(first=taken_back(1), name=name())
git("config", "x.y", "again"); found |= dict(again=taken_back(2), other=name())
# The new sandbox of a session covers what is there by now.
subprocess.run(["podman", "kill", s.hello["container"]], capture_output=True, check=True)
s.note("sandbox", lambda p: p["state"] == "ready")
found |= dict(restarted=taken_back(3), end=s.end(), left=left(), told="has changed" in s.errors)
report(**found, config=subprocess.run(["git", "config", "x.y"], capture_output=True, text=True).stdout)
"""


def test_what_the_host_replaces_while_a_session_runs_stays_protected(lab: Lab) -> None:
    """`git config` of the host renames a new file over the protected one: it is read-only again, with what is new in it."""
    kept = ["EROFS", True]
    assert session(lab, HOST_GOES_ON) == {
        "before": kept, "first": kept, "name": "first\n", "again": kept, "other": "again\n", "restarted": kept, "end": 0,
        "left": [], "told": True, "config": "again\n",
    }  # fmt: skip


STREAMS = r"""
import hashlib
def ended(text, stdin=None):
    done = subprocess.run(["sh", "-c", text], stdin=stdin, capture_output=True, timeout=PATIENCE_SECONDS)
    return done.returncode, done.stdout, done.stderr.decode()
s = Session("--net", "none")
# Byte for byte, whatever they are: through stdin to stdout, and no more under way than was taken.
given = os.urandom(1 << 20) + b"\r\n\0\x03\x04\x1a\x1c" * 1000
echo = s.begin("exec", command=["cat"], stdin=True); sent = 0
while sent < 20 * len(given):
    with echo.heard:
        assert echo.heard.wait_for(lambda: echo.taken == sent, PATIENCE_SECONDS)
    piece = (given * 2)[sent % len(given):][: 1 << 20]
    s.tell("data", piece, id=echo.number); sent += len(piece)
    s.tell("data", b"", id=echo.number)
s.tell("data", b"", id=echo.number, last=True)
whole = hashlib.sha256(given * 20); s.wait(echo)
whole.update((given * 2)[: sent - 20 * len(given)])
same = hashlib.sha256(echo.streams["stdout"]).digest() == whole.digest()
nothing = s.sh("cat; test -t 0 || test -t 1 || echo no tty"); odd = s.sh("printf 'a\\r\\n\\0'; printf 'b\\n' >&2")
end = s.end()
found = dict(same=same, nothing=nothing.stdout, odd=[odd.streams["stdout"].hex(), odd.streams["stderr"].hex()], end=end,
    words=all(line.startswith(("aisb: ", "  ")) for line in s.errors.splitlines()) and s.errors != "")
# Who has no stdin has said all, and is told; who has no stdout is told nothing, and serve does not begin.
serve = "setsid aisb serve --net none -q"
told = [ended(f"{serve} {how}") for how in ("<&-", "</dev/null")]
found["nobody"] = [[code, b'"hello"' in said, errors] for code, said, errors in told]
open_pipe = os.pipe()[0]
deaf = [ended(f"{serve} {how}", stdin=open_pipe) for how in (">&-", ">/dev/full")]
found["deaf"] = [[code, "nobody to tell" in errors] for code, _, errors in deaf]
report(**found, left=remains(left))
"""


def test_odd_streams(lab: Lab) -> None:
    """C60: bytes pass as they are, aisb's words are on stderr alone, and who is not there is not waited for."""
    assert session(lab, STREAMS) == {
        "same": True, "nothing": "no tty\n", "odd": ["610d0a00", "620a"], "end": 0, "words": True,
        "nobody": [[0, True, ""]] * 2, "deaf": [[2, True]] * 2, "left": [],
    }  # fmt: skip
