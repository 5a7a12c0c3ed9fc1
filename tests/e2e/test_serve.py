"""`aisb serve`: what a session's calls do, and that they do it in the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.sandbox import outside, report_of

if TYPE_CHECKING:
    from tests.e2e.lab import Lab


def session(lab: Lab, script: str, *, timeout: float = 150, **variables: str) -> Any:
    """What a script prints that follows the client's text, on the host."""
    given = {"SCRIPT": outside("session") + script, **variables}
    return report_of(lab.run('python3 -c "$SCRIPT"', env=given, timeout=timeout))


CALLS = r"""
os.makedirs("d/e"); open("d/f", "w").write("0123456789"); os.chmod("d/f", 0o640); os.symlink("f", "d/link")
open(b"d/\xff", "w").close(); os.mkfifo("d/fifo"); big = os.urandom(3_000_000); open("big", "wb").write(big)
s = Session("--net", "none", "-q")
def brief(answer):
    if answer.error:
        return answer.error.get("data", {}).get("errno", answer.error["code"])
    return {k: v for k, v in answer.result.items() if k not in ("mtimeMs", "durationMs", "uid", "gid", "links")}
echo = s.begin("exec", command=["cat"], stdin=True)
s.tell("data", b"in", id=echo.number); s.tell("data", b"put", id=echo.number, last=True)
long = s.begin("writeFile", b"a" * 1000, path="long", more=True)
s.tell("data", b"b" * 1000, id=long.number); s.tell("data", b"", id=long.number, last=True)
slow = s.begin("exec", command=["sleep", "1000"]); s.tell("cancel", id=slow.number)
kept = s.begin("writeFile", b"new", path="d/f", more=True); s.tell("cancel", id=kept.number)
whole = s.call("readFile", path="big")
report(
    echo=[brief(s.wait(echo)), echo.stdout, echo.taken],
    exit=brief(s.sh("exit 3")), signal=brief(s.sh("kill -TERM $$")),
    streams=dict((k, v.decode()) for k, v in s.sh("echo out; echo err >&2").streams.items()),
    missing=[brief(s.call("exec", command=["no-such"])), brief(s.call("exec", command=["d"], cwd="d/none"))],
    env=s.call("exec", command=["sh", "-c", "echo $A-${HOME-none}"], env={"A": "b", "HOME": None}).stdout,
    cwd=s.call("exec", command=["pwd"], cwd="d/e").stdout.endswith("/project/d/e\n"),
    timeout=brief(s.call("exec", command=["sleep", "1000"], timeoutMs=100)), cancel=brief(s.wait(slow)),
    whole=[whole.streams["file"] + whole.body == big, brief(whole)],
    part=s.call("readFile", path="big", offset=5, length=7).body == big[5:12],
    no_file=[brief(s.call("readFile", path=p)) for p in ("none", "d", "d/fifo", "/etc/shadow")],
    write=[brief(s.call("writeFile", b"x", path="d/link")), os.readlink("d/link"), os.stat("d/f").st_mode & 0o777,
           open("d/f").read(), brief(s.call("writeFile", b"", path="n", mode=0o700)), os.stat("n").st_mode & 0o777],
    long=[brief(s.wait(long)), open("long").read() == "a" * 1000 + "b" * 1000], kept=[brief(s.wait(kept))],
    no_write=[brief(s.call("writeFile", b"x", path=p)) for p in ("d", "none/x", "/usr/x", ".pi/settings.json")],
    stat=[brief(s.call("stat", path="d/link")), brief(s.call("stat", path="d/link", follow=False))],
    readdir=[json.loads(s.call("readdir", path="d").body), json.loads(s.call("readdir", path="d", after="f").body)],
    strange=brief(s.call("readFile", path="d/\udcff")),
    mkdir=[brief(s.call("mkdir", path=p, recursive=r)) for p, r in (("d", False), ("d", True), ("m/n", False), ("m/n", True))],
    access=[brief(s.call("access", path=p, mode=m)) for p, m in (("d/f", "rw"), ("d/f", "x"), ("no", ""), (".pi", "w"))],
    wrong=[brief(s.call("stat", path="")), brief(s.call("spawn"))],
    deep=[brief(s.call("mkdir", path="/tmp/deep" + "/x" * 1500, recursive=True)), brief(s.call("readFile", path="\u00e9" * 100_000))],
    huge=[s.sh("truncate -s 7E /dev/shm/x").result["exitCode"], brief(s.call("stat", path="/dev/shm/x"))["size"]],
    # What keeps the command is its own to stop, and is ended from outside of its reach.
    stopped=brief(s.call("exec", command=["sh", "-c", "kill -STOP $PPID; sleep 1000"], timeoutMs=100)), there=s.sh("pgrep -c sleep").stdout,
    left_over=sorted(name for name in os.listdir("d") + os.listdir(".") if name.startswith(".aisb")), end=s.end(), left=left(),
)
"""


