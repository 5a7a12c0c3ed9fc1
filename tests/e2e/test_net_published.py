"""`--publish`: a server inside, seen from the host's loopback and from nowhere else, in each network mode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.e2e.legs import needs_sinks

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

# Of the sandbox's side: servers, and what an agent may try with the sockets that it can see.
INSIDE = r"""
import http.server, os, socket, socketserver, threading, time
def page(address, port, text):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.send_header("Content-Length", str(len(text))); self.end_headers()
            self.wfile.write(text.encode())
        def log_message(self, *_): pass
    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
    threading.Thread(target=Server((address, port), Page).serve_forever).start()
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        data = bytearray()
        while piece := self.request.recv(1 << 16): data += piece
        self.request.sendall(data[::-1])
class Echoes(socketserver.ThreadingTCPServer):
    request_queue_size = 128
def echo(port):
    threading.Thread(target=Echoes(("127.0.0.1", port), Echo).serve_forever).start()
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.02)
def tried(what):
    try: what()
    except OSError as error: return error.strerror
    return "done"
def flood(door, canary):
    held = []
    def connect():
        held.append(socket.socket(socket.AF_UNIX)); held[-1].setblocking(False); held[-1].connect(door)
    said = ["done"]
    while said == ["done"] and len(held) < 10000: said = [tried(connect)]
    open("full", "w").close(); wait_for("looked")
    for client in held: tried(lambda: client.send(b"+CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % canary * 50))
    said.append(tried(lambda: os.unlink(door)))
    said.append(tried(lambda: socket.socket(socket.AF_UNIX).bind("/run/aisb/p/1")))
    said.append(tried(lambda: socket.create_connection(("127.0.0.1", canary))))
    with open("said", "w") as file: file.write("; ".join(said))
    os.rename("said", "flooded")
    wait_for("enough")
    for client in held: client.close()
"""

OUTSIDE = r"""
import json, os, random, signal, socket, subprocess, threading, time
V4, V6, ECHO, LATE, NONE, FULL, PINNED, NEXT, CANARY = range(*map(int, os.environ["PORTS"].split()))
def aisb(*words):
    done = subprocess.run(["aisb", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr
def start(name, text, *flags):
    program = f"{os.environ['INSIDE']}\n{text}\nopen('up-{name}', 'w').close()"
    code, run, said = aisb("--ephemeral-home", "--detach", *flags, "--", "python3", "-c", program)
    assert code == 0, said
    wait_for(f"up-{name}")
    return run, said
def until(what):
    deadline = time.monotonic() + 60
    while not what() and time.monotonic() < deadline: time.sleep(0.02)
    return bool(what())
def wait_for(name):
    assert until(lambda: os.path.exists(name)), name
def get(port):
    done = subprocess.run(["curl", "-s", "--max-time", "60", f"http://127.0.0.1:{port}/"], capture_output=True, text=True)
    return done.stdout or done.returncode
def turned(port, data):
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        sender.start()
        got = bytearray()
        while piece := client.recv(1 << 16): got += piece
        sender.join()
    return bytes(got) == data[::-1]
def is_served(port):
    try: return turned(port, b"abc")
    except OSError: return False
def is_refused(port, address="127.0.0.1"):
    try: socket.create_connection((address, port), 60).close()
    except ConnectionRefusedError: return True
    except OSError: return False
    return False
def helpers(port):
    # Both hosts' processes are in sight: the ports tell them apart.
    lines = subprocess.run(["pgrep", "-ax", "sandbox-ports"], capture_output=True, text=True).stdout.splitlines()
    return [line.split()[0] for line in lines if f" {port}:" in line]

canary = socket.create_server(("127.0.0.1", CANARY)); canary.setblocking(False)
run, said = start("allow", f'''
page("127.0.0.1", 3000, "v4"); page("::1", 3001, "v6"); echo(3002)
def later():
    wait_for("go"); page("127.0.0.1", 3003, "late"); open("come", "w").close()
    wait_for("flood"); flood("/run/aisb/p/3002", {CANARY})
threading.Thread(target=later).start()''', "--allow", "allowed.test", "--publish", f"{V4}:3000", "--publish",
    f"127.0.0.1:{V6}:3001", f"--publish={ECHO}:3002", f"--publish={LATE}:3003")
modes = {"none": (NONE, "--net", "none"), "full": (FULL, "--net", "full"), "pinned": (PINNED, "--no-gate", "--allow", "allowed.test")}
others = {}
def begin(name, port, *flags):
    others[name] = start(name, f'page("127.0.0.1", 3000, "{name}")', "-q", "--publish", f"{port}:3000", *flags)[0]
def at_once(*threads):
    for thread in threads: thread.start()
    for thread in threads: thread.join()
at_once(*(threading.Thread(target=begin, args=(name, *rest)) for name, rest in modes.items()))
report = dict(
    said=[line for line in said.splitlines() if "leads to" in line],
    pages=[get(port) for port in (V4, V6, NONE, FULL, PINNED)],
    refused=[is_refused(NEXT), is_refused(V4, "::1"), *(is_refused(V4, address) for address in os.environ["OWN"].split())],
    early=[get(LATE) in (7, 52, 55, 56), is_refused(LATE)],
    whole=turned(ECHO, random.Random(8).randbytes(32 << 20)),
    inspected=json.loads(aisb("inspect", run)[1])["publish"],
    taken=aisb("--net", "none", "--publish", f"{V4}:1", "--", "touch", "begun")[::2],
    begun=os.path.exists("begun"))
silent = [socket.create_connection(("127.0.0.1", ECHO)) for _ in range(50)]
results = []
at_once(*(threading.Thread(target=lambda: results.append(turned(ECHO, os.urandom(70000)))) for _ in range(50)))
for client in silent: client.close()
report["many"] = results == [True] * 50
open("go", "w").close(); wait_for("come")
report["late"] = get(LATE)
(helper,) = helpers(V4)
open("flood", "w").close(); wait_for("full")
report["few"] = until(lambda: len(os.listdir(f"/proc/{helper}/fd")) < 80)
open("looked", "w").close(); wait_for("flooded")
report["flooded"] = open("flooded").read()
report["beside"] = get(V4)
open("enough", "w").close()
report["afterwards"] = until(lambda: is_served(ECHO))
try: canary.accept(); report["canary"] = "reached"
except BlockingIOError: report["canary"] = "nobody came"
report["stopped"] = [aisb("stop", run)[0], is_refused(V4), helpers(V4), get(NONE)]
with open(f"{os.environ['XDG_RUNTIME_DIR']}/aisb/r/{others.pop('none')}/owner") as file: os.kill(int(file.read().split()[0]), signal.SIGKILL)
report["killed"] = [until(lambda: is_refused(NONE)), until(lambda: not helpers(NONE))]
at_once(*(threading.Thread(target=aisb, args=("stop", other)) for other in others.values()))
print(json.dumps(report))
"""


def test_a_server_inside_is_reached_from_this_machine_alone(lab: Lab) -> None:
    """
    Also one that listens on its loopback alone, or comes later, with and without a network; by many at once, and whole.

    A sandbox that floods the sockets that it sees reaches nothing by them; no port is left of a run that has ended.
    """
    # The hosts share one table of processes.
    first = 21080 if lab.name == "debian13" else 22080
    v4, v6, echo, late = range(first, first + 4)
    env = {"INSIDE": INSIDE, "PORTS": f"{first} {first + 9}", "OWN": "203.0.113.2 2001:db8::2"}
    result = lab.run("python3 -", stdin=OUTSIDE.encode(), env=env)

    assert result.code == 0, result.errors
    assert json.loads(result.text) == {
        "said": [
            f"aisb: 127.0.0.1:{port} of this machine leads to port {inside} inside"
            for port, inside in ((v4, 3000), (v6, 3001), (echo, 3002), (late, 3003))
        ],
        "pages": ["v4", "v6", "none", "full", "pinned"],
        "refused": [True] * 4,
        "early": [True, False],
        "whole": True,
        "inspected": [f"{v4}:3000", f"{v6}:3001", f"{echo}:3002", f"{late}:3003"],
        "taken": [
            69,
            f"aisb: --publish {v4}:1: nothing can listen on 127.0.0.1:{v4} of this machine: Address already in use\n"
            f"aisb:   see who does: ss -ltnp 'sport = :{v4}'; or take another port: --publish PORT:1\n",
        ],
        "begun": False,
        "many": True,
        "late": "late",
        "flooded": "Resource temporarily unavailable; Read-only file system; Read-only file system; Connection refused",
        "few": True,
        "beside": "v4",
        "afterwards": True,
        "canary": "nobody came",
        "stopped": [0, True, [], "none"],
        "killed": [True, True],
    }
