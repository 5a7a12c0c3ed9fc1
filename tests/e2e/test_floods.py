"""A sandbox that asks for as much as it can get: its gate goes on for the others, and the host for its user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.e2e.legs import needs_sinks

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

# A head without an end, connections that say nothing, and names that nobody has; it goes on with all of them in its hands.
FLOOD = r"""
import json, os, resource, socket, time, urllib.request
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
head, said, end = socket.create_connection(("127.0.0.1", 3128)), b"", time.monotonic() + 30
head.sendall(b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX: ")
head.setblocking(False)
def try_to(do, what):
    try:
        return do(what)
    except OSError:
        return b""
# It is answered before it has an end, or never.
while not said and time.monotonic() < end:
    try_to(head.send, b"x" * (1 << 20))
    said = try_to(head.recv, 64)
held = []
for _ in range(3000):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(2)
    try:
        client.connect("/run/aisb/gate/gate.sock")
    except OSError:
        break
    client.setblocking(False)
    held.append(client)
# Those above its share are told so.
refused, end = 0, time.monotonic() + 30
while refused < 100 and time.monotonic() < end:
    refused += sum(b" 403 " in try_to(client.recv, 64) for client in held)
    time.sleep(0.1)
server = next(line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver"))
asking, answered = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
asking.connect((server, 53))
asking.setblocking(False)
for number in range(20_000):
    name = b"n%06d" % number
    try:
        asking.send(number.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0\7" + name + b"\4evil\4test\0\0\1\0\1")
        while asking.recv(512):
            answered += 1
    except OSError:
        pass
open("flooding", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
for client in held:
    client.close()
def page():
    try:
        return urllib.request.urlopen("http://allowed.test/", timeout=5).status
    except OSError as error:
        return str(error)
# What it had in its hands is taken back a moment later.
end = time.monotonic() + 20
while (after := page()) != 200 and time.monotonic() < end:
    time.sleep(0.2)
print(json.dumps({"head": said[:12].decode(), "refused": refused >= 100, "answered": answered > 0, "after": after}))
"""
BESIDE = r"""
mkdir a b; cd a
aisb -q --allow allowed.test -- python3 -c "$FLOOD" >said & flood=$!
until [ -e flooding ] || ! kill -0 $flood; do sleep 0.05; done; cd ../b
aisb -q --allow allowed.test -- curl -sS -o /dev/null -w '%{http_code}\n' http://allowed.test/
aisb ps | grep -c /project/a; aisb gate status >/dev/null; echo "gate $?"; aisb clean >/dev/null 2>&1; echo "clean $?"
touch ../a/go; wait $flood; echo "ended $?"; cat ../a/said
"""


def test_what_one_sandbox_floods_the_others_have_still(lab: Lab) -> None:
    """
    C47, A58: a head, sockets and names without end. The head is refused, and what is above its share of sockets is refused. A
    run with the same gate gets its page meanwhile, and `ps`, `clean` and `gate status` answer. Its own is served again
    once it lets go.

    Of A58 the processes are shown in tests/vm/test_caps.py, a full disk in test_faults_disk.py, and what a gate does
    with heads and floods in tests/tools/test_gate.py and test_load.py.
    """
    result = lab.run(BESIDE, env={"FLOOD": FLOOD}, timeout=200)

    *lines, said = result.text.splitlines()
    assert lines == ["200", "1", "gate 0", "clean 0", "ended 0"], result.errors
    assert json.loads(said) == {"head": "HTTP/1.1 400", "refused": True, "answered": True, "after": 200}
    assert [event for event in lab.sinks("question") if "evil" in event.get("name", "")] == []