def test_each_call_does_what_is_written_of_it(lab: Lab) -> None:
    """Commands with their streams, files with their modes, and an error with its number where one cannot be done."""
    assert session(lab, CALLS) == {
        "echo": [{"exitCode": 0, "signal": None, "ended": "exit"}, "input", 5],
        "exit": {"exitCode": 3, "signal": None, "ended": "exit"},
        "signal": {"exitCode": None, "signal": "SIGTERM", "ended": "exit"},
        "streams": {"stdout": "out\n", "stderr": "err\n"},
        "missing": [{"exitCode": 127, "signal": None, "ended": "exit"}, "ENOENT"],
        "env": "b-none\n",
        "cwd": True,
        "timeout": {"exitCode": None, "signal": "SIGKILL", "ended": "timeout"},
        "cancel": {"exitCode": None, "signal": "SIGKILL", "ended": "cancel"},
        "whole": [True, {"size": 3_000_000, "bytes": 3_000_000}],
        "part": True,
        "no_file": ["ENOENT", "EISDIR", "EINVAL", "EACCES"],
        "write": [
            {"bytes": 1, "created": False, "atomic": True}, "f", 0o640, "x",
            {"bytes": 0, "created": True, "atomic": True}, 0o700,
        ],
        "long": [{"bytes": 2000, "created": True, "atomic": True}, True],
        "kept": [-32003],
        "no_write": ["EISDIR", "ENOENT", "EACCES", "EROFS"],
        "stat": [
            {"type": "file", "size": 1, "mode": 0o640},
            {"type": "symlink", "size": 1, "mode": 0o777, "target": "f"},
        ],
        "readdir": [
            [["e", "directory"], ["f", "file"], ["fifo", "fifo"], ["link", "symlink"], ["\udcff", "file"]],
            [["fifo", "fifo"], ["link", "symlink"], ["\udcff", "file"]],
        ],
        "strange": {"size": 0, "bytes": 0},
        "mkdir": ["EEXIST", {"created": False}, "ENOENT", {"created": True}],
        "access": [{}, "EACCES", "ENOENT", "EROFS"],
        "wrong": [-32602, -32601],
        "deep": [{"created": True}, "ENAMETOOLONG"],
        "huge": [0, (1 << 53) - 1],
        "stopped": {"exitCode": None, "signal": "SIGKILL", "ended": "timeout"},
        "there": "0\n",
        "left_over": [],
        "end": 0,
        "left": [],
    }  # fmt: skip


