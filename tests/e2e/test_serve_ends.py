"""`aisb serve`: however a session ends, and whatever dies, nothing is left, and nothing is done elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_serve import session

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

DEATHS = r"""
s = Session("--net", "none", "-q")
first = s.hello["run"]
def kill():
    subprocess.run(["podman", "kill", "aisb-run-" + s.call("status").result["run"]], capture_output=True, check=True)
open_then = s.begin("exec", command=["sh", "-c", "echo x >.envrc; echo up; exec sleep 1000"]); open_then.wait_for(b"up")
kill()
lost = s.wait(open_then).code
again = s.note("sandbox", lambda p: p["state"] == "ready")["hello"]
after = s.sh("echo after; touch seen-after").stdout
kill()
dead = s.note("sandbox", lambda p: p["state"] == "dead")
refused = [s.sh("touch on-host").code, s.call("writeFile", b"x", path="on-host").code, s.call("readFile", path="/etc/passwd").code]
states = [p["state"] for name, p in s.notes if name == "sandbox"]
status = s.call("status").result["state"]; end = s.end()
report(lost=lost, other=again["run"] != first, after=after, states=states, refused=refused, status=status, end=end, left=left(),
       there=sorted(os.listdir(".")), told=s.errors.count(".envrc has appeared, and this machine may run what it says"))
"""


def test_a_sandbox_that_dies_is_started_once_more_and_then_calls_fail(lab: Lab) -> None:
    """Each call that was open is told so; nothing is carried out on the host instead, and what the first has left is said."""
    found = session(lab, DEATHS)

    assert "on-host" not in found["there"]
    assert "seen-after" in found.pop("there")
    assert found == {
        "lost": -32001, "other": True, "after": "after\n", "states": ["restarting", "ready", "dead"],
        "refused": [-32002] * 3, "status": "dead", "end": 69, "left": [], "told": 1,
    }  # fmt: skip


REPORTED = r"""
def files(run):
    (record,) = [item for item in json.loads(aisb("ps", "--all", "--json"))["runs"] if item["run"] == run]
    path = record["reason"].rpartition("what this machine may run has changed: ")[2]
    return open(path).read().splitlines() if path.startswith("/") else []
def aisb(*words):
    return subprocess.run(["aisb", *words], capture_output=True, text=True).stdout
def gone(container):
    subprocess.run(["podman", "wait", "--ignore", container], capture_output=True)
s = Session("--net", "none", "-q")
first = s.hello["run"]
planted = s.sh("git init -q lib && git -C lib config core.fsmonitor ./x").result["exitCode"]
if os.environ["VICTIM"] == "aisb":
    s.process.kill(); end = s.wait_for_end()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not files(first) and time.monotonic() < deadline:
        time.sleep(0.05)
    second = ""
else:
    subprocess.run(["podman", "kill", s.hello["container"]], capture_output=True, check=True)
    second = s.note("sandbox", lambda p: p["state"] == "ready")["hello"]["run"]; end = s.end()
where = os.getcwd()
report(planted=planted, end=end, said=[line.replace(where, "P") for line in s.errors.splitlines() if "is new" in line],
       record=[line.replace(where, "P") for line in files(first)], other=files(second) if second else [], left=remains(left))
"""


@pytest.mark.parametrize(("victim", "said", "end"), [("container", 1, 0), ("aisb", 0, -9)])
def test_what_the_first_sandbox_has_left_for_this_machine_to_run_is_told(
    lab: Lab, victim: str, said: int, end: int
) -> None:
    """
    The one that takes its place finds it there, and has nothing to say of it: so it is said and on record before, and
    on record where nobody is left to say it.
    """
    line = "warning: P/lib/.git is new, and git on this machine obeys what is in it: core.fsmonitor=./x; to undo it: rm -rf P/lib/.git"
    assert session(lab, REPORTED, VICTIM=victim) == {
        "planted": 0, "end": end, "said": [f"aisb: {line}"] * said, "record": [line], "other": [], "left": [],
    }  # fmt: skip


ENDS = r"""
import signal
how = os.environ["HOW"]
if how in ("parent", "early"):
    # A parent of its own, which is killed: the client's death is the end of its pipe.
    text = 'import subprocess, sys, time; p = subprocess.Popen(["aisb", "serve", "--net", "none", "-q"], stdin=subprocess.PIPE,'
    text += ' stdout=subprocess.PIPE); early = sys.argv[1] == "early"; print(p.pid, flush=True)\n'
    text += 'if not early: p.stdout.read(100); print("up", flush=True)\ntime.sleep(1000)'
    parent = subprocess.Popen(["python3", "-c", text, how], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    if how == "parent":
        parent.stdout.readline()
    parent.kill(); parent.wait(); code = None
else:
    s = Session("--net", "none", "-q"); pid = s.process.pid
    deaf = s.begin("exec", command=["sh", "-c", f"trap '' TERM HUP INT; echo up; setsid sleep {nap(7201)} & while :; do sleep {nap(7202)}; done"])
    deaf.wait_for(b"up")
    if how == "eof": s.into.close()
    elif how == "half": s.send_bytes(LENGTHS.pack(100, 0) + b"{"); s.into.close()
    elif how == "kill": os.kill(pid, signal.SIGKILL)
    elif how == "garbage": s.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
    else: os.kill(pid, getattr(signal, how))
    code = s.wait_for_end()
def there():
    try: state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except OSError: state = "Z"
    return left() + asleep(7201, 7202) + (["aisb"] if state != "Z" else [])
report(code=code, left=remains(there))
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("eof", 0), ("half", 0), ("garbage", 2), ("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129),
        ("kill", -9), ("parent", None), ("early", None),
    ],
)  # fmt: skip
def test_nothing_is_left_however_a_session_ends(lab: Lab, how: str, code: int | None) -> None:
    """C59: with a command that heeds no signal, and one that left its session; before there is a sandbox, too."""
    assert session(lab, ENDS, HOW=how) == {"code": code, "left": []}


