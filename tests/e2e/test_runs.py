"""`aisb exec`, `ps` and `stop`: one more command in a sandbox that runs, and its end from outside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.e2e.test_serve import session

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

BESIDE = r"""
import signal
def aisb(*words, stdin=b"", env=None):
    done = subprocess.run(["aisb", *words], input=stdin, capture_output=True, env=os.environ | (env or {}))
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode()
s = Session("--net", "none", "-q", "--env", "OF_RUN", "--env", "BOTH=run", env={"OF_RUN": "run\n=s3cret"})
run = s.hello["run"]; here = os.getcwd()
os.makedirs("sub")
wanted = ("Uid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
text = aisb("exec", run, "--", "cat", "/proc/self/status")[1]
status = {line.split(":")[0]: line.split(":")[1].strip() for line in text.splitlines()}
# What a later command began ends with its aisb, in whatever session it is and whoever has begun it.
killed = {}
for how in ("SIGKILL", "SIGTERM", "SIGINT"):
    deaf = f"trap '' TERM INT; (setsid sleep {nap(7301)} &); echo up; while :; do sleep {nap(7301)}; done"
    begun = subprocess.Popen(["aisb", "exec", run, "--", "sh", "-c", deaf], stdout=subprocess.PIPE)
    begun.stdout.readline(); begun.send_signal(getattr(signal, how)); begun.wait()
    killed[how] = remains(lambda: asleep(7301))
(listed,) = [item for item in json.loads(aisb("ps", "--json")[1])["runs"] if item["run"] == run]
(shown,) = [line.split() for line in aisb("ps")[1].splitlines() if line.startswith(run)]
began = time.monotonic(); aisb("ps"); quick = time.monotonic() - began
found = dict(
    bytes=aisb("exec", run[:4], "--", "cat", stdin=bytes(range(256)) * 4000)[1] == bytes(range(256)).decode("latin-1") * 4000,
    code=aisb("exec", ".", "--", "sh", "-c", "exit 7")[0], missing=aisb("exec", run, "--", "no-such")[0],
    nowhere=aisb("exec", run, "--cwd", "none", "--", "touch", "ran")[0], not_run=os.path.exists("ran"),
    cwd=[aisb("exec", run, *flags, "--", "pwd")[1] for flags in ((), ("--cwd", "sub"), ("--cwd=/tmp",))] == [here + "\n", here + "/sub\n", "/tmp\n"],
    env=aisb("exec", run, "--env", "A_KEY", "--env", "B=c", "--", "sh", "-c", "echo $A_KEY $B $USER $HOME", env={"A_KEY": "s3cret"})[1].split()[0::2],
    noted=[aisb("exec", run, "--env", text, "--", "true", env={"A_KEY": "s3cret"})[2] for text in ("A_KEY", "B=c")],
    given=aisb("exec", run, "--env", "BOTH=exec", "--", "sh", "-c", 'echo "$OF_RUN $BOTH"')[1],
    inspected="s3cret" in subprocess.run(["podman", "inspect", "aisb-run-" + run], capture_output=True, text=True).stdout,
    dropped=[status[name] for name in wanted], spaces=aisb("exec", run, "--", "unshare", "-Urn", "true")[0] != 0,
    killed=killed, listed=[listed["project"] == here, listed["command"], listed["seconds"] >= 0, 1 << 20 < listed["memory"] < 1 << 30, listed["net"], listed["denials"]],
    shown=[word for word in shown[2:-1] if word not in ("kB", "MB")][1:], quick=quick < 5,
    inspected_run=(lambda it: [it["run"] == run, it["project"] == here, it["container"] == s.hello["container"], it["image"] == s.hello["image"],
        it["state"], it["net"], it["gate"], it["cwd"] == here, {"source": here, "target": here, "readOnly": False} in it["mounts"],
        "s3cret" in json.dumps(it)])(json.loads(aisb("inspect", run[:6])[1])),
    usage=[aisb(*words)[0] for words in (("exec", run), ("inspect", "ffffffff"), ("inspect", run, "--packages"), ("exec", "--", "true"), ("exec", "ffffffff", "--", "true"), ("exec", run, "--x", "--", "y"))],
    both=s.sh("echo still").stdout,
)
tty = subprocess.run(["script", "-qec", f"aisb exec --tty {run} -- sh -c 'test -t 0 && test -t 1 && echo a tty'", "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
stopped = aisb("stop", run)
report(**found, tty=tty.endswith("a tty\n"), stopped=stopped[0], end=s.wait_for_end(),
    ended=[[it["exit"], it["by"]] for it in json.loads(aisb("ps", "--all", "--json")[1])["runs"] if it["run"] == run], again=aisb("stop", run)[0], still=run in aisb("ps")[1], left=left())
"""


IN_SIGHT = (
    "everybody on this machine can read that in the process list (ps); "
    "what is passed on by its name is private: --env NAME"
)


def test_one_more_command_is_as_any_of_its_sandbox(lab: Lab) -> None:
    """A47, A48: the same drop, the run's variables and its own by a memory file, and nothing of it outlives its aisb."""
    dropped = ["1000\t1000\t1000\t1000", "", *["0" * 16] * 5, "1", "2"]
    assert session(lab, BESIDE) == {
        "bytes": True, "code": 7, "missing": 127, "nowhere": 2, "not_run": False, "cwd": True, "env": ["s3cret", "aisb-lab"],
        "noted": ["", f"aisb: note: --env B=...: {IN_SIGHT}\n"],
        "given": "run\n=s3cret exec\n", "inspected": False, "dropped": dropped,
        "spaces": True, "killed": {"SIGKILL": [], "SIGTERM": [], "SIGINT": []}, "listed": [True, "serve", True, True, "none", None],
        "shown": ["-", "-", "none", "serve"], "quick": True, "usage": [2] * 6, "inspected_run": [True, True, True, True, "running", "none", None, True, True, False], "both": "still\n", "tty": True, "stopped": 0, "end": 143, "again": 2,
        "ended": [[143, "signal"]], "still": False, "left": [],
    }  # fmt: skip


DETACHED = r"""
def aisb(*words):
    done = subprocess.run(["aisb", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
text = 'echo begun >begun; read x && echo read; while [ ! -e stop ]; do sleep 0.05; done; echo over >over'
code, run, said = aisb("run", "--net", "none", "-q", "--ephemeral-home", "--detach", "--", "sh", "-c", text)
run = run.strip()
inside = aisb("exec", run, "--", "cat", "begun")[1]
(listed,) = [item for item in json.loads(aisb("ps", "--json")[1])["runs"] if item["run"] == run]
open("stop", "w").close()
over = remains(left)
other = aisb("--net", "none", "-q", "--ephemeral-home", "--detach", "--", "sleep", nap(7401))[1].strip()
stopped = aisb("stop", other)[0]
gone = asleep(7401)
report(code=code, id=len(run), said=said, inside=inside, listed=listed["command"], over=[over, open("over").read()],
       stopped=stopped, gone=gone, missing=[aisb("--detach", "--net", "none", "-q", "--ephemeral-home", "--", name) for name in ("no-such", "/etc/passwd")],
       refused=[aisb(*words)[:2] for words in (("--detach", "--allow", "*", "--", "true"), ("--detach", "--net", "none"))], left=remains(left),
       ended=[[it["exit"], it["by"], it["reason"]] for it in json.loads(aisb("ps", "--all", "--json")[1])["runs"]][-2:],
       shown=[(lambda it: [it["state"], it["exit"], it["command"]])(json.loads(aisb("inspect", other)[1]))])
"""


def test_a_run_goes_on_without_a_terminal_until_it_ends(lab: Lab) -> None:
    """
    Its id is the answer, once its command has begun; what cannot begin says so, with its code, and is on record with
    the reason, and so is what nobody could speak with.
    """
    assert session(lab, DETACHED) == {
        "code": 0, "id": 8, "said": "", "inside": "begun\n", "listed": "sh", "over": [[], "over\n"], "stopped": 0, "gone": [],
        "missing": [[127, "", "aisb: no-such: command not found\n"], [126, "", "aisb: /etc/passwd: not executable\n"]],
        "refused": [[2, ""], [2, ""]], "left": [], "ended": [
            [127, "command", "there is no such command inside"],
            [126, "command", "there is such a command inside, and it cannot be executed"],
        ],
        "shown": [["ended", 143, "sleep"]],
    }  # fmt: skip


DENIED = r"""
def aisb(*words):
    done = subprocess.run(["aisb", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return [done.returncode, done.stdout, done.stderr]
def get(s, *names):
    text = "for name; do curl -s -o /dev/null -m 30 -w '%{http_code} ' http://$name/; done"
    return aisb("exec", s.hello["run"], "--", "sh", "-c", text, "sh", *names)
one, two, earlier = (os.environ[name] for name in ("ONE", "TWO", "EARLIER"))
s = Session("--allow", one, "-q")
s.sh(f"curl -s -m 30 http://{earlier}/"); s.note("denied", lambda p: p["host"] == earlier)
found = dict(allowed=get(s, one), denied=get(s, one, two, two), quiet=get(s, one))
aisb("deny", one, "--run", s.hello["run"])
found |= dict(closed=get(s, one), end=s.end(), left=left())
log = [json.loads(line) for line in aisb("logs", s.hello["run"], "--json")[1].splitlines()]
wide = Session("--allow", two, "-q")
report(**found, recorded=[item["decision"] for item in log if item["host"] == two], wide=get(wide, two), over=wide.end())
"""


def test_what_a_later_command_is_denied_is_recorded_and_told_at_its_end(lab: Lab) -> None:
    """
    That of its own time alone, with what would allow it; the same name is reached in a run that has it, and what was
    denied never arrived.
    """
    one, two, earlier = (f"x{os.urandom(4).hex()}.allowed.test" for _ in range(3))
    found = session(lab, DENIED, ONE=one, TWO=two, EARLIER=earlier)

    cure = f"no entry of the policy covers this host; to allow it, add: --allow {two}"
    assert found == {
        "allowed": [0, "200 ", ""], "denied": [0, "200 403 403 ", f"aisb: denied {two}:80 (2 times): {cure}\n"],
        "quiet": [0, "200 ", ""], "closed": [0, "403 ", f"aisb: denied {one}:80: the user has closed it for this run\n"],
        "end": 0, "left": [], "recorded": ["deny", "deny"], "wide": [0, "200 ", ""], "over": 0,
    }  # fmt: skip
    assert sorted(request["host"] for request in lab.sinks("request")) == sorted([one, one, one, two])