INSIDE = r"""
open(".env", "w").write("SECRET=x"); os.makedirs(".git/hooks")
open(".git/config", "w").write("[core]\n"); here = os.getcwd()
# The base is what the flag says, whatever the variable does.
base = os.environ["AISB_BASE_IMAGE"]
s = Session("--net", "none", "-q", "--base-image", base, env={"AISB_NO_PI_CONFIG": "1", "AISB_BASE_IMAGE": "registry.test/none:1"})
status = {line.split(":")[0]: line.split(":")[1].strip() for line in s.sh("cat /proc/self/status").stdout.splitlines()}
first = {line.split(":")[0]: line.split(":")[1].strip() for line in s.sh("cat /proc/1/status").stdout.splitlines()}
wanted = ("Uid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
canary = os.environ["HOME"] + "/canary"; open(canary, "w").write("host")
report(
    paths=[s.hello["cwd"] == s.hello["project"] == here, s.sh("pwd").stdout == here + "\n",
           s.sh("cd /project && pwd -P").stdout == here + "\n", s.sh("touch " + here + "/by").result["exitCode"],
           os.stat("by").st_uid == os.getuid()],
    who=s.sh("whoami; echo $USER $HOME").stdout.split() == [s.hello["user"], s.hello["user"], "/home/sandbox"],
    same=s.hello["user"] == __import__("pwd").getpwuid(os.getuid()).pw_name,
    command=[status[name] for name in wanted], first=[first[name] for name in wanted],
    spaces=[s.sh(text).result["exitCode"] for text in ("unshare -Urn true", "nsenter -t 1 -n true", "mount -t tmpfs x /mnt",
            "ip link add a type veth", "nft flush ruleset")],
    outside=[s.call("readFile", path=canary).error["data"]["errno"], s.sh("cat " + canary).result["exitCode"]],
    masked=[s.call("readFile", path=".env").result["bytes"], [p for p in s.hello["masked"] if p.endswith("/.env")] != []],
    protected=[s.call("writeFile", b"x", path=p).error["data"]["errno"] for p in (".git/config", ".git/hooks/x", ".pi/x", ".env")],
    moved=s.sh("mv .git .g").result["exitCode"] != 0,
    # Another process of the same user cannot put its own words into the server's mouth, nor end it.
    mouth=[s.sh("echo x >/proc/1/fd/1").result["exitCode"], s.sh("kill -9 1; kill -0 1").result["exitCode"]],
    image=[s.hello["image"] == subprocess.run(["aisb", "build", "-q"], capture_output=True, text=True).stdout.split()[0],
           (lambda t: [t.hello, t.end()])(Session("--net", "none", "-q", "--pull=never", env={"AISB_BASE_IMAGE": "registry.test/none:1"}))],
    end=s.end(), left=left(),
)
"""


def test_calls_are_made_in_the_sandbox_and_nowhere_else(lab: Lab) -> None:
    """A47, A48: as any run; the project at its own path, and its owner's name; a path that is not mounted is not there."""
    dropped = ["1000\t1000\t1000\t1000", "", *["0" * 16] * 5, "1", "2"]
    found = session(lab, INSIDE)

    spaces = found.pop("spaces")
    assert 0 not in spaces
    assert found == {
        "paths": [True, True, True, 0, True],
        "who": True,
        "same": True,
        "command": dropped,
        "first": dropped,
        "outside": ["ENOENT", 1],
        "masked": [0, True],
        "protected": ["EROFS"] * 4,
        "moved": True,
        "mouth": [2, 0],
        "image": [True, [None, 69]],
        "end": 0,
        "left": [],
    }


QUEUE = r"""
s = Session("--net", "none", "-q")
waiting = [s.begin("exec", command=["sh", "-c", "until [ -e go ]; do sleep 0.05; done"]) for _ in range(3)]
flood = s.begin("exec", command=["sh", "-c", "yes | head -c 30000000"])
calls = [s.begin("exec", command=["true"]) for _ in range(50)] + [s.begin("readFile", path="/etc/passwd") for _ in range(50)]
codes = {json.dumps(s.wait(call).result.get("exitCode", 0)) for call in calls}
still = [call.done.is_set() for call in waiting]
open("go", "w").close()
report(codes=sorted(codes), still=still, open=[s.wait(call).result["exitCode"] for call in waiting],
       flood=s.wait(flood).bytes, end=s.end(), left=left())
"""