DEAF = r"""
import signal
found = {}
for how in ("eof", "SIGTERM", "stop"):
    s = Session("--net", "none", "-q", keep=False)
    held = threading.Event(); take = s._take
    s._take = lambda header, body: (held.wait(), take(header, body))
    s.begin("exec", command=["sh", "-c", "head -c 300000000 /dev/zero"])
    s.begin("exec", command=["sh", "-c", "echo there >there"])
    # Until nothing gets on any more, and a little longer.
    while not os.path.exists("there"): time.sleep(0.05)
    time.sleep(1)
    if how == "eof": s.into.close()
    elif how == "stop": found["stopped"] = subprocess.run(["aisb", "stop", s.hello["run"]], capture_output=True).returncode
    else: os.kill(s.process.pid, getattr(signal, how))
    found[how] = [s.process.wait(PATIENCE_SECONDS), remains(left)]
    os.remove("there"); held.set()
report(**found)
"""


def test_nothing_waits_for_a_client_that_reads_no_more(lab: Lab) -> None:
    """Its end of file, a signal and `aisb stop` end the session as they end any."""
    assert session(lab, DEAF) == {"eof": [0, []], "SIGTERM": [143, []], "stopped": 0, "stop": [143, []]}


CLOSED = r"""
found = {}
for name, flags, env in (
    ("flag", ("--no-such-flag",), {}), ("words", ("--net", "none", "--", "true"), {}),
    ("policy", ("--allow", "*"), {}), ("unlimited", ("--net", "none", "--require-limits"), {}),
    ("podman", ("--net", "none"), {"PATH": os.path.dirname(__import__("shutil").which("aisb"))}),
):
    s = Session(*flags, env=env)
    found[name] = [s.hello, s.failed and s.failed["exitCode"], s.end()]
done = subprocess.run(["aisb", "serve", "--net", "none"], stdin=subprocess.DEVNULL, capture_output=True)
found["nobody"] = [len(done.stdout) > 8 or done.returncode, done.returncode]
# A pipe that closes at some moment of the start.
codes = set()
for moment in (0, 0.05, 0.1, 0.2, 0.3, 0.5):
    begun = subprocess.Popen(["aisb", "serve", "--net", "none"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(moment)
    begun.communicate()
    codes.add(begun.returncode)
found["hung up"] = list(codes)
report(**found, left=left())
"""


def test_without_a_sandbox_there_is_no_hello(lab: Lab) -> None:
    """Fail closed: the exit code says why, and so does a frame as soon as frames can be written."""
    with lab.without("podman"):
        hidden = session(
            lab, 's = Session("--net", "none")\nreport(found=[s.hello, s.failed and s.failed["exitCode"], s.end()])'
        )
    found = session(lab, CLOSED)

    assert hidden == {"found": [None, 69, 69]}
    assert found["flag"] == [None, None, 2]
    assert found["words"] == [None, None, 2]
    assert found["policy"] == [None, 2, 2]
    assert found["unlimited"] == [None, 77, 77]
    assert found["hung up"] == [0]
    assert found["left"] == []