def test_calls_do_not_wait_for_a_slow_one(lab: Lab) -> None:
    """A hundred are answered while three wait for what comes only afterwards, and one floods."""
    assert session(lab, QUEUE) == {
        "codes": ["0"], "still": [False] * 3, "open": [0] * 3, "flood": 30_000_000, "end": 0, "left": [],
    }  # fmt: skip


TREES = r"""
ESCAPE = '''
import os, sys, time
begun, ours = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
# To its end, which is when the program has begun.
os.close(ours); os.read(begun, 1); os.wait(); print("away", flush=True)
if sys.argv[2] == "stay":
    time.sleep(1000)
'''
HOP = '''
import os, signal, time
if os.fork():
    signal.pause()
os.setsid()
print("away", flush=True)
while True:
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        time.sleep(0.01)
'''
HEADLESS = '''
import ctypes, os, signal, threading, time
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    print("away", flush=True); time.sleep(1000)
if os.fork():
    signal.pause()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
'''
for name, text in (("escape.py", ESCAPE), ("hop.py", HOP), ("headless.py", HEADLESS)):
    open(name, "w").write(text)
s = Session("--net", "none", "-q")
def there(number):
    return s.sh(f"pgrep -f '[s]leep {nap(number)}' | wc -l").stdout.strip()
cancelled = s.begin("exec", command=["python3", "escape.py", nap(7101), "stay"]); cancelled.wait_for(b"away")
before = there(7101); s.tell("cancel", id=cancelled.number); s.wait(cancelled); after = there(7101)
timed = s.call("exec", command=["python3", "escape.py", nap(7102), "stay"], timeoutMs=3000)
# A fork bomb of a kind: each of its processes begins others as fast as it can, up to a bound that dash has no word for.
bomb = s.begin("exec", command=["bash", "-c", "ulimit -u 300 && echo away; f() { sleep " + nap(7103) + " & f & f & wait; }; f"])
bomb.wait_for(b"away"); s.tell("cancel", id=bomb.number); s.wait(bomb)
# Never there when it is looked at: one process ends as the next begins, or is dead but for a thread of it.
def threads():
    return s.sh("ls -d /proc/[0-9]*/task/* | wc -l").stdout
hidden, few = [], threads()
def is_as_before():
    end = time.monotonic() + PATIENCE_SECONDS
    while threads() != few and time.monotonic() < end:
        time.sleep(0.1)
    return threads() == few
for name in ("hop.py", "headless.py"):
    call = s.begin("exec", command=["python3", name]); call.wait_for(b"away")
    s.tell("cancel", id=call.number); s.wait(call); hidden.append([call.result["ended"], is_as_before()])
kept = s.call("exec", command=["python3", "escape.py", nap(7104), "go"])
held = s.sh(f"sleep {nap(7105)} & echo begun")
report(before=before, after=after, cancelled=cancelled.result["ended"], timed=[timed.result["ended"], there(7102)],
       bomb=[bomb.result["ended"], there(7103)], hidden=hidden, kept=[kept.result["exitCode"], there(7104)],
       held=[held.stdout, held.result["exitCode"], there(7105)],
       end=s.end(), gone=asleep(7101, 7102, 7103, 7104, 7105), left=left())
"""


def test_an_end_before_its_time_ends_all_that_a_command_began(lab: Lab) -> None:
    """Whatever session it is in, and however fast it multiplies; what outlives an ordinary end lives on to the session's."""
    found = session(lab, TREES)

    assert found == {
        "before": "1", "after": "0", "cancelled": "cancel", "timed": ["timeout", "0"], "bomb": ["cancel", "0"],
        "hidden": [["cancel", True]] * 2, "kept": [0, "1"], "held": ["begun\n", 0, "1"], "end": 0, "gone": [], "left": [],
    }  # fmt: skip