FORGED = r"""
open("forge.py", "w").write('''
import os, sys
# Words of its own, in the form of the server's, wherever they can be written.
word = b'{"jsonrpc":"2.0","id":1,"result":{"exitCode":0,"signal":null,"ended":"exit","durationMs":1}}'
frame = len(word).to_bytes(4, "big") + bytes(4) + word
print(sum(map(int, [])), end="")
opened = 0
for process in filter(str.isdigit, os.listdir("/proc")):
    for number in ("0", "1", "2"):
        if int(process) == os.getpid() or int(process) == os.getppid(): continue
        try:
            descriptor = os.open(f"/proc/{process}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, frame); opened += 1
        except OSError: pass
print(opened, flush=True)
''')
s = Session("--net", "none", "-q")
victim = s.begin("exec", command=["sh", "-c", "echo up; read x; exit 7"], stdin=True); victim.wait_for(b"up")
attack = s.call("exec", command=["python3", "forge.py"])
s.tell("data", b"go\n", id=victim.number, last=True)
report(code=s.wait(victim).result["exitCode"], attack=attack.result["exitCode"], states=[p for n, p in s.notes if n == "sandbox"],
       status=s.call("status").result["state"], end=s.end(), left=left())
"""


def test_another_process_inside_cannot_answer_in_the_servers_name(lab: Lab) -> None:
    """What the server has open is closed to all others, its keepers' as well."""
    assert session(lab, FORGED) == {"code": 7, "attack": 0, "states": [], "status": "ready", "end": 0, "left": []}


BULK = r"""
s = Session("--net", "none", "-q", keep=False)
def peak(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")) // 1024
inside = s.sh("cat /proc/1/status").bytes and int(open(f"{RUNTIME}/r/{s.hello['run']}/pid").read())
before = peak(s.process.pid), peak(inside)
others = [s.begin("exec", command=["cat"], stdin=True) for _ in range(4)]
for other in others:
    s.tell("data", bytes(1 << 20), id=other.number, last=True)
big = s.begin("exec", command=["sh", "-c", "exec sleep 1000"], stdin=True)
# More than a pipe takes in that nobody reads, whenever that is told.
s.tell("data", bytes(1 << 20), id=big.number); s.tell("data", bytes(1 << 17), id=big.number)
for other in (*others, big):
    s.wait(other)
# Nobody reads for longer than it takes to fill whatever there is on the way.
held = threading.Event(); take = s._take
s._take = lambda header, body: (held.wait(), take(header, body))
flood = s.begin("exec", command=["sh", "-c", "head -c 300000000 /dev/zero; echo done >flooded"])
time.sleep(2); was_stopped = not os.path.exists("flooded"); held.set()
report(flood=s.wait(flood).bytes, stopped=was_stopped, others=[s.wait(other).bytes for other in others], big=s.wait(big).code,
       grown=[peak(pid) - size < 60 for pid, size in zip((s.process.pid, inside), before)], end=s.end(), left=left())
"""


def test_memory_stays_bounded_whoever_does_not_read(lab: Lab) -> None:
    """300 MB that nobody takes stay with the command that writes them; of stdin no more than a mebibyte is under way."""
    assert session(lab, BULK) == {
        "flood": 300_000_000, "stopped": True, "others": [1 << 20] * 4, "big": -32013, "grown": [True, True], "end": 0, "left": [],
    }  # fmt: skip


GATED = r"""
s = Session("--allow", "llm.test", "-q")
denied = s.sh("curl -sS -m 20 http://allowed.test/ ; true").stdout
told = s.note("denied", lambda p: p["host"] == "allowed.test")
added = s.call("allow", entry="exact:allowed.test").result
s.call("watch", allowed=True)
allowed = s.sh("curl -sS -m 20 http://allowed.test/headers >/dev/null && echo in").stdout
seen = s.note("allowed", lambda p: p["host"] == "allowed.test")
wrong = [s.call("allow", entry=entry).code for entry in ("*", "host:1", "192.0.2.1")]
status = s.call("status").result
gate = s.hello["policy"]["gate"]
report(denied="403" in denied, told=[told["reason"], told["entry"], told["port"]], added=added, allowed=allowed, seen=seen["port"],
       wrong=wrong, counts=[status["denied"] >= 1, status["allowed"] >= 1], hello=s.hello["policy"]["allow"], gate=bool(gate),
       end=s.end(), left=left(), none=(lambda t: [t.hello["policy"], t.call("allow", entry="a.test").code, t.end()])(Session("-q")))
"""


def test_what_the_gate_refuses_is_told_and_may_be_allowed(lab: Lab) -> None:
    """With the entry that allows it, live; and where nothing is allowed at all there is no network, which is said."""
    assert session(lab, GATED) == {
        "denied": True, "told": ["not-listed", "allowed.test", 80], "added": {"entries": ["exact:allowed.test"], "opened": ["exact:allowed.test"]}, "allowed": "in\n",
        "seen": 80, "wrong": [-32020] * 3, "counts": [True, True], "hello": ["llm.test"], "gate": True, "end": 0, "left": [],
        "none": [{"net": "none", "allow": [], "rules": [], "gate": None}, -32020, 0],
    }  # fmt: skip
